package cpython

import (
	"bytes"
	"hash/maphash"
)

// take is one reading of a thread, and the walk through it. The order in which
// it is read matters: the thread state; the current frame; frames outside the
// data stack; the data stack from its bottom to its top, so that a caller is
// read a few nanoseconds before what it called; the frames outside once more;
// what leads to the span; the context once more.
type take struct {
	head, cframeBuf []byte
	gil             []byte
	gensA, gensB    [][]byte
	chunks          [][]byte // newest first, like Thread.chunks
	// The same once before and once after, if thrice.
	chunksBefore, chunksAfter [][]byte
	vars                      []byte
	before, after             reading
	tail                      []byte

	cframe, context, chunk, stackTop uint64

	proved bool // the span's proof was read too
	twice  bool // read the proof before the stack as well
	thrice bool // read the data stack three times

	frames    []rawFrame
	gens      []uint64 // frames outside the data stack that the walk met
	stamps    comparison
	truncated bool
}

// rawFrame is a frame as it was read.
type rawFrame struct {
	addr, code, previous, instr uint64
	stackTop                    int32
	entry                       bool
	outside                     bool // in a generator object, not on the data stack
	known                       *Code
}

// offset is where the frame stands in its bytecode, in bytes.
func (f *rawFrame) offset(t *Thread) uint64 { return f.instr - f.known.addr - t.r.layout.code.bytecode }

// running is the stackTop of a frame whose eval loop holds its stack pointer:
// it runs bytecode, or C code that the bytecode called.
const running = -1

func (k *take) read(t *Thread) error {
	r, l := t.r, &t.r.layout.thread
	r.batch.start()
	k.head = r.batch.want(t.Ref.addr, l.size)
	k.gil = r.batch.want(r.Image.Runtime+r.layout.gilHolder, gilSize)
	if lo, n := t.cframes.window(l.cframeCurrent + 8); n > 0 {
		k.cframeBuf = r.batch.want(lo, n)
	}
	k.proved = t.proofOf != 0 && len(t.proof.pieces) > 0
	if k.proved {
		k.vars = r.batch.want(t.proofOf+r.layout.context.vars, 8)
		if k.twice {
			k.before.append(&r.batch, &t.recheck)
		}
	}
	k.gensA = k.want(t, k.gensA)
	stack := len(r.batch.ranges)
	if k.thrice {
		k.chunksBefore = t.wantChunks(k.chunksBefore)
	}
	k.chunks = t.wantChunks(k.chunks)
	if k.thrice {
		k.chunksAfter = t.wantChunks(k.chunksAfter)
	}
	above := len(r.batch.ranges)
	k.gensB = k.want(t, k.gensB)
	if k.proved {
		k.after.append(&r.batch, &t.recheck)
	}
	k.tail = r.batch.want(t.Ref.addr+l.context, 8)

	n, err := r.mem.Read(r.batch.ranges)
	if err != nil {
		if n >= stack && n < above {
			t.chunks = t.chunks[:0] // its newest chunk was just given back
			return errChunkGone
		}
		return err
	}
	k.cframe = le.Uint64(k.head[l.cframe:])
	k.context = le.Uint64(k.head[l.context:])
	k.chunk = le.Uint64(k.head[l.chunk:])
	k.stackTop = le.Uint64(k.head[l.stackTop:])
	if k.proved && (!bytes.Equal(k.vars, t.proof.data[:8]) || le.Uint64(k.tail) != k.context) {
		k.proved = false
	}
	return nil
}

// chunkReadBeyond is what is read above the last known top of the data stack,
// besides what the thread was seen to need.
const chunkReadBeyond = 1024

func (t *Thread) wantChunks(bufs [][]byte) [][]byte {
	bufs = append(bufs[:0], make([][]byte, len(t.chunks))...)
	for i := len(t.chunks) - 1; i >= 0; i-- {
		c := t.chunks[i]
		n := c.used
		if i == 0 {
			n = min(n+chunkReadBeyond+t.reach, c.size)
		}
		bufs[i] = t.r.batch.want(c.addr, n)
	}
	return bufs
}

func (k *take) want(t *Thread, bufs [][]byte) [][]byte {
	bufs = bufs[:0]
	for _, addr := range t.gens {
		bufs = append(bufs, t.r.batch.want(addr, t.r.layout.frame.size))
	}
	return bufs
}

// gilSize covers the GIL's holder and whether it is locked.
const gilSize = 12

// holdsGIL reports whether the thread held the global interpreter lock.
func (k *take) holdsGIL(t *Thread) bool {
	return le.Uint64(k.gil) == t.Ref.addr && le.Uint32(k.gil[t.r.layout.gilLocked-t.r.layout.gilHolder:]) == 1
}

// owns reports whether what was read still is the thread's state.
func (k *take) owns(t *Thread) bool {
	l := &t.r.layout.thread
	return le.Uint64(k.head[l.interp:]) == t.Ref.interp && le.Uint64(k.head[l.nativeID:]) == t.Ref.NativeID
}

// verdict is what a walk came to.
type verdict uint64

const (
	missing verdict = iota // something has to be read as well
	torn                   // what was read does not fit each other
	between                // a call is just beginning or ending: read a moment later
	whole
)

// walk follows the stack from the frame that ran when the data stack was read.
func (k *take) walk(t *Thread) ([]rawFrame, verdict) {
	k.frames, k.gens, k.truncated = k.frames[:0], k.gens[:0], false
	if k.cframe == 0 {
		return k.frames, whole
	}
	current := le.Uint64(k.cframeBuf[k.cframe-t.cframes.lo+t.r.layout.thread.cframeCurrent:])
	if current == 0 {
		if k.cframe == t.Ref.addr+t.r.layout.thread.rootCframe {
			return k.frames, whole // it runs no Python code
		}
		return nil, between // an eval loop begins, or its C frame is gone
	}
	result := whole
	for addr := k.running(t, current); addr != 0; {
		if len(k.frames) == maxFrames || len(k.gens) > maxGenerators {
			k.truncated = true
			break
		}
		f, v := k.frame(t, addr)
		if v == torn {
			return nil, torn
		}
		result = min(result, v)
		if n := len(k.frames); n > 0 && !k.frames[n-1].entry && f.stackTop < 0 {
			return nil, torn // its caller runs: the call is over
		}
		k.frames = append(k.frames, f)
		addr = f.previous
	}
	if result == missing {
		t.gens = append(t.gens[:0], k.gens...)
		return nil, missing
	}
	if !k.truncated && !k.atBase(t) {
		return nil, torn
	}
	if top := &k.frames[0]; top.stackTop != running && !t.settled(top) {
		return nil, between
	}
	return k.frames, result
}

// atBase reports whether the outermost of the frames that lie on the data stack
// is the first there; if there are none, that it is empty. So the stack ends
// where the thread's does, even when C code runs a generator there.
func (k *take) atBase(t *Thread) bool {
	base := uint64(0)
	if n := len(t.chunks); n == maxChunks {
		return true // the base was not looked for
	} else if n > 0 {
		base = t.chunks[n-1].addr + t.r.layout.thread.chunkHeader + t.r.layout.thread.chunkBase
	}
	for i := len(k.frames) - 1; i >= 0; i-- {
		if !k.frames[i].outside {
			return k.frames[i].addr == base
		}
	}
	return k.stackTop <= base || base == 0
}

// settled reports whether a top frame that does not seem to run read the same
// three times in a row: then it is not a call that was over before it was
// read, but one that is being torn down (destructors) or set up.
func (t *Thread) settled(top *rawFrame) bool {
	print := maphash.Comparable(seed, *top)
	if print != t.last {
		t.last, t.same = print, 0
	}
	t.same++
	return t.same >= 3
}

var seed = maphash.MakeSeed()

// frame returns the frame at addr, from what was read. A frame outside the
// data stack that is missing there is read at once, to know what it leads to.
func (k *take) frame(t *Thread, addr uint64) (rawFrame, verdict) {
	for i, c := range t.chunks {
		if addr >= c.addr && addr < c.addr+c.size {
			buf := k.chunks[i]
			from := addr - c.addr
			if from < t.r.layout.thread.chunkHeader || from+t.r.layout.frame.size > c.size || addr%8 != 0 {
				return rawFrame{}, torn
			}
			if from+t.r.layout.frame.size > uint64(len(buf)) {
				t.reach = c.size
				return rawFrame{}, torn
			}
			return t.r.parseFrame(addr, buf[from:]), whole
		}
	}
	for _, seen := range k.gens {
		if seen == addr {
			return rawFrame{}, torn // a cycle
		}
	}
	position := len(k.gens)
	k.gens = append(k.gens, addr)
	for i := range t.gens {
		i = (i + position) % len(t.gens)
		if t.gens[i] != addr {
			continue
		}
		f, again := t.r.parseFrame(addr, k.gensA[i]), t.r.parseFrame(addr, k.gensB[i])
		f.outside, again.outside = true, true
		caller := len(k.frames) > 0
		if f.code != again.code || f.previous != again.previous || caller && f.instr != again.instr {
			return f, torn
		}
		return f, whole
	}
	buf, err := t.r.read(addr, t.r.layout.frame.size)
	if err != nil {
		return rawFrame{}, torn
	}
	f := t.r.parseFrame(addr, buf)
	f.outside = true
	return f, missing
}

func (r *Reader) parseFrame(addr uint64, b []byte) rawFrame {
	l := &r.layout.frame
	return rawFrame{
		addr:     addr,
		code:     le.Uint64(b[l.code:]),
		previous: le.Uint64(b[l.previous:]),
		instr:    le.Uint64(b[l.instr:]),
		stackTop: int32(le.Uint32(b[l.stackTop:])),
		entry:    b[l.entry] != 0,
	}
}

// running returns the frame that ran when the data stack was read. That is
// seldom the current frame, which was read a microsecond earlier: calls may
// have begun or ended since. Rejecting those would favour slow functions.
func (k *take) running(t *Thread, current uint64) uint64 {
	addr := current
	for range maxClimb {
		f, ok := k.onStack(t, addr)
		if !ok {
			return addr // outside the data stack
		}
		top, open := k.climb(t, f)
		if top != 0 && open && top != current {
			// It has called into another eval loop, which may be between two frames
			// rather than over.
			break
		}
		if top != 0 {
			return top
		}
		if f.previous == 0 {
			break
		}
		addr = f.previous // the call is over
	}
	return current
}

const maxClimb = 64

// climb goes from a frame to what it has called, as far as frames fit, and
// returns the last that runs; open says that it has called what does not.
func (k *take) climb(t *Thread, f rawFrame) (top uint64, open bool) {
	for range maxClimb {
		if f.stackTop == running {
			top = f.addr
		}
		code := t.r.codes[f.code]
		if code == nil {
			var err error
			if code, err = t.r.load(f.code); err != nil {
				break
			}
		}
		callee, found := k.onStack(t, f.addr+code.frameSize)
		if !found || callee.previous != f.addr || callee.code == 0 || !callee.entry && f.stackTop == running {
			break
		}
		f = callee
	}
	return top, f.addr != top
}

// onStack returns the frame at addr of the data stack's newest chunk.
func (k *take) onStack(t *Thread, addr uint64) (rawFrame, bool) {
	if len(t.chunks) == 0 || addr < t.chunks[0].addr+t.r.layout.thread.chunkHeader {
		return rawFrame{}, false
	}
	from := addr - t.chunks[0].addr
	if from+t.r.layout.frame.size > uint64(len(k.chunks[0])) || addr%8 != 0 {
		return rawFrame{}, false
	}
	return t.r.parseFrame(addr, k.chunks[0][from:]), true
}

// cframeWindow is the piece of the C stack that holds the C frames that were
// in use lately.
type cframeWindow struct{ lo, hi uint64 }

const maxCFrameSpread = 16 << 10

func (w *cframeWindow) has(addr uint64) bool { return addr >= w.lo && addr <= w.hi && w.hi != 0 }

func (w *cframeWindow) add(addr uint64) {
	lo, hi := min(w.lo, addr), max(w.hi, addr)
	if w.hi == 0 || hi-lo > maxCFrameSpread {
		lo, hi = addr, addr
	}
	w.lo, w.hi = lo, hi
}

func (w *cframeWindow) window(size uint64) (addr, n uint64) {
	if w.hi == 0 {
		return 0, 0
	}
	return w.lo, w.hi - w.lo + size
}
