package cpython

import (
	"slices"
)

// Code is what is known of one code object. It stays valid when the target
// frees the object.
type Code struct {
	Function  string // co_qualname, or co_name before 3.11
	File      string // co_filename
	FirstLine int32

	addr      uint64
	proof     proof  // of what is known, to notice that another one took its place
	size      uint64 // of the bytecode, in bytes
	frameSize uint64 // of its frames on the data stack, in bytes
	hidden    bool   // it is no function: see load
	format    lineFormat
	table     []byte
	lines     map[int32]int32
	names     map[string]bool // that it uses; nil until asked for
	since     uint64          // the round in which it was met
	trusted   uint64          // the sample in which it was last found the same
	compared  uint64          // the round in which the proof was last read again
}

// Line returns the line of the instruction at a byte offset, 0 when it has
// none. It is not safe for concurrent use.
func (c *Code) Line(offset int32) int32 {
	line, ok := c.lines[offset]
	if !ok {
		line = lineAt(c.format, c.table, c.FirstLine, int(offset))
		if c.lines == nil || len(c.lines) >= maxLines {
			c.lines = map[int32]int32{}
		}
		c.lines[offset] = line
	}
	return line
}

// load reads a code object with everything that a profile says about it. What
// it says holds once comparison.same has read the same.
func (r *Reader) load(addr uint64) (*Code, error) {
	l := &r.layout.code
	object, err := r.read(addr, l.size)
	if err != nil {
		return nil, err
	}
	if le.Uint64(object[objectType:]) != r.Image.CodeType {
		return nil, errMalformed
	}
	c := &Code{addr: addr, since: r.round, FirstLine: int32(le.Uint32(object[l.firstLine:])), format: r.layout.lines}
	words := uint64(le.Uint32(object[l.stackSize:])) + uint64(le.Uint32(object[l.localsPlus:]))
	c.frameSize = r.layout.frame.size + 8*words
	c.size = 2 * le.Uint64(object[varSize:])
	// 3.13 puts a frame of its own between a class and its __init__, of code that
	// can never be traced (_Py_InitCleanup, Python/specialize.c).
	c.hidden = l.firstTraceable != 0 && 2*uint64(le.Uint32(object[l.firstTraceable:])) >= c.size
	c.proof.add(addr+l.stampFrom, object[l.stampFrom:l.stampTo])
	// The object's pointers do not tell: what is made from one template comes to
	// lie at the addresses of what was freed just before, strings included.
	w := walk{r: r, proof: &c.proof}
	c.File = w.str(le.Uint64(object[l.fileName:]))
	c.Function = w.str(le.Uint64(object[l.qualName:]))
	c.table = w.table(le.Uint64(object[l.lineTable:]))
	if w.err != nil {
		return nil, w.err
	}
	if r.known += c.weight(); len(r.codes) >= maxCodes || r.known > maxKnown {
		clear(r.codes) // a program that makes code without end
		clear(r.edges)
		r.known = c.weight()
	}
	r.codes[addr] = c
	return c, nil
}

// code returns what is known of the code object at addr, which it reads if that
// is nothing.
func (r *Reader) code(addr uint64) (*Code, error) {
	if c := r.codes[addr]; c != nil {
		return c, nil
	}
	return r.load(addr)
}

// weight is about what a code object takes of our memory.
func (c *Code) weight() int {
	return 512 + len(c.Function) + len(c.File) + len(c.table) + len(c.proof.data)
}

// table walks to a table of lines. Of a long one only the begin is proof.
func (w *walk) table(addr uint64) []byte {
	const proof = 128
	size := le.Uint64(w.read(addr+varSize, 8))
	if size > maxLineTable {
		w.fail(errMalformed)
	}
	if w.err != nil {
		return nil
	}
	data := addr + w.r.layout.bytesData
	table, err := w.r.read(data, size)
	w.fail(err)
	w.proof.add(data, table[:min(proof, size)])
	return table
}

// stale forgets a code object whose place another one has taken.
func (r *Reader) stale(c *Code) {
	r.recycles = true
	if r.codes[c.addr] == c {
		delete(r.codes, c.addr) // r.edges may still hold it
	}
}

// comparison reads again what proves the code objects of a stack.
type comparison struct {
	codes  []*Code // each once
	gather gather
	of     []*Code // what gather reads
	pieces []int   // and how many pieces of each
	wanted []int   // buffer
	now    reading
}

// youngFor is for how many comparisons a code object may be one of those that
// are made and freed all the time. When it is older than that, and no other one
// was seen to take a place, only the object itself is compared, not the texts
// that it points to.
const youngFor = 1000

func (r *Reader) established(c *Code) bool { return !r.recycles && r.round-c.since > youngFor }

// same checks, in one call, whether all codes still are what they were. It
// forgets those that are not.
func (c *comparison) same(r *Reader) (bool, error) {
	if len(c.codes) == 0 {
		return true, nil
	}
	c.wanted = c.wanted[:0]
	for _, code := range c.codes {
		n := len(code.proof.pieces)
		if r.established(code) {
			n = 1 // the first is of the object itself
		}
		c.wanted = append(c.wanted, n)
	}
	if !slices.Equal(c.wanted, c.pieces) || !slices.Equal(c.codes, c.of) {
		c.of, c.pieces = append(c.of[:0], c.codes...), append(c.pieces[:0], c.wanted...)
		c.gather.spans = c.gather.spans[:0]
		for i, code := range c.codes {
			c.gather.add(code.proof.pieces[:c.pieces[i]])
		}
		c.gather.plan()
	}
	r.stamps.start()
	c.now.append(&r.stamps, &c.gather)
	if _, err := r.mem.Read(r.stamps.ranges); err != nil {
		for _, code := range c.codes {
			r.stale(code) // one of them is no longer there
		}
		return false, err
	}
	same, from := true, 0
	for i, code := range c.codes {
		n := c.pieces[i]
		if !code.proof.holds(&c.now, from, n) {
			r.stale(code)
			same = false
		}
		from += n
	}
	return same, nil
}
