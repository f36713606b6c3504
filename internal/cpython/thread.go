package cpython

import (
	"errors"
	"slices"

	"github.com/spanflame/spanflame/internal/proc"
)

// Frame is one call on a stack before names and lines are resolved.
type Frame struct {
	Code *Code
	// Offset of the current instruction in the bytecode, in bytes.
	Offset int32
}

// Thread samples one thread. It remembers where things were, so that the next
// sample takes one call.
type Thread struct {
	Ref ThreadRef

	// Frames is the stack of the last sample, leaf first; valid until the next.
	Frames []Frame
	// Truncated says that the stack is deeper than what was read.
	Truncated bool
	// Span is the span of the last sample when Proven.
	Span   Span
	Proven bool
	// GIL says that the thread held the global interpreter lock.
	GIL bool
	// Torn counts readings that did not hold together.
	Torn uint64

	r       *Reader
	cframes cframeWindow
	chunks  []chunk // the data stack, newest first
	gens    []uint64
	proof   proof
	proofOf uint64 // the context that the proof starts from; 0: no proof
	proven  Span   // what the proof proves
	recheck gather // how to read the proof again

	take take
	have bool   // a stack of this sample, if not its span
	last uint64 // fingerprint of the last reading whose top did not seem to run
	same int    // how often it was read in a row
}

// chunk is a piece of the data stack.
type chunk struct{ addr, size, used uint64 }

// Thread returns a sampler for a thread.
func (r *Reader) Thread(ref ThreadRef) *Thread { return &Thread{Ref: ref, r: r} }

// Sample reads the stack and the span of the thread. It fails with
// [ErrThreadGone]; with [ErrTorn] when no reading held together, in which case
// Frames are those of the sample before; or with what the memory returns.
func (t *Thread) Sample() error {
	t.r.sample++
	t.last, t.same = 0, 0
	t.have = false
	var failed error
	for try := range maxTries {
		done, err := t.try(try)
		if done {
			return nil
		}
		switch {
		case errors.Is(err, proc.ErrGone), errors.Is(err, proc.ErrDenied), errors.Is(err, ErrThreadGone):
			return err
		case err != nil:
			t.Torn++
			failed = err
			t.forget()
		}
	}
	switch {
	case t.have:
		return nil // a good stack, whose span did not hold still
	case failed != nil:
		return failed
	}
	return ErrTorn
}

// forget drops all that was expected: some of it can no longer be read.
func (t *Thread) forget() {
	t.cframes, t.chunks, t.gens, t.proofOf = cframeWindow{}, t.chunks[:0], t.gens[:0], 0
}

// try reads once what is expected and walks it. It is not done when something
// was missing, which it adds to what is expected, or when the reading did not
// hold together.
func (t *Thread) try(number int) (done bool, err error) {
	k := &t.take
	if err := k.read(t); err != nil {
		return false, err
	}
	if !k.owns(t) {
		return false, ErrThreadGone
	}
	if !t.expect() {
		return false, nil
	}
	// An interrupted copy is a mix of two moments.
	if !t.r.pace.steady(k.took, len(t.r.batch.ranges), len(t.r.batch.arena)) && number < maxTries/2 {
		return false, nil
	}
	frames, verdict := k.walk(t)
	if verdict == torn {
		t.Torn++
		if number == maxTries/2 {
			t.chunks = t.chunks[:0] // a chunk may have been replaced in place
		}
	}
	if verdict != whole {
		return false, nil
	}
	ok, err := t.identify(frames)
	if !ok {
		return false, err
	}
	proven := t.prove()
	t.accept(frames, proven)
	return proven, nil
}

// expect compares where the thread's state says that things are with where
// they were looked for, and adopts the former. It reports whether they agree.
func (t *Thread) expect() bool {
	k, l := &t.take, &t.r.layout.thread
	agreed := true
	if k.cframe != 0 && !t.cframes.has(k.cframe) {
		t.cframes.add(k.cframe)
		agreed = false
	}
	if k.context != t.proofOf && k.context != 0 {
		t.proofOf = 0 // walked once the stack has been read
	}
	if k.chunk == 0 {
		t.chunks = t.chunks[:0]
		return agreed
	}
	if len(t.chunks) == 0 || t.chunks[0].addr != k.chunk {
		return t.findChunks(k.chunk, k.stackTop) && false
	}
	used := k.stackTop - k.chunk
	if used > t.chunks[0].size {
		return t.findChunks(k.chunk, k.stackTop) && false
	}
	if have := uint64(len(k.chunks[0])); used > have {
		agreed = false
	}
	t.chunks[0].used = max(used, l.chunkHeader)
	return agreed
}

// findChunks reads the heads of the data stack's chunks.
func (t *Thread) findChunks(addr, top uint64) bool {
	l := &t.r.layout.thread
	t.chunks = t.chunks[:0]
	for addr != 0 && len(t.chunks) < maxChunks {
		head, err := t.r.read(addr, l.chunkHeader)
		if err != nil {
			t.chunks = t.chunks[:0]
			return false
		}
		c := chunk{addr: addr, size: le.Uint64(head[l.chunkSize:]), used: l.chunkHeader + 8*le.Uint64(head[l.chunkTop:])}
		if len(t.chunks) == 0 {
			c.used = top - addr
		}
		if c.size > maxChunkSize || c.used > c.size {
			t.chunks = t.chunks[:0]
			return false
		}
		t.chunks = append(t.chunks, c)
		addr = le.Uint64(head[l.chunkPrevious:])
	}
	return true
}

// identify resolves the code objects of raw frames and compares their stamps,
// right after the stack was read.
func (t *Thread) identify(raw []rawFrame) (bool, error) {
	k := &t.take
	k.codes = k.codes[:0]
	for i := range raw {
		c, err := t.r.lookup(raw[i].code)
		if err != nil {
			return false, err
		}
		raw[i].known = c
		if c.compared != t.r.sample {
			c.compared = t.r.sample
			k.codes = append(k.codes, c)
		}
	}
	same, err := t.r.compare(k.codes)
	if !same || err != nil {
		t.r.sample++ // compare all of them again
		return false, err
	}
	if !t.contiguous(raw) {
		t.Torn++
		return false, nil
	}
	return true, nil
}

// contiguous reports whether frames of the data stack lie where calls put them:
// each right after its caller, but for those outside.
func (t *Thread) contiguous(raw []rawFrame) bool {
	var callee *rawFrame
	for i := range raw {
		f := &raw[i]
		if f.outside {
			continue
		}
		if callee != nil && callee.addr != f.addr+f.known.frameSize && t.chunkOf(callee.addr) == t.chunkOf(f.addr) {
			return false
		}
		callee = f
	}
	return true
}

func (t *Thread) chunkOf(addr uint64) int {
	return slices.IndexFunc(t.chunks, func(c chunk) bool { return addr >= c.addr && addr < c.addr+c.size })
}

// prove establishes the span. It reports false when it has to be read once
// more together with the stack.
func (t *Thread) prove() bool {
	k := &t.take
	if t.r.spans == nil || k.context == 0 {
		t.proven, t.proofOf = Span{}, 0
		return true
	}
	if t.proofOf == k.context && k.proved && t.proof.holds(&k.after) && (!k.twice || t.proof.holds(&k.before)) {
		return true
	}
	t.proof.reset()
	w := walk{r: t.r, proof: &t.proof}
	span := t.r.spans.find(&w, k.context)
	if t.proofOf = k.context; w.err != nil {
		t.proofOf = 0
		return false
	}
	t.proven = span
	t.proof.gather(&t.recheck)
	return false
}

func (t *Thread) accept(raw []rawFrame, proven bool) {
	t.have = true
	t.Frames = slices.Grow(t.Frames[:0], len(raw))
	code := t.r.layout.code.bytecode
	for i := range raw {
		f := &raw[i]
		t.Frames = append(t.Frames, Frame{f.known, int32(f.instr - f.known.addr - code)})
	}
	t.Truncated, t.GIL = t.take.truncated, t.take.holdsGIL(t)
	t.Span, t.Proven = Span{}, proven
	if proven {
		t.Span = t.proven
	}
	t.take.twice = !proven
	t.gens = append(t.gens[:0], t.take.gens...)
}

// SpanEnded reads whether the span of the last sample has ended since, for a
// thread that has not run meanwhile.
func (t *Thread) SpanEnded() bool {
	if t.Span.Link.IsZero() {
		return false
	}
	end, err := t.r.word(t.Span.end.addr)
	return err != nil || end != t.Span.end.value
}
