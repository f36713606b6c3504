package cpython

import (
	"bytes"
	"strings"
)

// edge is a call that the target makes: from which function into which.
//
// The data stack is copied while calls begin and end. Where a copy is held up
// between two frames, the upper one may belong to another call than the lower
// one, and nothing in the two tells. So a call has to be believable: its
// caller's code names it, or both were seen to stand still together.
type edge struct{ caller, callee *Code }

// Evidence for an edge that is enough, and what each sighting adds.
const (
	believed = 3
	// certain: caller and callee read the same before, with and after the rest.
	certain = believed
	// likely: only the caller did, so that it may have come back meanwhile.
	likely = 1

	maxEdges = 200_000
	maxNames = 1024 // of one code object
)

// believe goes through a stack, leaf first, and returns how many frames from
// its leaf stand above a call that is not believed: 0 if all are.
func (t *Thread) believe(raw []rawFrame) (doubtful int) {
	for i := len(raw) - 2; i >= 0; i-- {
		caller, callee := &raw[i+1], &raw[i]
		e := edge{caller.known, callee.known}
		evidence := t.r.edges[e]
		if evidence >= believed {
			continue
		}
		if evidence == 0 && t.r.names(e) {
			evidence = believed
		} else if t.take.thrice && t.take.stood(t, caller, t.r.layout.frame.size) {
			evidence += likely
			// Where a callee is in its code changes while it runs.
			if t.take.stood(t, callee, t.r.layout.frame.instr) {
				evidence = certain
			}
		}
		if len(t.r.edges) >= maxEdges {
			clear(t.r.edges)
		}
		t.r.edges[e] = evidence
		if evidence < believed {
			return i + 1
		}
	}
	return 0
}

// stood reports whether the first bytes of a frame read the same before, with
// and after the rest.
func (k *take) stood(t *Thread, f *rawFrame, size uint64) bool {
	if f.outside {
		for i, addr := range t.gens {
			if addr == f.addr {
				return bytes.Equal(k.gensA[i][:size], k.gensB[i][:size])
			}
		}
		return false
	}
	for i, c := range t.chunks {
		if f.addr < c.addr || f.addr >= c.addr+c.size {
			continue
		}
		from := f.addr - c.addr
		now := k.chunks[i][from : from+size]
		return bytes.Equal(now, k.chunksBefore[i][from:from+size]) && bytes.Equal(now, k.chunksAfter[i][from:from+size])
	}
	return false
}

// names reports whether the caller's code can be seen to call the callee: by
// name, by an operator, or as a function that is written inside it.
func (r *Reader) names(e edge) bool {
	name := e.callee.Function[strings.LastIndexByte(e.callee.Function, '.')+1:]
	switch {
	case strings.HasPrefix(name, "__"):
		return true
	case strings.HasPrefix(name, "<"):
		return strings.HasPrefix(e.callee.Function, e.caller.Function+".<locals>.") || e.caller.Function == "<module>"
	}
	if e.caller.Function == "<module>" {
		return false // it names what it defines, too
	}
	if e.caller.names == nil {
		e.caller.names = r.namesOf(e.caller)
	}
	return e.caller.names[name]
}

// namesOf reads the names that a code object uses; none of an object that was
// freed meanwhile.
func (r *Reader) namesOf(c *Code) map[string]bool {
	names := map[string]bool{}
	l := r.layout
	for _, field := range []uint64{l.code.globals, l.code.locals} {
		tuple, err := r.word(c.addr + field)
		if err != nil {
			continue
		}
		count, err := r.word(tuple + varSize)
		if err != nil {
			continue
		}
		items, err := r.read(tuple+l.tupleItems, 8*min(count, maxNames))
		if err != nil {
			continue
		}
		r.identifiers(items, names)
	}
	of := comparison{codes: []*Code{c}}
	if same, err := of.same(r); !same || err != nil {
		return nil
	}
	return names
}

// identifiers reads str objects that are short and ASCII, in one call.
func (r *Reader) identifiers(pointers []byte, names map[string]bool) {
	const longest = 40
	l := &r.layout.str
	var batch batch
	batch.start()
	for ; len(pointers) >= 8; pointers = pointers[8:] {
		batch.want(le.Uint64(pointers), l.asciiData+longest)
	}
	for rest := batch.ranges; len(rest) > 0; {
		n, err := r.mem.Read(rest)
		for _, read := range rest[:n] {
			length, state := le.Uint64(read.Buf[l.length:]), le.Uint32(read.Buf[l.state:])
			if length <= longest && state>>l.asciiBit&1 == 1 {
				names[string(read.Buf[l.asciiData:l.asciiData+length])] = true
			}
		}
		if rest = rest[n:]; err != nil && len(rest) > 0 {
			rest = rest[1:] // a short name at the very end of what is mapped
		}
	}
}
