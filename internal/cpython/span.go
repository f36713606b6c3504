package cpython

import (
	"encoding/binary"
	"fmt"

	"github.com/spanflame/spanflame/profile"
)

// Otel are the objects in a target from which a thread's current span is
// found, by address. The target keeps them alive.
type Otel struct {
	ContextVar uint64 // that holds OpenTelemetry's current Context
	SpanKey    uint64 // key of the current span in that Context
	RootVar    uint64 // ContextVar for roots that were never made current; 0: none
}

// Span is the span that a thread was in.
type Span struct {
	Link profile.Link // zero: in none that is sampled and has not ended
	// RootName is the present name of the local root span, if Link.Root is known.
	RootName string

	end slot // where the current span's end time is
}

type spanFinder struct {
	otel              Otel
	varHash, rootHash uint64
}

// SetOtel says where OpenTelemetry's objects are.
func (r *Reader) SetOtel(otel Otel) error {
	if otel.ContextVar == 0 || otel.SpanKey == 0 {
		return nil // a runtime context that is no ContextVar: no links
	}
	finder := &spanFinder{otel: otel}
	var err error
	if finder.varHash, err = r.word(otel.ContextVar + r.layout.context.varHash); err != nil {
		return fmt.Errorf("read context variable: %w", err)
	}
	if otel.RootVar != 0 {
		if finder.rootHash, err = r.word(otel.RootVar + r.layout.context.varHash); err != nil {
			return fmt.Errorf("read context variable: %w", err)
		}
	}
	r.spans = finder
	return nil
}

// HasOtel reports whether spans are looked for.
func (r *Reader) HasOtel() bool { return r.spans != nil }

// standing is what a span object means for the samples of a thread.
type standing uint8

const (
	absent   standing = iota // no span of this process
	blocking                 // a span that has ended or is not sampled
	active
)

// find walks from a context to the span that is current in it.
func (f *spanFinder) find(w *walk, context uint64) Span {
	vars := w.word(context + w.r.layout.context.vars)
	if w.err != nil {
		return Span{}
	}
	if current := w.hamtFind(vars, f.otel.ContextVar, f.varHash); current != 0 {
		if object := w.keyed(current, f.otel.SpanKey).value; object != 0 {
			if span, s := w.span(object); s != absent {
				return span
			}
		}
	}
	if f.otel.RootVar == 0 {
		return Span{}
	}
	if object := w.hamtFind(vars, f.otel.RootVar, f.rootHash); object != 0 && object != w.r.Image.None {
		span, _ := w.span(object)
		return span
	}
	return Span{}
}

// span walks through a span object of the OpenTelemetry SDK or API.
func (w *walk) span(object uint64) (Span, standing) {
	ids := w.spanContext(object)
	if w.err != nil || ids.trace.IsZero() || ids.span.IsZero() {
		return Span{}, absent
	}
	end := w.attribute(object, "_end_time")
	if end.value == 0 { // a NonRecordingSpan: from another process, or dropped by the sampler
		if ids.remote {
			return Span{}, absent
		}
		return Span{}, blocking
	}
	if end.value != w.r.Image.None || !ids.sampled {
		return Span{}, blocking
	}
	found := Span{Link: profile.Link{Trace: ids.trace, Span: ids.span}, end: end}
	// Left there by the shim's span processor: a str on a local root, the local
	// root's object on every other span.
	root := w.attribute(object, "_spanflame_root").value
	if root == 0 || w.err != nil {
		return found, active
	}
	if w.word(root+objectType) == w.r.Image.StrType {
		root, found.Link.Root = object, ids.span
	} else {
		found.Link.Root = w.spanContext(root).span
	}
	if name := w.attribute(root, "_name").value; name != 0 {
		found.RootName = w.str(name)
	}
	return found, active
}

type spanIDs struct {
	trace           profile.TraceID
	span            profile.SpanID
	remote, sampled bool
}

// spanContext walks to a span's SpanContext, a tuple of trace id, span id, is
// remote, trace flags, ….
func (w *walk) spanContext(object uint64) (ids spanIDs) {
	tuple := w.attribute(object, "_context").value
	if tuple == 0 || w.err != nil {
		return ids
	}
	items := w.read(tuple+w.r.layout.tupleItems, 4*8)
	var objects [4][]byte
	w.r.small.start()
	for i := range objects {
		objects[i] = w.r.small.want(le.Uint64(items[8*i:])+w.r.layout.intSize, intSpan)
	}
	if _, err := w.r.mem.Read(w.r.small.ranges); err != nil && w.err == nil {
		for i := range objects { // one may lie at the end of what is mapped
			objects[i] = w.integer(le.Uint64(items[8*i:]))
		}
	}
	value := func(i int) []byte { return w.value(le.Uint64(items[8*i:]), objects[i]) }
	copy(ids.trace[:], value(0))
	copy(ids.span[:], value(1)[8:])
	ids.remote = value(2)[15]&1 == 1
	ids.sampled = value(3)[15]&1 == 1
	return ids
}

// An int of at most 128 bits has five digits, after their count.
const (
	digitBits = 30
	maxDigits = 5
	intSpan   = 8 + 4*maxDigits
)

// integer reads an int object from its count of digits to the last of them.
func (w *walk) integer(addr uint64) []byte {
	object := make([]byte, intSpan)
	size := w.r.layout.intSize
	if w.err == nil {
		w.err = w.r.readInto(object[:8], addr+size)
	}
	if w.err == nil {
		count, _ := w.r.layout.digits(le.Uint64(object))
		w.err = w.r.readInto(object[8:8+4*min(count, maxDigits)], addr+size+8)
	}
	return object
}

// value walks to the value of an int of at most 128 bits, big-endian. object is
// what was read of it.
func (w *walk) value(addr uint64, object []byte) []byte {
	var value [16]byte
	count, ok := w.r.layout.digits(le.Uint64(object))
	if !ok || count > maxDigits {
		w.fail(errMalformed) // negative, or longer than any id
	}
	if w.err != nil {
		return value[:]
	}
	if w.proof != nil {
		w.proof.add(addr+w.r.layout.intSize, object[:8+4*count])
	}
	digits := object[8:]
	var high, low uint64
	for i := int(count) - 1; i >= 0; i-- {
		high = high<<digitBits | low>>(64-digitBits)
		low = low<<digitBits | uint64(le.Uint32(digits[4*i:]))
	}
	binary.BigEndian.PutUint64(value[:], high)
	binary.BigEndian.PutUint64(value[8:], low)
	return value[:]
}
