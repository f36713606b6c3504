package proc

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// tick is the unit of times in /proc/PID/stat: USER_HZ, 100 on every Linux.
const tick = 10 * time.Millisecond

// maxFile bounds what is read of a file in /proc.
const maxFile = 16 << 20

// Process is a handle on one process through its directory in /proc.
type Process struct {
	PID   int
	dir   *os.File
	pidfd *os.File // nil where it cannot be had
}

// OpenProcess opens pid: [ErrGone] where no such process is.
func OpenProcess(pid int) (*Process, error) {
	dir, err := os.Open(fmt.Sprintf("/proc/%d", pid))
	if err != nil {
		return nil, fmt.Errorf("open process %d: %w", pid, kind(err))
	}
	return NewProcess(pid, dir), nil
}

// NewProcess takes over dir, the process's /proc/self, which may be of another
// pid namespace than ours. pid is that of our namespace, 0 when it has none.
func NewProcess(pid int, dir *os.File) *Process {
	p := &Process{PID: pid, dir: dir}
	if fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK); pid > 0 && err == nil {
		p.pidfd = os.NewFile(uintptr(fd), "pidfd")
	}
	return p
}

// Close closes the handles.
func (p *Process) Close() {
	p.dir.Close()
	if p.pidfd != nil {
		p.pidfd.Close()
	}
}

// Gone reports whether the process has ended, reaped or not.
func (p *Process) Gone() bool {
	if p.pidfd == nil {
		_, err := p.Stat()
		return err != nil
	}
	fds := []unix.PollFd{{Fd: int32(p.pidfd.Fd()), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0
}

// CPU returns the CPU time of all threads that the process has or had, up to
// this moment: [ErrGone] once it is reaped. It needs a pid in our namespace.
func (p *Process) CPU() (time.Duration, error) {
	// The kernel's dynamic clock of a process: CPUCLOCK_SCHED (2) with the pid's
	// complement above (include/linux/posix-timers_types.h, Linux 6.8).
	ts, err := clock(int32(^p.PID<<3 | 2))
	if err != nil {
		return 0, ErrGone // EINVAL for a pid that is not there
	}
	return time.Duration(ts.Nano()), nil
}

// Threads lists the kernel's thread ids, in the namespace of the directory.
func (p *Process) Threads() ([]int, error) {
	fd, err := unix.Openat(int(p.dir.Fd()), "task", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, kind(err)
	}
	dir := os.NewFile(uintptr(fd), "task")
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, kind(err)
	}
	tids := make([]int, 0, len(names))
	for _, name := range names {
		if tid, err := strconv.Atoi(name); err == nil {
			tids = append(tids, tid)
		}
	}
	return tids, nil
}

// Stat is what a profiler needs of /proc/PID/stat.
type Stat struct {
	State   State
	Parent  int
	Started time.Duration // since boot, in steps of 10 ms
}

// Stat reads the state of the process: [ErrGone] once it is reaped.
func (p *Process) Stat() (Stat, error) {
	text, err := p.ReadFile("stat")
	if err != nil {
		return Stat{}, err
	}
	return parseStat(text)
}

// ReadFile reads a file below the process's directory, at most 16 MiB.
func (p *Process) ReadFile(name string) ([]byte, error) {
	fd, err := unix.Openat(int(p.dir.Fd()), name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, kind(err)
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	var all bytes.Buffer
	buf := make([]byte, 32<<10)
	for all.Len() < maxFile {
		n, err := f.Read(buf)
		all.Write(buf[:n])
		if n == 0 || err != nil {
			break
		}
	}
	if all.Len() == 0 && p.pidfd != nil && p.Gone() {
		return nil, ErrGone
	}
	return all.Bytes(), nil
}

// Link reads a symbolic link of the process's directory, such as exe.
func (p *Process) Link(name string) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(p.dir.Fd()), name, buf)
	if err != nil {
		return "", kind(err)
	}
	return string(buf[:n]), nil
}

// parseStat parses /proc/PID/stat, whose second field may hold anything.
func parseStat(text []byte) (Stat, error) {
	end := bytes.LastIndexByte(text, ')')
	if end < 0 || end+2 >= len(text) {
		return Stat{}, ErrGone
	}
	fields := bytes.Fields(text[end+1:])
	const state, parent, start = 0, 1, 19
	if len(fields) <= start {
		return Stat{}, ErrGone
	}
	ppid, err := strconv.Atoi(string(fields[parent]))
	if err != nil {
		return Stat{}, fmt.Errorf("parse stat: %w", err)
	}
	ticks, err := strconv.ParseInt(string(fields[start]), 10, 64)
	if err != nil {
		return Stat{}, fmt.Errorf("parse stat: %w", err)
	}
	return Stat{State(fields[state][0]), ppid, time.Duration(ticks) * tick}, nil
}

// SinceBoot is the clock of [Stat.Started].
func SinceBoot() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
