package agent

import (
	"errors"
	"time"

	"github.com/spanflame/spanflame/internal/cpython"
	"github.com/spanflame/spanflame/internal/proc"
	"github.com/spanflame/spanflame/profile"
)

const (
	// relistAfter bounds how long a thread that ended, or got a new name, goes
	// unnoticed: additions are seen at once.
	relistAfter = time.Second
	// warmFor is how long after it last ran a thread's counters are read even
	// when the process's clock stands: that clock may lag by a scheduler tick.
	warmFor = time.Second
)

// counts are what the sampler could not do as it should.
type counts struct {
	samples  uint64 // of threads that had run
	torn     uint64 // only a part of the stack held together
	unproven uint64 // good stack, span unknown
	givenUp  uint64 // no good stack: booked where the thread was before
	late     uint64 // ticks that came more than an interval late
}

func (c *counts) add(d counts) {
	c.samples += d.samples
	c.torn += d.torn
	c.unproven += d.unproven
	c.givenUp += d.givenUp
	c.late += d.late
}

// sampler books what one process does.
type sampler struct {
	process *proc.Process
	reader  *cpython.Reader
	ledger  *ledger
	link    bool // spans are wanted
	counts  counts

	threads    []*thread
	first      bool      // no tick yet
	last       time.Time // the last tick, whether or not it had anything to do
	listed     time.Time // when the threads were last listed
	generation uint64
	named      map[profile.SpanID]string // roots met in this window, with their names
	names      namer

	start   origin
	clock   time.Duration // of the process, at the last tick
	booked  time.Duration // of that clock, in earlier windows
	charged time.Duration // to Python threads, in this window
	native  nativeThreads
}

// origin is from where a program's cost counts: the birth of the process, or
// the exec by which the program replaced another one.
type origin struct {
	at      time.Time             // zero: the birth
	process time.Duration         // CPU until then
	threads map[int]time.Duration // likewise, by kernel id
}

func newSampler(process *proc.Process, reader *cpython.Reader, ledger *ledger, link bool, start origin) *sampler {
	return &sampler{
		process: process, reader: reader, ledger: ledger, link: link,
		first: true, last: time.Now(), start: start, booked: start.process,
		named: map[profile.SpanID]string{},
	}
}

// born is from when the first window counts.
func (s *sampler) born(now time.Time) time.Time {
	if !s.start.at.IsZero() {
		return s.start.at
	}
	stat, err := s.process.Stat()
	if err != nil {
		return now
	}
	return now.Add(min(0, stat.Started-proc.SinceBoot()))
}

// tick samples what has run since the last one. It fails with proc.ErrGone
// when the process has ended, or runs another program.
func (s *sampler) tick(now time.Time) error {
	tick := now.Sub(s.last)
	s.last = now
	if s.process.PID > 0 {
		clock, err := s.process.CPU()
		if err != nil {
			return err
		}
		if clock == s.clock && !s.first && !s.warm(now) {
			return nil // nothing moved; wall time is booked by the next tick that finds something
		}
		s.clock = clock
	}
	if err := s.list(now, tick); err != nil {
		return err
	}
	for _, t := range s.threads {
		if err := s.visit(t, now, tick); errors.Is(err, proc.ErrGone) || errors.Is(err, cpython.ErrThreadGone) {
			s.listed = time.Time{} // the thread has ended
		} else if err != nil {
			return err
		}
	}
	s.first = false
	s.names.update(s, now)
	s.native.update(s, now)
	return nil
}

// warm reports whether a thread that ran lately was put on a CPU again.
func (s *sampler) warm(now time.Time) bool {
	for _, t := range s.threads {
		if t.task == nil || now.Sub(t.ran) > warmFor {
			continue
		}
		if usage, err := t.task.Usage(); err != nil || usage != t.usage || !t.asleep {
			return true
		}
	}
	return false
}

// visit samples one thread if it has run. The time since the last visit is
// booked where the thread was found then.
func (s *sampler) visit(t *thread, now time.Time, tick time.Duration) error {
	if !t.fresh {
		t.spend(now)
	}
	if t.task == nil {
		return s.sample(t)
	}
	usage, err := t.task.Usage()
	if err != nil {
		return err
	}
	if usage == t.usage && t.asleep {
		if t.python.SpanEnded() {
			t.account.at(t.python.Frames, profile.Link{})
		}
		return nil
	}
	contended := usage.Wait-t.usage.Wait > tick/contention
	used := s.charge(t, usage)
	t.ran = now
	state, err := t.task.State()
	if err != nil {
		return err
	}
	t.python.Asleep = nil
	if state != proc.Running {
		t.python.Asleep = func() bool {
			now, err := t.task.Usage()
			return err == nil && now.Switches == usage.Switches
		}
	}
	if err := s.sample(t); err != nil {
		return err
	}
	if t.fresh {
		t.spend(now)
		t.fresh = false
	}
	t.asleep = state != proc.Running
	t.account.seen(used, t.onCPU(state, contended))
	return nil
}

// charge books the CPU time that the kernel says the thread used since the last
// call, and returns it.
func (s *sampler) charge(t *thread, usage proc.Usage) (used time.Duration) {
	used = usage.CPU - t.usage.CPU
	t.usage = usage
	t.account.charge(used)
	s.charged += used
	return used
}

// sample reads stack and span of a thread and moves its account there.
func (s *sampler) sample(t *thread) error {
	s.counts.samples++
	err := t.python.Sample()
	switch {
	case errors.Is(err, proc.ErrGone), errors.Is(err, proc.ErrDenied), errors.Is(err, cpython.ErrThreadGone):
		return err
	case err != nil:
		// Dropping the sample would favour what is easy to read.
		s.counts.givenUp++
		t.account.unlink()
		return nil
	}
	if t.python.Torn {
		s.counts.torn++
	}
	var link profile.Link
	switch {
	case !t.python.Proven:
		s.counts.unproven++
	case s.link:
		link = t.python.Span.Link
		s.nameRoot(t.python.Span)
	}
	t.account.at(t.python.Frames, link)
	return nil
}

// nameRoot notes the name of a local root. If the span has another one when it
// ends, the shim says so.
func (s *sampler) nameRoot(span cpython.Span) {
	root := span.Link.Root
	if root.IsZero() {
		return
	}
	if name, met := s.named[root]; !met || name != span.RootName {
		s.named[root] = span.RootName
		s.ledger.builder.NameSpan(root, span.RootName)
	}
}

// renameRoot sets the name of a root that was met in this window.
func (s *sampler) renameRoot(root profile.SpanID, name string) {
	if _, met := s.named[root]; met {
		s.named[root] = name
		s.ledger.builder.NameSpan(root, name)
	}
}

// window ends a window and returns what it cost, nil if nothing. final says
// that it is the last one.
func (s *sampler) window(now time.Time, final bool) *profile.Profile {
	for _, t := range s.threads {
		t.spend(now)
		if t.task == nil {
			continue
		}
		// In the end a thread that called exec has the first one's id: what is
		// more than the process used is not this thread's.
		usage, err := t.task.Usage()
		if used := usage.CPU - t.usage.CPU; err == nil && (!final || used >= 0 && used <= s.unbooked()) {
			s.charge(t, usage)
		}
	}
	s.bookRest(final)
	p := s.ledger.end(final)
	clear(s.named)
	return p
}

// bookRest books what the process used beyond its Python threads, so that the
// profile's sum is the process's own.
func (s *sampler) bookRest(final bool) {
	if s.process.PID == 0 {
		return
	}
	rest := s.unbooked()
	s.charged = 0
	if rest <= 0 {
		s.booked = s.clock - rest
		return
	}
	s.booked = s.clock
	if !final {
		s.native.read(s)
	}
	native := min(rest, s.native.take())
	s.ledger.extra(frameNative, native)
	s.ledger.extra(frameNotObserved, rest-native)
}

// unbooked is what the process used and no thread was charged with.
func (s *sampler) unbooked() time.Duration {
	if clock, err := s.process.CPU(); err == nil {
		s.clock = clock
	}
	return s.clock - s.booked - s.charged
}

// forget gives up the threads of a program that exec has replaced: their kernel
// ids may be those of others now.
func (s *sampler) forget() {
	for _, t := range s.threads {
		t.close()
	}
}

// close releases the threads.
func (s *sampler) close() {
	for _, t := range s.threads {
		t.close()
	}
	s.native.close()
}
