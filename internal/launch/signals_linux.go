package launch

import (
	"bytes"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// settle is how long after a signal we look whether the command got it
	// too: a service manager that kills a control group does so one by one.
	settle = 25 * time.Millisecond
	// sameKeystroke is how long after the command's end a signal still counts
	// as the one that ended it.
	sameKeystroke = 200 * time.Millisecond
)

// signals passes on what the command would have got in our place: signals
// that were sent to us alone. A terminal, or kill with a process group,
// reaches the command without our help.
type signals struct {
	incoming chan os.Signal
	witness  *witness
	ignored  []os.Signal // when we were started

	ended     atomic.Int64 // Unix nanoseconds of the command's end
	impatient chan struct{}
}

// arrival is a signal and when it came.
type arrival struct {
	signal syscall.Signal
	at     time.Time
}

// newSignals catches what does not depend on the command's start.
func newSignals() *signals {
	s := &signals{
		// Standard signals do not queue, so this much is never used up
		// within settle by anyone of good will.
		incoming:  make(chan os.Signal, 1024),
		impatient: make(chan struct{}),
		ignored:   ignoredAtStart(),
	}
	s.witness = startWitness()
	ignore(s.ignored) // some of them Go took over
	for _, sig := range forwarded() {
		if !s.ignores(sig) && !isStop(sig) {
			signal.Notify(s.incoming, sig)
		}
	}
	return s
}

// start starts the command with the dispositions that we were started with:
// what is caught becomes default by exec, what is ignored stays so. Therefore
// we catch the rest only then.
func (s *signals) start(c Command) (*os.Process, error) {
	command, err := c.start()
	if err != nil {
		return nil, err
	}
	// Who writes to a closed pipe or to another's terminal is told by an error.
	signal.Ignore(syscall.SIGPIPE, syscall.SIGTTOU)
	for _, sig := range forwarded() {
		if s.ignores(sig) || isStop(sig) {
			signal.Notify(s.incoming, sig)
			s.witness.took(sig)
		}
	}
	arrivals := make(chan arrival, cap(s.incoming))
	go func() {
		for sig := range s.incoming {
			arrivals <- arrival{sig.(syscall.Signal), time.Now()}
		}
	}()
	go func() {
		for a := range arrivals {
			s.handle(a, command)
		}
	}()
	return command, nil
}

func (s *signals) handle(a arrival, command *os.Process) {
	time.Sleep(settle - time.Since(a.at))
	took, alive := s.witness.took(a.signal)
	if ended := s.ended.Load(); ended != 0 {
		if isEnd(a.signal) && a.at.UnixNano()-ended > int64(sameKeystroke) {
			select {
			case <-s.impatient:
			default:
				close(s.impatient)
			}
		}
		return
	}
	if took || !alive && fromTerminal(a.signal) {
		return
	}
	_ = command.Signal(a.signal) // it may be gone
}

// commandEnded makes signals end our waiting.
func (s *signals) commandEnded() { s.ended.Store(time.Now().UnixNano()) }

// mirrorStop stops us as the command stopped, if a shell with job control
// started us: it shall notice, and continues the whole group.
func (s *signals) mirrorStop(pid int) {
	if !underJobControl() {
		return
	}
	// First the signal that stopped the command has to be dealt with: the one
	// that continues us makes the witness forget it.
	time.Sleep(2 * settle)
	if isStopped(pid) {
		_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
	}
}

func isStopped(pid int) bool {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	return err == nil && (bytes.Contains(data, []byte("\nState:\tT")) || bytes.Contains(data, []byte("\nState:\tt")))
}

func underJobControl() bool {
	parent := os.Getppid()
	theirs, err1 := unix.Getsid(parent)
	ours, err2 := unix.Getsid(0)
	group, err3 := unix.Getpgid(parent)
	return err1 == nil && err2 == nil && err3 == nil &&
		theirs == ours && group != unix.Getpgrp() && foreground() != 0
}

// foreground returns the process group that our terminal listens to, or 0.
func foreground() int {
	tty, err := os.OpenFile("/dev/tty", os.O_RDONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return 0
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return group
}

// fromTerminal guesses, where there is no witness.
func fromTerminal(sig syscall.Signal) bool {
	switch sig {
	case syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTSTP, syscall.SIGWINCH:
		return foreground() == unix.Getpgrp()
	}
	return false
}

func (s *signals) ignores(sig os.Signal) bool { return slices.Contains(s.ignored, sig) }

// forwarded are the signals that someone may send us for the command. The
// others are faults of ours, limits of ours, or used by the Go runtime.
func forwarded() []os.Signal {
	list := []os.Signal{
		unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGABRT, unix.SIGUSR1, unix.SIGUSR2,
		unix.SIGALRM, unix.SIGTERM, unix.SIGCONT, unix.SIGTSTP, unix.SIGTTIN,
		unix.SIGVTALRM, unix.SIGWINCH, unix.SIGIO, unix.SIGPWR,
	}
	// 32 to 34 belong to C libraries.
	for n := 35; n <= 64; n++ {
		list = append(list, syscall.Signal(n))
	}
	return list
}

// isStop tells signals that Go does not catch by itself and whose default is
// to stop.
func isStop(sig os.Signal) bool { return sig == unix.SIGTSTP || sig == unix.SIGTTIN }

func isEnd(sig os.Signal) bool {
	return sig == unix.SIGINT || sig == unix.SIGTERM || sig == unix.SIGHUP || sig == unix.SIGQUIT
}
