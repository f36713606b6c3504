package cpython

import "bytes"

// Code is what is known of one code object. It stays valid when the target
// frees the object.
type Code struct {
	Function  string // co_qualname, or co_name before 3.11
	File      string // co_filename
	FirstLine int32

	addr      uint64
	stamp     []byte // of the object, to notice that another one took its place
	frameSize uint64 // of its frames on the data stack, in bytes
	format    lineFormat
	table     []byte
	lines     map[int32]int32
	compared  uint64 // the sample in which the stamp was last compared
}

// Line returns the line of the instruction at a byte offset, 0 when it has
// none. It is not safe for concurrent use.
func (c *Code) Line(offset int32) int32 {
	line, ok := c.lines[offset]
	if !ok {
		line = lineAt(c.format, c.table, c.FirstLine, int(offset))
		if c.lines == nil {
			c.lines = map[int32]int32{}
		}
		c.lines[offset] = line
	}
	return line
}

// lookup returns the code object at addr, which is read when it is not known.
// Whether a known one is still the same is seen by compare.
func (r *Reader) lookup(addr uint64) (*Code, error) {
	if c, ok := r.codes[addr]; ok {
		return c, nil
	}
	return r.load(addr)
}

// load reads a code object with everything that a profile says about it, and
// compares its stamp after that.
func (r *Reader) load(addr uint64) (*Code, error) {
	l := &r.layout.code
	object, err := r.read(addr, l.size)
	if err != nil {
		return nil, err
	}
	if le.Uint64(object[objectType:]) != r.Image.CodeType {
		return nil, errMalformed
	}
	c := &Code{
		addr:      addr,
		stamp:     object[l.stampFrom:l.stampTo],
		FirstLine: int32(le.Uint32(object[l.firstLine:])),
		format:    r.layout.lines,
	}
	words := uint64(le.Uint32(object[l.stackSize:])) + uint64(le.Uint32(object[l.localsPlus:]))
	c.frameSize = r.layout.frame.size + 8*words
	if c.File, err = r.str(le.Uint64(object[l.fileName:])); err != nil {
		return nil, err
	}
	if c.Function, err = r.str(le.Uint64(object[l.qualName:])); err != nil {
		return nil, err
	}
	if c.table, err = r.bytes(le.Uint64(object[l.lineTable:]), maxLineTable); err != nil {
		return nil, err
	}
	again, err := r.read(addr+l.stampFrom, l.stampTo-l.stampFrom)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(again, c.stamp) {
		return nil, ErrTorn
	}
	if len(r.codes) >= maxCodes {
		clear(r.codes) // a program that makes code without end
	}
	r.codes[addr] = c
	return c, nil
}

// stale forgets a code object whose place another one has taken.
func (r *Reader) stale(c *Code) {
	if r.codes[c.addr] == c {
		delete(r.codes, c.addr)
	}
}

// compare checks the stamps of codes whose stamp this sample has not compared,
// in one call. It reports whether all are still what they were.
func (r *Reader) compare(codes []*Code) (bool, error) {
	if len(codes) == 0 {
		return true, nil
	}
	l := &r.layout.code
	r.stamps.start()
	for _, c := range codes {
		r.stamps.want(c.addr+l.stampFrom, l.stampTo-l.stampFrom)
	}
	n, err := r.mem.Read(r.stamps.ranges)
	if err != nil && n < len(codes) {
		r.stale(codes[n])
		return false, err
	}
	same := true
	for i, c := range codes {
		if !bytes.Equal(r.stamps.ranges[i].Buf, c.stamp) {
			r.stale(c)
			same = false
		}
		c.compared = r.sample
	}
	return same, nil
}
