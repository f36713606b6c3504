package proc

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Alarm sleeps until a time or until a process ends. The kernel does not put
// off its timer to fire it with others, as it does a sleeping thread's: those
// of the watched process, for one, whose wake-ups would look frequent. And no
// thread of ours blocks in it, which would keep Go's monitor awake.
type Alarm struct {
	poll  *os.File // an epoll of what follows, waited for in Go's own
	conn  syscall.RawConn
	timer int
	pidfd int // -1 where there is none
}

// NewAlarm returns an Alarm for the process. Close it before the Process.
func (p *Process) NewAlarm() (*Alarm, error) {
	a := &Alarm{timer: -1, pidfd: -1}
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make an alarm: %w", err)
	}
	if err := unix.SetNonblock(epoll, true); err != nil { // for os.NewFile to wait for it
		unix.Close(epoll)
		return nil, fmt.Errorf("make an alarm: %w", err)
	}
	a.poll = os.NewFile(uintptr(epoll), "alarm")
	a.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err == nil {
		err = watch(epoll, a.timer)
	}
	if err == nil && p.pidfd != nil {
		a.pidfd = int(p.pidfd.Fd())
		err = watch(epoll, a.pidfd)
	}
	if err == nil {
		a.conn, err = a.poll.SyscallConn()
	}
	if err != nil {
		a.Close()
		return nil, fmt.Errorf("make an alarm: %w", err)
	}
	return a, nil
}

func watch(epoll, fd int) error {
	return unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
}

// Close frees the alarm.
func (a *Alarm) Close() {
	a.poll.Close()
	if a.timer >= 0 {
		unix.Close(a.timer)
	}
}

// Wait returns after d, or earlier when the process has ended, and reports
// whether it has. Without a pidfd it never does.
func (a *Alarm) Wait(d time.Duration) (ended bool) {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(max(1, int64(d)))}
	if err := setTimer(a.timer, &spec); err != nil {
		time.Sleep(d)
		return false
	}
	_ = a.conn.Read(func(epoll uintptr) bool {
		var events [2]unix.EpollEvent
		n, err := readyEvents(int(epoll), events[:])
		if errors.Is(err, unix.EINTR) {
			return false
		}
		for _, e := range events[:n] {
			ended = ended || int(e.Fd) == a.pidfd
		}
		// That the timer has fired is taken back when it is set anew.
		return n > 0 || err != nil
	})
	return ended
}
