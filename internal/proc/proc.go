// Package proc looks at processes from outside: their memory, clocks, threads,
// mappings and children. Linux only; elsewhere every call returns
// [ErrUnsupported].
//
// Everything it reads belongs to another program and is bounded.
package proc

import (
	"errors"
	"time"
)

var (
	// ErrGone means that the process or thread has ended, or that the process
	// has replaced its program (exec), so that what was opened reads nothing.
	ErrGone = errors.New("process is gone")
	// ErrDenied means that the kernel refuses us the process's memory.
	ErrDenied = errors.New("reading the process's memory is not permitted")
	// ErrUnsupported is returned on other systems than Linux.
	ErrUnsupported = errors.New("looking into processes needs Linux")
)

// Range is a piece of another process's memory and the buffer for it.
type Range struct {
	Addr uint64
	Buf  []byte
}

// Usage is what the scheduler has counted for one thread.
type Usage struct {
	CPU  time.Duration // on a CPU; lags behind by up to a scheduler tick while the thread runs
	Wait time.Duration // for a CPU, up to when it last got one
	// Switches counts how often the thread was put on a CPU. Unlike CPU it is
	// up to date at once.
	Switches uint64
}

// State is the letter that /proc/PID/stat gives a thread.
type State byte

// The states that matter to a profiler.
const (
	Running  State = 'R' // on a CPU or waiting for one
	Sleeping State = 'S'
	Zombie   State = 'Z'
)
