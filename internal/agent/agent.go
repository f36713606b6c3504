// Package agent follows the CPython processes of a command from their birth to
// their end, books what they cost and has it exported.
package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"github.com/spanflame/spanflame/internal/config"
	"github.com/spanflame/spanflame/internal/cpython"
	"github.com/spanflame/spanflame/internal/launch"
	"github.com/spanflame/spanflame/internal/proc"
	"github.com/spanflame/spanflame/internal/shim"
)

// Input is what an agent works with.
type Input struct {
	Config   *config.Config
	Listener *net.UnixListener // where shims register
	Token    string            // that they have to know
	// Control tells about the command; it is closed when the front is gone.
	Control <-chan launch.Event
	// Ack is called when an exited command's clocks have been read.
	Ack func(pid int)
	// Flushed is called when the command has exited and everything up to its
	// end is delivered, or ShutdownTimeout has passed.
	Flushed func()
	Log     *slog.Logger
}

// agent is one run of an agent.
type agent struct {
	in     Input
	outlet *outlet

	mu       sync.Mutex
	targets  map[int]*target // by pid; those that live
	seen     int             // targets so far
	totals   counts
	told     map[string]bool // lines that are said once
	replaced map[int]origin  // by pid: where a program that exec replaced had come to
	refused  map[int]string  // by pid: why it is not profiled
	changed  chan struct{}   // something above changed
}

// Main follows the command and its descendants until they are gone, delivers
// what is left and returns.
func Main(ctx context.Context, in Input) error {
	outlet, err := newOutlet(in.Config, in.Log)
	if err != nil {
		return err
	}
	a := &agent{
		in: in, outlet: outlet,
		targets: map[int]*target{}, told: map[string]bool{}, refused: map[int]string{}, replaced: map[int]origin{}, changed: make(chan struct{}, 1),
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	server := shim.NewServer(in.Listener, in.Token, a.configure, in.Log)
	running.Go(func() {
		if err := server.Serve(ctx, a.register); err != nil {
			in.Log.Error("no more processes can register", "err", err)
		}
	})
	watcher := newWatcher(a)
	running.Go(func() { watcher.run(ctx) })
	a.follow(ctx, watcher)
	a.outlet.shutdown(in.Config.ShutdownTimeout)
	return nil
}

// follow returns when the command and all targets have ended.
func (a *agent) follow(ctx context.Context, watcher *watcher) {
	control, flushed := a.in.Control, false
	for {
		select {
		case e, ok := <-control:
			switch {
			case !ok: // the front is gone: it does not wait for us
				control, flushed = nil, true
			case e.Kind == launch.Started:
				watcher.watch(e.PID)
			case e.Kind == launch.Exited:
				a.exited(e.PID)
				flushed = true
			}
		case <-a.changed:
		case <-ctx.Done():
			return
		}
		if flushed && a.idle() && !watcher.alive() {
			return
		}
	}
}

// exited delivers everything up to the command's end.
func (a *agent) exited(pid int) {
	const settle = 150 * time.Millisecond // for a target to notice its end
	if t := a.target(pid); t != nil {
		select {
		case <-t.done:
		case <-time.After(settle):
		}
	}
	a.in.Ack(pid)
	deadline := time.Now().Add(a.in.Config.ShutdownTimeout)
	for _, t := range a.living() {
		t.flushNow()
	}
	a.outlet.flush(max(time.Until(deadline), settle)) // a file takes a moment too
	if line := a.summary(); line != "" {
		a.in.Log.Info(line)
	}
	a.in.Flushed()
}

func (a *agent) target(pid int) *target {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.targets[pid]
}

func (a *agent) living() []*target {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []*target
	for _, t := range a.targets {
		all = append(all, t)
	}
	return all
}

func (a *agent) idle() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.targets) == 0
}

func (a *agent) notify() {
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// once logs a warning the first time that it comes up.
func (a *agent) once(message string) {
	a.mu.Lock()
	said := a.told[message]
	a.told[message] = true
	a.mu.Unlock()
	if !said {
		a.in.Log.Warn(message)
	}
}

// configure answers a shim.
func (a *agent) configure(shim.Hello, shim.Peer) (map[string]any, error) {
	return map[string]any{"include_trace_context": a.in.Config.IncludeTraceContext}, nil
}

// register follows a process whose shim has registered, until it ends.
func (a *agent) register(conn *shim.Conn) {
	hello := conn.Hello
	if reason := unsupported(hello); reason != "" {
		a.refuse(conn.Peer.PID, hello.Executable, reason)
		return
	}
	var listening sync.WaitGroup
	defer listening.Wait()
	defer conn.Close() // ends the listening
	listen := func(t *target) {
		listening.Go(func() { t.listen(conn) })
	}
	if t := a.target(conn.Peer.PID); t != nil && t.same() {
		t.attach(conn)
		listen(t)
		<-t.done
		return
	}
	process, memory, err := openTarget(conn)
	if err != nil {
		a.refuse(conn.Peer.PID, hello.Executable, err.Error())
		return
	}
	a.run(process, memory, program{hello.Executable, hello.Args, hello.Version}, conn.Ring, listen)
}

// refuse says, once for each reason, that a program is not profiled.
func (a *agent) refuse(pid int, executable, reason string) {
	a.mu.Lock()
	said := a.refused[pid] == reason
	a.refused[pid] = reason
	a.mu.Unlock()
	if !said {
		a.once(fmt.Sprintf("%s runs on unprofiled: %s", filepath.Base(executable), reason))
	}
}

// unsupported says why a registered interpreter cannot be profiled.
func unsupported(hello shim.Hello) string {
	switch {
	case hello.Implementation != "cpython":
		return fmt.Sprintf("%s is not supported, CPython %s are", hello.Implementation, cpython.Supported)
	case hello.FreeThreaded:
		return "free-threaded builds of CPython are not supported"
	}
	return ""
}

// openTarget takes what the shim handed over, and opens what it could not.
func openTarget(conn *shim.Conn) (process *proc.Process, memory *proc.Memory, err error) {
	pid := conn.Peer.PID
	if conn.ProcDir != nil {
		process = proc.NewProcess(pid, conn.ProcDir)
	} else if process, err = proc.OpenProcess(pid); err != nil {
		return nil, nil, err
	}
	if conn.Mem != nil {
		return process, proc.NewMemory(pid, conn.Mem), nil
	}
	if memory, err = proc.OpenMemory(pid); err != nil {
		process.Close()
	}
	return process, memory, err
}

// run follows one process until it ends or its program is replaced. It owns
// process and memory.
func (a *agent) run(process *proc.Process, memory *proc.Memory, program program, ring *shim.Ring, started func(*target)) {
	defer memory.Close()
	image, err := cpython.Locate(process)
	var reader *cpython.Reader
	if err == nil {
		program.version = image.Version
		reader, err = cpython.NewReader(memory, image)
	}
	var alarm *proc.Alarm
	if err == nil {
		alarm, err = process.NewAlarm()
	}
	if err != nil {
		process.Close()
		if !errors.Is(err, proc.ErrGone) && !errors.Is(err, cpython.ErrNotPython) {
			a.refuse(process.PID, program.executable, err.Error())
		}
		return
	}
	start := a.displace(process.PID)
	ledger := newLedger(a.in.Config.SampleInterval, a.in.Config.MaxFrames)
	t := &target{
		cfg: a.in.Config, log: a.in.Log, process: process, alarm: alarm, ring: ring, program: program,
		sampler: newSampler(process, reader, ledger, a.in.Config.IncludeTraceContext, start),
		deliver: a.outlet.put,
		flush:   make(chan chan struct{}), stop: make(chan struct{}), done: make(chan struct{}),
	}
	a.mu.Lock()
	a.targets[process.PID] = t
	a.seen++
	a.mu.Unlock()
	started(t)
	a.guard(t)
	a.mu.Lock()
	if a.targets[process.PID] == t {
		delete(a.targets, process.PID)
	}
	if t.replaced && len(a.replaced) < maxReplaced {
		a.replaced[process.PID] = t.origin()
	} else {
		delete(a.replaced, process.PID)
	}
	a.totals.add(t.sampler.counts)
	a.mu.Unlock()
	a.notify()
}

// guard runs a target. What is read there is another program's memory: should
// it lead us into a fault of ours, the other targets go on.
func (a *agent) guard(t *target) {
	defer func() {
		if r := recover(); r != nil {
			a.in.Log.Error("internal error, a process is no longer profiled", "pid", t.process.PID, "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
		}
	}()
	t.run()
}

// displace ends the target that has this pid so far, if any, and returns where
// the next one begins to count.
func (a *agent) displace(pid int) origin {
	if t := a.target(pid); t != nil {
		t.end()
		<-t.done
		return t.origin()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.replaced[pid]
}

// maxReplaced bounds what is remembered of programs that were replaced by one
// that is not followed.
const maxReplaced = 1 << 16

// summary says in one line what was done and where it went; nothing if it has
// been said already why nothing was done.
func (a *agent) summary() string {
	a.mu.Lock()
	all, seen, said := a.totals, a.seen, len(a.told) > 0
	a.mu.Unlock()
	for _, t := range a.living() {
		all.add(t.counted())
	}
	if seen == 0 && said {
		return ""
	}
	if seen == 0 {
		return "no CPython process was seen, nothing is profiled"
	}
	return fmt.Sprintf("%s of %s (torn %d, unproven %d, given up %d, late %d) %s",
		plural(all.samples, "sample", "s"), plural(uint64(seen), "process", "es"),
		all.torn, all.unproven, all.givenUp, all.late, a.outlet.fate())
}

func plural(n uint64, noun, ending string) string {
	if n == 1 {
		ending = ""
	}
	return fmt.Sprintf("%d %s%s", n, noun, ending)
}
