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
	// Asleep, if set, reports whether the thread has slept since before the call
	// of Sample: what is read of it then needs no second reading.
	Asleep func() bool

	// Frames is the stack of the last sample, leaf first; valid until the next.
	Frames []Frame
	// Truncated says that the stack is deeper than what was read.
	Truncated bool
	// Span is the span of the last sample when Proven.
	Span   Span
	Proven bool
	// GIL says that the thread held the global interpreter lock.
	GIL bool
	// Torn says that only a part of the last sample's stack held together: from
	// the root to where it ends.
	Torn bool

	r       *Reader
	cframes cframeWindow
	// Where trampolines were lately.
	trampolines cframeWindow
	chunks      []chunk  // the data stack, newest first
	reach       uint64   // how far to read above its top
	gens        []uint64 // frames outside the data stack
	spare       []uint64 // for the next gens
	tries       int      // readings for this sample so far
	proof       proof
	proofOf     uint64 // the context that the proof starts from; 0: no proof
	proven      Span   // what the proof proves
	recheck     gather // how to read the proof again

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
	t.have, t.Torn = false, false
	t.take.thrice = false
	var failed error
	for try := range maxTries {
		t.tries = try
		done, err := t.try(try)
		if done {
			return nil
		}
		switch {
		case errors.Is(err, proc.ErrGone), errors.Is(err, proc.ErrDenied), errors.Is(err, ErrThreadGone):
			return err
		case errors.Is(err, errChunkGone):
		case err != nil:
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
	t.cframes, t.trampolines, t.chunks, t.gens, t.proofOf = cframeWindow{}, cframeWindow{}, t.chunks[:0], t.gens[:0], 0
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
	frames, verdict := k.walk(t)
	if verdict != between {
		t.same = 0
	}
	if verdict == torn && number == maxTries/2 {
		t.chunks = t.chunks[:0] // a chunk may have been replaced in place
	}
	if verdict != whole {
		return false, nil
	}
	ok, err := t.identify(frames)
	if !ok {
		return false, err
	}
	doubtful := t.believe(frames)
	proven := t.prove()
	if !proven && t.proofOf != 0 && t.Asleep != nil && t.Asleep() {
		proven = true
	}
	if doubtful == 0 || !t.have || t.Torn {
		t.accept(frames[doubtful:], proven)
		t.Torn = doubtful > 0
	}
	t.take.thrice = doubtful > 0
	return proven && doubtful == 0, nil
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
		t.findChunks(k.chunk, k.stackTop)
		return false
	}
	used := k.stackTop - k.chunk
	if used > t.chunks[0].size {
		t.findChunks(k.chunk, k.stackTop)
		return false
	}
	if have := uint64(len(k.chunks[0])); used > have {
		t.reach = t.chunks[0].size // it rises and falls fast
		agreed = false
	}
	t.chunks[0].used = max(used, l.chunkHeader)
	return agreed
}

// findChunks reads the heads of the data stack's chunks; there are none when
// one of them was just given back.
func (t *Thread) findChunks(addr, top uint64) {
	l := &t.r.layout.thread
	t.chunks = t.chunks[:0]
	total := uint64(0)
	for addr != 0 && len(t.chunks) < maxChunks {
		c := chunk{addr: addr}
		head, err := t.r.read(addr, l.chunkHeader)
		if err == nil {
			c.size = le.Uint64(head[l.chunkSize:])
			c.used = l.chunkHeader + 8*le.Uint64(head[l.chunkTop:])
			if len(t.chunks) == 0 {
				c.used = top - addr
			}
		}
		if total += c.used; err != nil || c.size > maxChunkSize || c.used > c.size || total > maxDataStack {
			t.chunks = t.chunks[:0]
			return
		}
		t.chunks = append(t.chunks, c)
		addr = le.Uint64(head[l.chunkPrevious:])
	}
}

// identify resolves the code objects of raw frames and compares their stamps,
// right after the stack was read.
func (t *Thread) identify(raw []rawFrame) (bool, error) {
	k := &t.take
	k.stamps.codes = k.stamps.codes[:0]
	t.r.round++
	met := false
	for i := range raw {
		f := &raw[i]
		if f.known = t.r.codes[f.code]; f.known == nil {
			var err error
			if f.known, err = t.r.load(f.code); err != nil {
				return false, err
			}
			met = true
		}
		if f.known.compared != t.r.round && (!t.r.established(f.known) || f.known.trusted != t.r.sample) {
			f.known.compared = t.r.round
			k.stamps.codes = append(k.stamps.codes, f.known)
		}
	}
	same, err := k.stamps.same(t.r)
	if !same || err != nil {
		return false, err
	}
	for _, c := range k.stamps.codes {
		c.trusted = t.r.sample
	}
	if !t.contiguous(raw) {
		return false, nil
	}
	// What has just been met may be younger than the stack.
	return !met, nil
}

// contiguous reports whether frames stand within their code and lie where calls
// put them: each right after its caller, but for those outside the data stack.
func (t *Thread) contiguous(raw []rawFrame) bool {
	var callee *rawFrame
	for i := range raw {
		f := &raw[i]
		// Before it begins, a frame stands one instruction before the first.
		if f.offset(t)+2 >= f.known.size+2 {
			return false
		}
		if f.outside {
			continue
		}
		if callee != nil && t.chunkOf(callee.addr) == t.chunkOf(f.addr) && !t.follows(callee, f) {
			return false
		}
		callee = f
	}
	return true
}

// follows reports whether a callee lies right after its caller, or after a call
// that is over and whose variables are being dropped: the callee is a
// destructor, which CPython runs as if the caller had called it.
func (t *Thread) follows(callee, caller *rawFrame) bool {
	after := caller.addr + caller.known.frameSize
	if callee.addr == after {
		return true
	}
	dying, ok := t.take.onStack(t, after)
	if !callee.entry || !ok || dying.previous != caller.addr && !t.trampolines.has(dying.previous) {
		return false
	}
	code, err := t.r.code(dying.code)
	return err == nil && callee.addr == after+code.frameSize
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
	if t.proofOf == k.context && k.proved && t.proof.holds(&k.after, 0, len(t.proof.pieces)) && (!k.twice || t.proof.holds(&k.before, 0, len(t.proof.pieces))) {
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
	t.recheck.spans = t.recheck.spans[:0]
	t.recheck.add(t.proof.pieces)
	t.recheck.plan()
	return false
}

func (t *Thread) accept(raw []rawFrame, proven bool) {
	t.have = true
	t.Frames = slices.Grow(t.Frames[:0], len(raw))
	for i := range raw {
		if !raw[i].known.hidden {
			t.Frames = append(t.Frames, Frame{raw[i].known, int32(raw[i].offset(t))})
		}
	}
	t.reach /= 2
	if t.take.steps == 0 {
		t.trampolines = cframeWindow{} // they are elsewhere
	}
	t.Truncated, t.GIL = t.take.truncated, t.take.holdsGIL(t)
	t.Span, t.Proven = Span{}, proven
	if proven {
		t.Span = t.proven
	}
	t.take.twice = !proven
	t.gens = append(t.gens[:0], t.take.gens...)
}

// maxRecent bounds the frames that are read because they were on the stack in an
// earlier reading for the same sample.
const maxRecent = 16

// remember makes gens what is expected outside the data stack. Coroutines that
// take turns may come and go faster than they are met: after many readings, some
// of those that were expected so far stay. Not before: reading them takes time,
// which favours stacks that have fewer.
func (t *Thread) remember(gens []uint64) {
	old := t.gens
	t.gens = append(t.spare[:0], gens...)
	t.spare = old
	if t.tries < maxTries/2 {
		return
	}
	for _, addr := range old {
		if len(t.gens) == len(gens)+maxRecent {
			return
		}
		if !slices.Contains(gens, addr) {
			t.gens = append(t.gens, addr)
		}
	}
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
