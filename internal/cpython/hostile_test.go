package cpython

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/spanflame/spanflame/internal/proc"
)

// hostileBudget is what a target may make us read by what its memory says, for
// all calls of provoke. Readings that make no sense are repeated.
const hostileBudget = 1 << 30

// pristine is what is found in the dump before it is changed.
type pristine struct {
	otel Otel
	refs []ThreadRef
}

func findAll(t testing.TB, minor int) pristine {
	t.Helper()
	d := openDump(t, minor, 64<<20)
	r, err := newReader(d, d.Image)
	if err != nil {
		t.Fatal(err)
	}
	var p pristine
	if p.otel, err = r.FindOtel(); err != nil {
		t.Fatal(err)
	}
	if p.refs, err = r.Threads(); err != nil {
		t.Fatal(err)
	}
	return p
}

// provoke calls all that there is, whatever it returns. Nothing may panic,
// loop, or read more than the memory allows.
func provoke(t testing.TB, mem Memory, image Image, p pristine) {
	t.Helper()
	begin := time.Now()
	r, err := newReader(mem, image)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = r.checkPublished(), r.checkStructures()
	_, _ = r.Generation()
	_, _ = r.Threads()
	_, _ = r.ThreadNames(func(uint64) bool { return true })
	if otel, err := r.FindOtel(); err == nil {
		_ = r.SetOtel(otel)
	}
	if !r.HasOtel() {
		_ = r.SetOtel(p.otel)
	}
	for _, ref := range p.refs {
		thread := r.Thread(ref)
		for range 2 {
			_ = thread.Sample()
			for _, f := range thread.Frames {
				_ = f.Code.Line(f.Offset)
			}
			_ = thread.SpanEnded()
		}
	}
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
}

// TestHostileMemory overwrites one word at a time: with itself for a cycle,
// with its neighbour, with what is no pointer, with sizes beyond measure.
func TestHostileMemory(t *testing.T) {
	for _, minor := range dumpMinors {
		t.Run(fmt.Sprintf("3.%d", minor), func(t *testing.T) { hostileMemory(t, minor) })
	}
}

func hostileMemory(t *testing.T, minor int) {
	p := findAll(t, minor)
	l, err := layoutOf(Version{3, minor, 0})
	if err != nil {
		t.Fatal(err)
	}
	interp := func(d *dump) uint64 { return p.refs[0].interp }
	victim := p.refs[1].addr
	state := func(field uint64) func(*dump) uint64 {
		return func(*dump) uint64 { return victim + field }
	}
	through := func(at func(*dump) uint64, field uint64) func(*dump) uint64 {
		return func(d *dump) uint64 {
			if word := d.word(at(d)); word != nil {
				return le.Uint64(word) + field
			}
			return 0
		}
	}
	frame := through(state(l.thread.cframe), l.thread.cframeCurrent)
	if l.thread.current != 0 {
		frame = state(l.thread.current)
	}
	code := through(through(frame, l.frame.code), 0)
	chunk := through(state(l.thread.chunk), 0)
	modules := through(func(d *dump) uint64 { return interp(d) + l.interpModules }, 0)
	hamt := through(through(state(l.thread.context), l.context.vars), l.context.hamtRoot)
	pair := through(hamt, l.context.bitmapArray)
	for _, ref := range p.refs { // one in whose context that is
		if d := openDump(t, minor, 0); d.word(pair(d)) == nil {
			victim = ref.addr
		}
	}
	at := func(base func(*dump) uint64, field uint64) func(*dump) uint64 {
		return func(d *dump) uint64 { return base(d) + field }
	}
	for name, address := range map[string]func(*dump) uint64{
		"interpreters":        func(d *dump) uint64 { return d.Image.Runtime + l.interpretersHead },
		"next interpreter":    func(d *dump) uint64 { return interp(d) + l.interpNext },
		"threads":             func(d *dump) uint64 { return interp(d) + l.interpThreads + l.threadsHead },
		"next thread":         state(l.thread.next),
		"cframe":              state(l.thread.cframe),
		"current frame":       frame,
		"chunk":               state(l.thread.chunk),
		"top of the chunk":    state(l.thread.stackTop),
		"previous chunk":      at(chunk, l.thread.chunkPrevious),
		"size of the chunk":   at(chunk, l.thread.chunkSize),
		"previous frame":      through(frame, l.frame.previous),
		"code of a frame":     through(frame, l.frame.code),
		"instruction":         through(frame, l.frame.instr),
		"file name":           at(code, l.code.fileName),
		"function":            at(code, l.code.qualName),
		"length of a str":     through(at(code, l.code.qualName), l.str.length),
		"state of a str":      through(at(code, l.code.qualName), l.str.state),
		"line table":          at(code, l.code.lineTable),
		"its size":            through(at(code, l.code.lineTable), varSize),
		"type of the code":    at(code, objectType),
		"stack size":          at(code, l.code.stackSize),
		"size of a code":      at(code, varSize),
		"context":             state(l.thread.context),
		"variables":           through(state(l.thread.context), l.context.vars),
		"hamt":                through(through(state(l.thread.context), l.context.vars), l.context.hamtRoot),
		"kind of hamt node":   through(hamt, objectType),
		"bitmap":              through(hamt, l.context.bitmap),
		"first of the node":   pair,
		"second of the node":  through(hamt, l.context.bitmapArray+8),
		"modules":             func(d *dump) uint64 { return interp(d) + l.interpModules },
		"keys of modules":     at(modules, l.dict.keys),
		"values of modules":   at(modules, l.dict.values),
		"log2 of the keys":    through(at(modules, l.dict.keys), l.dict.log2Size),
		"number of keys":      through(at(modules, l.dict.keys), l.dict.entries),
		"OpenTelemetry's key": func(*dump) uint64 { return p.otel.ContextVar + l.context.varHash },
	} {
		t.Run(name, func(t *testing.T) {
			for _, value := range []uint64{0, 1, 8, 4096, math.MaxInt32, 1 << 46, math.MaxInt64, math.MaxUint64, math.MaxUint64 - 40} {
				d := openDump(t, minor, hostileBudget)
				addr := address(d)
				word := d.word(addr)
				if word == nil {
					t.Fatal("not in the dump")
				}
				le.PutUint64(word, value)
				provoke(t, d, d.Image, p)
			}
			for _, delta := range []uint64{0, 8, math.MaxUint64 - 7, 4096} {
				d := openDump(t, minor, hostileBudget)
				addr := address(d)
				le.PutUint64(d.word(addr), addr+delta)
				provoke(t, d, d.Image, p)
				d = openDump(t, minor, hostileBudget)
				word := d.word(addr)
				le.PutUint64(word, le.Uint64(word)+delta)
				provoke(t, d, d.Image, p)
			}
		})
	}
}

// FuzzMemory changes words of the recorded memory: each change takes 8 bytes.
func FuzzMemory(f *testing.F) {
	all := map[int]pristine{}
	for _, minor := range dumpMinors {
		all[minor] = findAll(f, minor)
	}
	f.Add([]byte{0, 1, 0, 8, 0, 0, 0, 3})
	f.Add([]byte{0, 1, 0, 16, 1, 0, 9, 0, 0, 5, 0, 24, 2, 0, 0, 0, 0, 9, 1, 8, 3, 0, 0, 7})
	f.Fuzz(func(t *testing.T, changes []byte) {
		if len(changes) == 0 {
			return
		}
		minor := dumpMinors[int(changes[0])%len(dumpMinors)]
		p := all[minor]
		d := openDump(t, minor, hostileBudget)
		for ; len(changes) >= 8; changes = changes[8:] {
			b := d.Blocks[int(binary.BigEndian.Uint16(changes))%len(d.Blocks)]
			if len(b.Data) < 8 {
				continue
			}
			at := int(binary.BigEndian.Uint16(changes[2:])) % (len(b.Data) - 7)
			argument := uint64(binary.BigEndian.Uint16(changes[5:]))
			word := b.Data[at:]
			switch changes[4] % 5 {
			case 0:
				word[0] ^= 1 << (argument % 8)
			case 1: // a pointer into another block
				other := d.Blocks[int(argument)%len(d.Blocks)]
				le.PutUint64(word, other.Addr+uint64(changes[7])*8)
			case 2: // a pointer to about itself
				le.PutUint64(word, b.Addr+uint64(at)+argument-1<<15)
			case 3:
				le.PutUint64(word, argument<<(changes[7]%64))
			case 4:
				le.PutUint64(word, le.Uint64(word)+argument-1<<15)
			}
		}
		provoke(t, d, d.Image, p)
	})
}

// everywhere is a memory in which any address holds the same pattern.
type everywhere struct {
	pattern []byte
	left    int
}

func (m *everywhere) ReadAt(buf []byte, addr uint64) error {
	if m.left -= len(buf) + 64; m.left < 0 {
		panic("read more than a target can make us read")
	}
	for n := copy(buf, m.pattern[addr%uint64(len(m.pattern)):]); n < len(buf); {
		n += copy(buf[n:], m.pattern)
	}
	return nil
}

func (m *everywhere) Read(ranges []proc.Range) (int, error) {
	for i, r := range ranges {
		if err := m.ReadAt(r.Buf, r.Addr); err != nil {
			return i, err
		}
	}
	return len(ranges), nil
}

// FuzzPattern reads a memory that is mapped everywhere and says the same.
func FuzzPattern(f *testing.F) {
	word := func(n uint64) []byte { return le.AppendUint64(nil, n) }
	f.Add([]byte{0})
	f.Add(word(0x10000))
	f.Add(append(word(0x10000), word(0x20)...))
	f.Add(append(word(0x7fff00001000), word(0xff0000)...))
	f.Add(append(word(0x10008), append(word(0xffff), word(8)...)...))
	f.Add(append(make([]byte, 70), 3, 0)) // trampolines everywhere
	f.Fuzz(func(t *testing.T, pattern []byte) {
		if len(pattern) == 0 || len(pattern) > 1<<16 {
			return
		}
		for minor := 11; minor <= 13; minor++ {
			version := Version{3, minor, 0}
			l, err := layoutOf(version)
			if err != nil {
				t.Fatal(err)
			}
			mem := &everywhere{pattern, hostileBudget}
			word := le.Uint64(append(append([]byte{}, pattern...), make([]byte, 8)...))
			// Whatever is read is code.
			image := Image{Version: version, Runtime: 0x1000, None: 0x2000, CodeType: word, StrType: 0x20000}
			ref := ThreadRef{addr: 0x10000, gil: 0x3000}
			buf := make([]byte, 512)
			_ = mem.ReadAt(buf, ref.addr)
			ref.interp, ref.NativeID = le.Uint64(buf[l.thread.interp:]), le.Uint64(buf[l.thread.nativeID:])
			provoke(t, mem, image, pristine{Otel{ContextVar: 0x30000, SpanKey: word}, []ThreadRef{ref}})
		}
	})
}
