package proc

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// maxVector is the kernel's limit on the ranges of one call (UIO_MAXIOV).
const maxVector = 1024

// Memory reads the memory of one process. It is not safe for concurrent use.
type Memory struct {
	pid    int
	file   *os.File // /proc/PID/mem
	fd     int
	direct bool // process_vm_readv is permitted

	local  []unix.Iovec
	remote []unix.RemoteIovec
}

// OpenMemory opens the memory of pid with our own rights: [ErrDenied] where
// they do not reach, [ErrGone] where no such process is.
func OpenMemory(pid int) (*Memory, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return nil, fmt.Errorf("open memory of process %d: %w", pid, kind(err))
	}
	return NewMemory(pid, f), nil
}

// NewMemory reads through mem, the process's own /proc/self/mem: what a
// process opened, it may hand to a reader without any right. pid is that of
// our namespace; when it is above 0 and the kernel permits, several ranges are
// read in one call. The Memory owns mem.
func NewMemory(pid int, mem *os.File) *Memory {
	return &Memory{pid: pid, file: mem, fd: int(mem.Fd()), direct: pid > 0}
}

// Close closes the file.
func (m *Memory) Close() error { return m.file.Close() }

// Direct reports whether several ranges are read in one call. It is known
// after the first Read.
func (m *Memory) Direct() bool { return m.direct }

// ReadAt reads at an address through the opened file: [ErrGone] when the
// address space it was opened on no longer exists, whoever has the pid now.
func (m *Memory) ReadAt(buf []byte, addr uint64) error {
	if len(buf) == 0 {
		return nil
	}
	for {
		n, err := pread(m.fd, buf, int64(addr))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return kind(err)
		case n == 0:
			return ErrGone // the address space is gone; an unmapped page is EIO
		case n < len(buf):
			return unix.EFAULT
		}
		return nil
	}
}

// Read fills the ranges in order and returns how many were filled before the
// first that could not be. Within one call they are as close to one moment as
// the kernel allows, each from its low end to its high end.
func (m *Memory) Read(ranges []Range) (int, error) {
	done := 0
	for m.direct && done < len(ranges) {
		batch := ranges[done:min(done+maxVector, len(ranges))]
		n, err := m.readVector(batch)
		done += n
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
			m.direct = false
			break
		}
		if err != nil {
			return done, kind(err)
		}
	}
	for ; done < len(ranges); done++ {
		if err := m.ReadAt(ranges[done].Buf, ranges[done].Addr); err != nil {
			return done, err
		}
	}
	return done, nil
}

func (m *Memory) readVector(ranges []Range) (int, error) {
	m.local, m.remote = m.local[:0], m.remote[:0]
	want := 0
	for _, r := range ranges {
		if len(r.Buf) == 0 {
			continue
		}
		vec := unix.Iovec{Base: &r.Buf[0]}
		vec.SetLen(len(r.Buf))
		m.local = append(m.local, vec)
		m.remote = append(m.remote, unix.RemoteIovec{Base: uintptr(r.Addr), Len: len(r.Buf)})
		want += len(r.Buf)
	}
	if want == 0 {
		return len(ranges), nil
	}
	done := 0
	n, err := m.vectors(want)
	switch {
	case n == want:
		return len(ranges), nil
	case err != nil:
		for ; len(ranges[done].Buf) == 0; done++ {
		}
		return done, err
	}
	for ; n >= len(ranges[done].Buf); done++ {
		n -= len(ranges[done].Buf)
	}
	return done, unix.EFAULT
}

func (m *Memory) vectors(total int) (int, error) {
	const quick = 256 << 10
	if total > quick {
		return unix.ProcessVMReadv(m.pid, m.local, m.remote, 0)
	}
	return readVectors(m.pid, m.local, m.remote)
}

// kind gives an error its meaning to callers.
func kind(err error) error {
	switch {
	case errors.Is(err, unix.ESRCH), errors.Is(err, os.ErrNotExist):
		return ErrGone
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return ErrDenied
	}
	return err
}
