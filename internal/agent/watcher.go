package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spanflame/spanflame/internal/proc"
)

const (
	// registrationGrace is how long a process may take to register before it is
	// read without its help.
	registrationGrace = 150 * time.Millisecond
	scanYoung         = 25 * time.Millisecond
	scanOld           = 500 * time.Millisecond
	youngFor          = time.Second
)

// watcher finds descendants of the command whose interpreter loads no shim
// (python -I, -S, -E, a cleaned environment), and has them read directly.
type watcher struct {
	a     *agent
	start chan int

	mu      sync.Mutex
	command *proc.Process

	running sync.WaitGroup
	known   map[int]*sighting
}

// sighting is a process that was seen.
type sighting struct {
	since time.Time
	exe   string
	done  bool // followed, or not ours to follow
}

func newWatcher(a *agent) *watcher {
	return &watcher{a: a, start: make(chan int, 1), known: map[int]*sighting{}}
}

// watch begins with the command's pid.
func (w *watcher) watch(pid int) {
	if p, err := proc.OpenProcess(pid); err == nil {
		w.mu.Lock()
		w.command = p
		w.mu.Unlock()
	}
	w.start <- pid
}

// alive reports whether the command itself still runs.
func (w *watcher) alive() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.command != nil && !w.command.Gone()
}

func (w *watcher) run(ctx context.Context) {
	defer w.running.Wait()
	var root int
	select {
	case root = <-w.start:
	case <-ctx.Done():
		return
	}
	began := time.Now()
	for {
		wait := scanOld
		if time.Since(began) < youngFor {
			wait = scanYoung
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		if w.scan(root) {
			began = time.Now()
		}
		if !w.alive() {
			w.a.notify()
			return
		}
	}
}

// scan looks at the command and its descendants once. It reports whether there
// was a new one.
func (w *watcher) scan(root int) (news bool) {
	now := time.Now()
	alive := map[int]bool{}
	for _, pid := range append([]int{root}, proc.Descendants(root)...) {
		alive[pid] = true
		exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		if err != nil {
			continue
		}
		seen := w.known[pid]
		if seen == nil || seen.exe != exe {
			seen = &sighting{since: now, exe: exe}
			w.known[pid] = seen
			news = true
		}
		if seen.done {
			continue
		}
		if w.a.target(pid) != nil {
			seen.done = true
			continue
		}
		if now.Sub(seen.since) >= registrationGrace || isolated(pid) || !w.invited(pid) {
			seen.done = true
			w.running.Go(func() { w.adopt(pid, exe) })
		}
	}
	for pid := range w.known {
		if !alive[pid] {
			delete(w.known, pid)
		}
	}
	return news
}

// adopt reads a process that has not registered.
func (w *watcher) adopt(pid int, exe string) {
	process, err := proc.OpenProcess(pid)
	if err != nil {
		return
	}
	memory, err := proc.OpenMemory(pid)
	if err != nil {
		process.Close()
		if errors.Is(err, proc.ErrDenied) && strings.Contains(filepath.Base(exe), "python") {
			w.a.refuse(pid, exe, "it loads no shim, and we may not read its memory without one")
		}
		return
	}
	var args []string
	if text, err := process.ReadFile("cmdline"); err == nil {
		args = strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
	}
	w.a.run(process, memory, program{executable: exe, args: args}, nil, func(*target) {})
}

// invited reports whether a process has the environment that makes its shim
// register.
func (w *watcher) invited(pid int) bool {
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && bytes.Contains(environ, []byte(w.a.in.Token))
}

// isolated reports whether an interpreter was started with a flag that keeps
// the shim out.
func isolated(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return false
	}
	args := bytes.Split(text, []byte{0})
	for _, arg := range args[min(1, len(args)):] {
		if len(arg) < 2 || arg[0] != '-' || arg[1] == '-' {
			return false
		}
		for _, flag := range arg[1:] {
			switch flag {
			case 'I', 'S', 'E':
				return strings.Contains(string(args[0]), "python")
			case 'c', 'm', 'W', 'X':
				return false // what follows is its argument
			}
		}
	}
	return false
}
