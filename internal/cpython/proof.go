package cpython

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/spanflame/spanflame/internal/proc"
)

// proof is every byte that a walk through the target's memory depended on. If
// all of them read the same again, the walk would come to the same answer,
// whatever was freed and reused in between.
type proof struct {
	pieces []piece
	data   []byte
}

type piece struct {
	addr     uint64
	from, to int // in data
}

func (p *proof) reset() { p.pieces, p.data = p.pieces[:0], p.data[:0] }

// add records that addr read buf.
func (p *proof) add(addr uint64, buf []byte) {
	from := len(p.data)
	p.data = append(p.data, buf...)
	p.pieces = append(p.pieces, piece{addr, from, len(p.data)})
}

// walk reads and, where there is a proof, records. The first failure sticks.
type walk struct {
	r     *Reader
	proof *proof
	err   error

	near [4]readAhead
	next int // of near, to be replaced

	// The object whose attribute was walked to last.
	object uint64
	values uint64 // that were read ahead
	head   []byte
	info   *typeInfo
}

// readAhead is what was read of the neighbourhood of an address, in one call
// instead of several. Only what is then asked for belongs to the proof.
type readAhead struct {
	addr uint64
	buf  []byte
}

// ahead reads n bytes at addr for reads to come. They do without, should it fail.
func (w *walk) ahead(addr, n uint64) {
	if w.err != nil || addr < 4096 {
		return
	}
	slot := &w.near[w.next]
	w.next = (w.next + 1) % len(w.near)
	if uint64(cap(slot.buf)) < n {
		slot.buf = make([]byte, n)
	}
	slot.addr, slot.buf = addr, slot.buf[:n]
	if w.r.readInto(slot.buf, addr) != nil {
		slot.buf = slot.buf[:0]
	}
}

// at fills buf from what was read ahead.
func (w *walk) at(buf []byte, addr uint64) bool {
	for i := range w.near {
		slot := &w.near[i]
		if from := addr - slot.addr; addr >= slot.addr && from+uint64(len(buf)) <= uint64(len(slot.buf)) {
			copy(buf, slot.buf[from:])
			return true
		}
	}
	return false
}

// fail sets the error, if there is one and none is set.
func (w *walk) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

// read returns n bytes at addr; zeros after a failure.
func (w *walk) read(addr, n uint64) []byte {
	buf := make([]byte, n)
	if w.err != nil {
		return buf
	}
	if !w.at(buf, addr) {
		if w.err = w.r.readInto(buf, addr); w.err != nil {
			return buf
		}
	}
	switch {
	case w.proof == nil:
	case len(w.proof.data)+len(buf) > maxProof:
		w.fail(errMalformed)
	default:
		w.proof.add(addr, buf)
	}
	return buf
}

func (w *walk) word(addr uint64) uint64 { return le.Uint64(w.read(addr, 8)) }

// gather merges pieces that lie close together into one range: a range costs
// the kernel more than a kilobyte does.
type gather struct {
	spans  []span
	places []place
	merged []span
	order  []int
}

type span struct{ addr, size uint64 }

// place is where a piece lies in the merged spans.
type place struct{ span, offset int }

// maxGap is what is read between two pieces rather than making them two
// ranges. It is less than a page, so that no page is touched that holds neither.
const maxGap = 2048

// plan computes how to read the spans.
func (g *gather) plan() {
	g.merged, g.order = g.merged[:0], g.order[:0]
	for i := range g.spans {
		g.order = append(g.order, i)
	}
	slices.SortFunc(g.order, func(a, b int) int { return cmp.Compare(g.spans[a].addr, g.spans[b].addr) })
	g.places = slices.Grow(g.places[:0], len(g.spans))[:len(g.spans)]
	for _, i := range g.order {
		s := g.spans[i]
		if n := len(g.merged); n > 0 {
			last := &g.merged[n-1]
			if from := s.addr - last.addr; from <= last.size+maxGap {
				last.size = max(last.size, from+s.size)
				g.places[i] = place{n - 1, int(from)}
				continue
			}
		}
		g.merged = append(g.merged, s)
		g.places[i] = place{len(g.merged) - 1, 0}
	}
}

// reading is one reading of a gather.
type reading struct {
	g    *gather
	bufs [][]byte
}

// at returns the bytes of the i-th span.
func (r *reading) at(i int) []byte {
	p := r.g.places[i]
	return r.bufs[p.span][p.offset : p.offset+int(r.g.spans[i].size)]
}

// append adds the merged ranges to those of one call.
func (r *reading) append(b *batch, g *gather) {
	r.g, r.bufs = g, r.bufs[:0]
	for _, s := range g.merged {
		r.bufs = append(r.bufs, b.want(s.addr, s.size))
	}
}

// holds reports whether the first n pieces read what they read for the proof. The
// first of them is that reading's piece number from.
func (p *proof) holds(now *reading, from, n int) bool {
	for i, piece := range p.pieces[:n] {
		if !bytes.Equal(now.at(from+i), p.data[piece.from:piece.to]) {
			return false
		}
	}
	return true
}

// add adds pieces of a proof.
func (g *gather) add(pieces []piece) {
	for _, piece := range pieces {
		g.spans = append(g.spans, span{piece.addr, uint64(piece.to - piece.from)})
	}
}

// batch is one call that reads several ranges. What it read is good until its
// next start.
type batch struct {
	arena  []byte
	ranges []proc.Range
}

// start begins a new call: buffers of the last one are reused.
func (b *batch) start() { b.arena, b.ranges = b.arena[:0], b.ranges[:0] }

// want adds a range to the call that is being put together.
func (b *batch) want(addr, size uint64) []byte {
	if uint64(cap(b.arena)-len(b.arena)) < size {
		b.arena = make([]byte, 0, max(64<<10, 2*cap(b.arena), int(size)))
	}
	from := len(b.arena)
	b.arena = b.arena[:from+int(size)]
	buf := b.arena[from:]
	b.ranges = append(b.ranges, proc.Range{Addr: addr, Buf: buf})
	return buf
}
