package agent

import (
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/spanflame/spanflame/internal/config"
	"github.com/spanflame/spanflame/internal/cpython"
	"github.com/spanflame/spanflame/internal/proc"
	"github.com/spanflame/spanflame/internal/shim"
	"github.com/spanflame/spanflame/profile"
)

// target is one program in one process, from when the agent learns of it to
// its end.
type target struct {
	cfg     *config.Config
	log     *slog.Logger
	process *proc.Process
	alarm   *proc.Alarm
	sampler *sampler
	ring    *shim.Ring // nil: no shim, or none to be had
	deliver func(*profile.Profile)

	mu       sync.Mutex
	resource map[string]any // of the tracer provider
	otel     *cpython.Otel  // to be taken over by the sampler
	attached *shim.Ring     // likewise, by the target
	counts   counts         // at the last window's end
	flush    chan chan struct{}

	stop     chan struct{} // closed to end a target that lives
	stopOnce sync.Once
	done     chan struct{} // closed at its end

	replaced bool // by another program; read it after done
	program  program
	seq      int
	begin    time.Time // of the window
	drained  time.Time
	searched time.Time // for OpenTelemetry, last
	modules  uint64    // that were loaded then
}

// program is what is known of the interpreter and what it runs.
type program struct {
	executable string
	args       []string
	version    cpython.Version
}

// run samples until the process ends, its program is replaced, or stop is
// closed, and delivers a profile for each window.
func (t *target) run() {
	defer close(t.done)
	defer t.process.Close()
	defer t.sampler.close()
	defer t.alarm.Close()
	next := time.Now()
	t.begin = t.sampler.born(next)
	for {
		ended := t.alarm.Wait(time.Until(next))
		select {
		case <-t.stop:
			t.window(time.Now(), true)
			return
		case done := <-t.flush:
			t.window(time.Now(), false)
			close(done)
		default:
		}
		now := time.Now()
		if ended {
			t.window(now, true)
			return
		}
		t.take(now)
		if err := t.sampler.tick(now); err != nil {
			// Its end, or another program by exec, which registers anew.
			if t.replaced = !t.process.Gone(); t.replaced {
				t.sampler.forget()
			}
			t.window(now, true)
			return
		}
		if now.Sub(t.drained) >= drainEvery {
			t.drained = now
			t.drain()
		}
		if now.Sub(t.begin) >= t.cfg.ExportInterval {
			t.window(now, false)
		}
		// Evenly spaced ticks would beat with programs that work to a clock.
		interval := float64(t.cfg.SampleInterval)
		next = next.Add(time.Duration(interval * (0.5 + rand.Float64())))
		if late := now.Sub(next); late > 0 {
			if late > t.cfg.SampleInterval {
				t.sampler.counts.late++
			}
			next = now
		}
	}
}

// take hands over what the shim has said since the last tick, or looks for
// OpenTelemetry where there is no shim to say it.
func (t *target) take(now time.Time) {
	t.mu.Lock()
	otel := t.otel
	t.otel = nil
	if t.attached != nil {
		t.ring, t.attached = t.attached, nil
	}
	t.mu.Unlock()
	if otel != nil {
		if err := t.sampler.reader.SetOtel(*otel); err != nil {
			t.log.Debug("spans not linked", "pid", t.process.PID, "err", err)
		}
		return
	}
	t.search(now)
}

// search looks for OpenTelemetry while modules are being loaded, and now and
// then after that.
func (t *target) search(now time.Time) {
	if t.ring != nil || !t.sampler.link || t.sampler.reader.HasOtel() || now.Sub(t.searched) < searchEvery {
		return
	}
	modules, err := t.sampler.reader.Modules()
	if err != nil || modules == t.modules && now.Sub(t.searched) < searchAnyway {
		return
	}
	t.modules, t.searched = modules, now
	if found, err := t.sampler.reader.FindOtel(); err == nil {
		_ = t.sampler.reader.SetOtel(found) // looked for again, if it fails
	}
}

const (
	searchEvery  = 20 * time.Millisecond
	searchAnyway = 5 * time.Second
)

// drainEvery is how often the ring is read: names are all it holds.
const drainEvery = 100 * time.Millisecond

// drain reads the events of the shim.
func (t *target) drain() {
	if t.ring == nil {
		return
	}
	t.ring.Drain(func(record shim.Record) {
		if name, err := record.SpanName(); err == nil {
			t.sampler.renameRoot(name.Span, name.Name)
		}
	})
}

// window ends the window and delivers what it cost.
func (t *target) window(now time.Time, final bool) {
	t.drain()
	p := t.sampler.window(now, final)
	if p != nil {
		t.seq++
		p.PID, p.Seq = t.process.PID, t.seq
		p.Start, p.Duration = t.begin.UnixNano(), max(1, int64(now.Sub(t.begin)))
		p.Resource = t.describe()
		t.deliver(p)
	}
	t.begin = now
	t.mu.Lock()
	t.counts = t.sampler.counts
	t.mu.Unlock()
}

// counted returns the counts at the last window's end.
func (t *target) counted() counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts
}

// same reports whether the process still runs the program that is followed,
// and not another one by exec.
func (t *target) same() bool { return t.sampler.reader.Alive() }

// attach gives the target a shim that registers when the program is being
// followed already: it was slow, or had lost its connection.
func (t *target) attach(conn *shim.Conn) {
	t.mu.Lock()
	t.attached = conn.Ring
	t.mu.Unlock()
}

// end makes run return, if the target lives.
func (t *target) end() { t.stopOnce.Do(func() { close(t.stop) }) }

// origin tells, after the end, what the next program in this process counts
// from.
func (t *target) origin() origin {
	o := origin{at: t.begin, process: t.sampler.booked, threads: map[int]time.Duration{}}
	for _, thread := range t.sampler.threads {
		if thread.task != nil {
			o.threads[thread.task.TID] = thread.usage.CPU
		}
	}
	return o
}

// flushNow ends the window at once, if the target lives.
func (t *target) flushNow() {
	done := make(chan struct{})
	select {
	case t.flush <- done:
		select {
		case <-done:
		case <-t.done:
		}
	case <-t.done:
	}
}

// listen takes what the shim says until it closes.
func (t *target) listen(conn *shim.Conn) {
	for {
		message, err := conn.Receive()
		if err != nil {
			return
		}
		switch m := message.(type) {
		case *shim.OtelMessage:
			t.mu.Lock()
			t.otel = &cpython.Otel{ContextVar: m.ContextVar, SpanKey: m.SpanKey, RootVar: m.RootVar}
			t.mu.Unlock()
		case *shim.ResourceMessage:
			t.mu.Lock()
			t.resource = attributes(m.Attributes)
			t.mu.Unlock()
		case *shim.ErrorMessage:
			t.log.Warn("the shim reported an error; the program is not affected", "pid", t.process.PID, "reason", m.Reason)
		}
	}
}
