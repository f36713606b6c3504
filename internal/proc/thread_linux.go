package proc

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Thread is an open handle on one thread's counters.
type Thread struct {
	TID       int
	stat      int // descriptors, -1 when closed
	schedstat int
	status    int // opened when it is first needed
	process   *Process
	buf       [512]byte
}

// OpenThread opens a thread of the process by its kernel id: [ErrGone] when
// there is none.
func (p *Process) OpenThread(tid int) (*Thread, error) {
	t := &Thread{TID: tid, stat: -1, schedstat: -1, status: -1, process: p}
	var err error
	if t.schedstat, err = p.openTask(tid, "schedstat"); err != nil {
		return nil, err
	}
	if t.stat, err = p.openTask(tid, "stat"); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// OpenMain opens the process's first thread, whose id is that of the process.
func (p *Process) OpenMain() (*Thread, error) {
	text, err := p.ReadFile("stat")
	if err != nil {
		return nil, err
	}
	pid, _ := leadingNumber(text) // in the namespace of the directory
	return p.OpenThread(int(pid))
}

func (p *Process) openTask(tid int, name string) (int, error) {
	path := fmt.Sprintf("task/%d/%s", tid, name)
	fd, err := unix.Openat(int(p.dir.Fd()), path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open %s: %w", name, kind(err))
	}
	return fd, nil
}

// Close closes the handle; it may be called twice.
func (t *Thread) Close() {
	for _, fd := range []*int{&t.stat, &t.schedstat, &t.status} {
		if *fd >= 0 {
			unix.Close(*fd)
			*fd = -1
		}
	}
}

func (t *Thread) read(fd int) ([]byte, error) { return readFull(fd, t.buf[:]) }

func readFull(fd int, buf []byte) ([]byte, error) {
	for {
		n, err := pread(fd, buf, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n <= 0 {
			return nil, ErrGone
		}
		return buf[:n], nil
	}
}

// Usage reads what the thread has used: [ErrGone] once it has ended.
func (t *Thread) Usage() (Usage, error) {
	text, err := t.read(t.schedstat) // ns on CPU, ns waiting for one, times put on one
	if err != nil {
		return Usage{}, err
	}
	ns, rest := leadingNumber(text)
	wait, rest := leadingNumber(rest)
	switches, _ := leadingNumber(rest)
	return Usage{time.Duration(ns), time.Duration(wait), switches}, nil
}

// State reads the thread's state: [ErrGone] once it has ended.
func (t *Thread) State() (State, error) {
	text, err := t.read(t.stat)
	if err != nil {
		return 0, err
	}
	// The name in parentheses may hold any byte, but is at most 64 long.
	end := bytes.LastIndexByte(text[:min(len(text), 100)], ')')
	if end < 0 || end+2 >= len(text) {
		return 0, ErrGone
	}
	return State(text[end+2]), nil
}

// OnCPU reports whether the thread is on a CPU at this moment: unlike its
// state, which is also Running while it waits for one. The kernel counts when
// a thread is put on a CPU, and when it is taken off.
func (t *Thread) OnCPU() (bool, error) {
	if t.status < 0 {
		fd, err := t.process.openTask(t.TID, "status")
		if err != nil {
			return false, err
		}
		t.status = fd
	}
	on, err := t.Usage()
	if err != nil {
		return false, err
	}
	var buf [4096]byte
	text, err := readFull(t.status, buf[:])
	if err != nil {
		return false, err
	}
	var off uint64
	for _, name := range []string{"\nvoluntary_ctxt_switches:", "\nnonvoluntary_ctxt_switches:"} {
		_, rest, _ := bytes.Cut(text, []byte(name))
		n, _ := leadingNumber(bytes.TrimLeft(rest, "\t"))
		off += n
	}
	return on.Switches > off, nil
}

// Started is when the thread was started, since boot, in steps of 10 ms.
func (t *Thread) Started() (time.Duration, error) {
	text, err := t.read(t.stat)
	if err != nil {
		return 0, err
	}
	stat, err := parseStat(text)
	return stat.Started, err
}

// leadingNumber parses the decimal at the begin of text after spaces.
func leadingNumber(text []byte) (n uint64, rest []byte) {
	i := 0
	for i < len(text) && text[i] == ' ' {
		i++
	}
	for ; i < len(text) && text[i] >= '0' && text[i] <= '9'; i++ {
		n = n*10 + uint64(text[i]-'0')
	}
	return n, text[i:]
}
