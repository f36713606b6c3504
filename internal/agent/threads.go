package agent

import (
	"errors"
	"time"

	"github.com/spanflame/spanflame/internal/cpython"
	"github.com/spanflame/spanflame/internal/proc"
	"github.com/spanflame/spanflame/profile"
)

// thread is one Python thread of a target.
type thread struct {
	ref     cpython.ThreadRef
	python  *cpython.Thread
	task    *proc.Thread // nil for a second thread state on one kernel thread
	account *account

	usage   proc.Usage
	asleep  bool                   // was neither on a CPU nor waiting for one when last sampled
	ran     time.Time              // when it was last seen to have run
	told    time.Time              // up to when its wall time is booked
	fresh   bool                   // not sampled yet, and younger than the last tick
	unnamed int                    // how often its name was looked for
	slept   map[cpython.Frame]bool // top frames in which it was found asleep
}

// certainty that a sample found a thread using a CPU.
type certainty uint8

const (
	not certainty = iota
	perhaps
	surely
)

// onCPU tells whether the sample just taken found the thread using a CPU. Its
// state alone does not: a thread that waits for a CPU is Running too. contended
// says that it has had to wait since its last sample.
//
// The counters do, unless our own tick took that CPU from it. Without the GIL,
// a thread runs C code or has just been woken: the latter is where it slept
// before.
func (t *thread) onCPU(state proc.State, contended bool) certainty {
	var top cpython.Frame
	if len(t.python.Frames) > 0 {
		top = t.python.Frames[0]
	}
	if state != proc.Running {
		if len(t.slept) > maxSlept {
			clear(t.slept)
		}
		t.slept[top] = true
		return not
	}
	woken := !t.python.GIL && t.slept[top]
	if !woken && !contended {
		return surely
	}
	on, err := t.task.OnCPU()
	switch {
	case err == nil && on:
		return surely
	case woken:
		return not
	}
	return perhaps
}

// contention is how much of its time a thread may wait for a CPU without its
// state being doubted: our own ticks take as much.
const contention = 50 // one part in

// maxSlept bounds what is remembered of one thread.
const maxSlept = 1000

// spend books the time since the last visit.
func (t *thread) spend(now time.Time) {
	t.account.spend(now.Sub(t.told))
	t.told = now
}

func (t *thread) close() {
	if t.task != nil {
		t.task.Close()
	}
}

// list brings the threads up to date, if there is a sign that they changed.
func (s *sampler) list(now time.Time, tick time.Duration) error {
	generation, err := s.reader.Generation()
	if err != nil {
		return err
	}
	if generation == s.generation && now.Sub(s.listed) < relistAfter {
		return nil
	}
	refs, err := s.reader.Threads()
	if errors.Is(err, proc.ErrGone) || errors.Is(err, proc.ErrDenied) {
		return err
	} else if err != nil {
		return nil // the list changed meanwhile: next tick
	}
	s.generation, s.listed = generation, now
	old := make(map[cpython.ThreadRef]*thread, len(s.threads))
	onTask := map[int]bool{}
	for _, t := range s.threads {
		old[t.ref] = t
	}
	s.threads = s.threads[:0]
	var fresh []cpython.ThreadRef
	for _, ref := range refs {
		if t := old[ref]; t != nil {
			delete(old, ref)
			s.threads = append(s.threads, t)
			if t.task != nil {
				onTask[t.task.TID] = true
			}
			continue
		}
		fresh = append(fresh, ref)
	}
	for _, t := range old {
		s.lose(t, now)
	}
	// The oldest last: of two thread states on one kernel thread, the main
	// interpreter's comes first.
	for i := len(fresh) - 1; i >= 0; i-- {
		if t := s.meet(fresh[i], now, tick, onTask); t != nil {
			s.threads = append(s.threads, t)
		}
	}
	return nil
}

// lose books the rest of a thread that has ended.
func (s *sampler) lose(t *thread, now time.Time) {
	if t.task != nil {
		if usage, err := t.task.Usage(); err == nil {
			s.charge(t, usage)
		}
	}
	t.spend(now.Add(-now.Sub(t.told) / 2)) // it ended some time since then
	t.close()
	s.ledger.close(t.account)
}

// meet begins to follow a thread; nil when it has ended already.
func (s *sampler) meet(ref cpython.ThreadRef, now time.Time, tick time.Duration, onTask map[int]bool) *thread {
	t := &thread{ref: ref, python: s.reader.Thread(ref), told: now, ran: now, fresh: !s.first, slept: map[cpython.Frame]bool{}}
	tid := int(ref.NativeID)
	if !onTask[tid] {
		task, err := s.process.OpenThread(tid)
		if err != nil && ref.Main {
			// After a fork that CPython does not know of (uWSGI's), the state still
			// has the parent's id.
			task, err = s.process.OpenMain()
		}
		if err != nil {
			return nil
		}
		t.task = task
		onTask[task.TID] = true
		tid = task.TID
	}
	t.account = s.ledger.open(labels(ref, tid, ""))
	if t.task == nil {
		return t
	}
	usage, err := t.task.Usage()
	if err != nil {
		t.close()
		s.ledger.close(t.account)
		return nil
	}
	if age, err := t.task.Started(); err == nil {
		t.told = now.Add(age - proc.SinceBoot())
	}
	if s.first {
		before, known := s.start.threads[tid]
		if known {
			t.told = s.start.at
		}
		startup := usage.CPU - before
		if known {
			// The thread that called exec goes on under the first one's id.
			startup = max(0, min(startup, s.clock-s.start.process))
		}
		t.account.startup += startup
		s.charged += startup
	} else {
		t.told = latest(t.told, now.Add(-tick))
		t.account.charge(usage.CPU)
		s.charged += usage.CPU
	}
	t.usage = usage
	return t
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func labels(ref cpython.ThreadRef, tid int, name string) []profile.Label {
	set := []profile.Label{
		{Key: profile.LabelThreadID, Num: int64(ref.Ident)},
		{Key: profile.LabelNativeThreadID, Num: int64(tid)},
	}
	if name != "" {
		set = append(set, profile.Label{Key: profile.LabelThreadName, Str: name})
	}
	return set
}

// namer finds the names of threads. The threading module may learn of a thread
// after the interpreter does.
type namer struct {
	all  time.Time // when all names were last read
	last time.Time // when some were
}

const (
	nameTries      = 5
	nameEvery      = 100 * time.Millisecond
	nameRefreshing = 10 * time.Second // a thread may be renamed
)

func (n *namer) update(s *sampler, now time.Time) {
	everyone := now.Sub(n.all) > nameRefreshing
	if !everyone && now.Sub(n.last) < nameEvery {
		return
	}
	n.last = now
	wanted := map[uint64]bool{}
	for _, t := range s.threads {
		if everyone || t.unnamed < nameTries {
			wanted[t.ref.Ident] = true
		}
	}
	if len(wanted) == 0 {
		return
	}
	names, err := s.reader.ThreadNames(func(ident uint64) bool { return wanted[ident] })
	if err != nil {
		return // threading is not loaded
	}
	if everyone {
		n.all = now
	}
	for _, t := range s.threads {
		if name, ok := names[t.ref.Ident]; ok {
			t.account.labels = labels(t.ref, int(t.account.labels[1].Num), name)
			t.unnamed = nameTries
		} else if wanted[t.ref.Ident] {
			t.unnamed++
		}
	}
}
