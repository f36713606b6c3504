package cpython

import (
	"bytes"
	"hash/maphash"
	"slices"
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
	tramA, tramB    []byte // the window of trampolines
	tramLo          uint64
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
	steps     int // through trampolines
}

// rawFrame is a frame as it was read.
type rawFrame struct {
	addr, code, previous, instr uint64
	stackTop                    int32
	entry                       bool // the first of its eval loop
	outside                     bool // in a generator object or on the C stack, not on the data stack
	trampoline                  bool // no call, but where C code entered an eval loop (3.12)
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
	k.gil = r.batch.want(t.Ref.gil, gilSize)
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
	lo, n := t.trampolines.window(r.layout.frame.size)
	if k.tramA, k.tramLo = nil, lo; n > 0 {
		k.tramA = r.batch.want(lo, n)
	}
	stack := len(r.batch.ranges)
	if k.thrice {
		k.chunksBefore = t.wantChunks(k.chunksBefore)
	}
	k.chunks = t.wantChunks(k.chunks)
	if k.thrice {
		k.chunksAfter = t.wantChunks(k.chunksAfter)
	}
	above := len(r.batch.ranges)
	if n > 0 {
		k.tramB = r.batch.want(lo, n)
	}
	k.gensB = k.want(t, k.gensB)
	if k.proved {
		k.after.append(&r.batch, &t.recheck)
	}
	k.tail = r.batch.want(t.Ref.addr+l.context, 8)

	if read, err := r.mem.Read(r.batch.ranges); err != nil {
		if read >= stack && read < above {
			t.chunks = t.chunks[:0] // its newest chunk was just given back
			return errChunkGone
		}
		return err
	}
	if l.current == 0 {
		k.cframe = le.Uint64(k.head[l.cframe:])
	}
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
	k.frames, k.gens, k.truncated, k.steps = k.frames[:0], k.gens[:0], false, 0
	current, v := k.current(t)
	if current == 0 {
		return k.frames, v
	}
	result := whole
	for addr := k.running(t, current); addr != 0; {
		if len(k.frames) == maxFrames || len(k.gens) > maxOutside {
			k.truncated = true
			break
		}
		f, v := k.frame(t, addr)
		n := len(k.frames)
		if v == torn {
			return nil, torn
		}
		result = min(result, v)
		switch {
		case !f.trampoline:
			if n > 0 && !k.frames[n-1].entry && f.stackTop < 0 {
				return nil, torn // its caller runs: the call is over
			}
			k.frames = append(k.frames, f)
		case n > 0:
			k.frames[n-1].entry = true
		}
		addr = f.previous
	}
	if result == missing {
		t.remember(k.gens)
		return nil, missing
	}
	if !k.truncated && !k.atBase(t) {
		return nil, torn
	}
	if len(k.frames) == 0 {
		return k.frames, result // its last call has ended
	}
	if top := &k.frames[0]; top.stackTop != running && !t.settled(top) {
		return nil, between
	}
	return k.frames, result
}

// current returns the frame that the thread's state says is the current one;
// without one, what that means.
func (k *take) current(t *Thread) (uint64, verdict) {
	l := &t.r.layout.thread
	if l.current != 0 {
		return le.Uint64(k.head[l.current:]), whole
	}
	if k.cframe == 0 {
		return 0, whole
	}
	current := le.Uint64(k.cframeBuf[k.cframe-t.cframes.lo+l.cframeCurrent:])
	if current == 0 && k.cframe != t.Ref.addr+l.rootCframe {
		return 0, between // an eval loop begins, or its C frame is gone
	}
	return current, whole // if 0, it runs no Python code
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
	if t.trampolines.has(addr) {
		var callee *rawFrame
		if n := len(k.frames); n > 0 {
			callee = &k.frames[n-1]
		}
		return k.trampoline(t, addr, callee)
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
		if f.code != again.code || f.previous != again.previous || f.trampoline != again.trampoline || caller && f.instr != again.instr {
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
	if f.trampoline && t.trampolines.extend(addr) {
		k.gens = k.gens[:position]
	}
	return f, missing
}

// trampoline returns a trampoline of the window, which was read before and
// after the data stack. What it says of its caller is right when it was the
// same both times, or when the callee lies right after that caller.
func (k *take) trampoline(t *Thread, addr uint64, callee *rawFrame) (rawFrame, verdict) {
	from := addr - k.tramLo
	if addr < k.tramLo || from+t.r.layout.frame.size > uint64(len(k.tramA)) {
		return rawFrame{}, missing // the window has just grown
	}
	a, b := t.r.parseFrame(addr, k.tramA[from:]), t.r.parseFrame(addr, k.tramB[from:])
	k.steps++
	switch {
	case k.steps > maxFrames:
		return rawFrame{}, torn // a cycle
	case a.trampoline && b.trampoline && a.previous == b.previous, b.trampoline && k.adjacent(t, b.previous, callee):
		return b, whole
	case a.trampoline && k.adjacent(t, a.previous, callee):
		return a, whole
	}
	return rawFrame{}, torn
}

// adjacent reports whether a frame lies right after its caller.
func (k *take) adjacent(t *Thread, caller uint64, callee *rawFrame) bool {
	if callee == nil || callee.outside {
		return false
	}
	f, ok := k.onStack(t, caller)
	if !ok {
		return false
	}
	code, err := t.r.code(f.code)
	return err == nil && f.addr+code.frameSize == callee.addr
}

func (r *Reader) parseFrame(addr uint64, b []byte) rawFrame {
	l := &r.layout.frame
	return rawFrame{
		addr:     addr,
		code:     le.Uint64(b[l.code:]),
		previous: le.Uint64(b[l.previous:]),
		instr:    le.Uint64(b[l.instr:]),
		stackTop: int32(le.Uint32(b[l.stackTop:])),
		entry:    l.entry != 0 && b[l.entry] != 0,

		trampoline: l.entry == 0 && b[l.owner] == ownedByCStack,
	}
}

// ownedByCStack is the owner of a trampoline, which lies among the local
// variables of an eval loop: FRAME_OWNED_BY_CSTACK of 3.12 and 3.13.
const ownedByCStack = 3

// running returns the frame that ran when the data stack was read. That is
// seldom the current frame, which was read a microsecond earlier: calls may
// have begun or ended since. Rejecting those would favour slow functions.
func (k *take) running(t *Thread, current uint64) uint64 {
	addr := current
	for range maxClimb {
		f, ok := k.onStack(t, addr)
		if !ok {
			if f, known := k.outside(t, addr); known && f.trampoline || t.trampolines.has(addr) {
				break // C code has called it: the same
			}
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
		code, err := t.r.code(f.code)
		if err != nil {
			break
		}
		callee, found := k.onStack(t, f.addr+code.frameSize)
		if !found || callee.code == 0 {
			break
		}
		if from, known := k.outside(t, callee.previous); known && from.trampoline {
			callee.previous, callee.entry = from.previous, true
		} else if t.trampolines.has(callee.previous) {
			from, v := k.trampoline(t, callee.previous, &callee)
			if v != whole {
				break
			}
			callee.previous, callee.entry = from.previous, true
		} else if !known && t.r.layout.frame.entry == 0 && t.chunkOf(callee.previous) < 0 {
			return top, true // perhaps through a trampoline
		}
		if callee.previous != f.addr || !callee.entry && f.stackTop == running {
			break
		}
		f = callee
	}
	return top, f.addr != top
}

// outside returns the frame at addr, if it lies outside the data stack and was
// read.
func (k *take) outside(t *Thread, addr uint64) (rawFrame, bool) {
	if i := slices.Index(t.gens, addr); i >= 0 {
		return t.r.parseFrame(addr, k.gensA[i]), true
	}
	return rawFrame{}, false
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

// extend makes the window hold a trampoline too, if that is not far above what
// it holds. It follows calls, which go down the C stack.
func (w *cframeWindow) extend(addr uint64) bool {
	if w.hi != 0 && addr > w.lo+maxCFrameSpread {
		return false
	}
	if w.hi == 0 {
		w.lo, w.hi = addr, addr
	}
	w.lo = min(w.lo, addr)
	w.hi = min(max(w.hi, addr), w.lo+maxCFrameSpread)
	return true
}
