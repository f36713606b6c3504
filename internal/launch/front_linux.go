package launch

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// ackTimeout is how long the command stays a zombie at most.
	ackTimeout = 200 * time.Millisecond
	// killGrace is what an agent gets beyond its own time limit.
	killGrace = time.Second
)

// Run runs c under an agent and returns its exit code, 128+n if signal n
// killed it. The error is an *Error: c could not be started. Without an agent
// c runs all the same. say prints a line for the user.
func Run(c Command, a Agent, say func(string)) (code int, err error) {
	defer a.Listener.Close()
	s := newSignals()
	defer s.witness.close()
	command, err := s.start(c)
	if err != nil {
		return 0, err
	}
	g, err := startAgent(a, say)
	if err != nil {
		say(fmt.Sprintf("the agent cannot start, %s runs on unprofiled: %v", c.Args[0], err))
	}
	g.send(message{Kind: string(Started), PID: command.Pid})
	if os.Getpid() == 1 {
		go reapOrphans(command.Pid, g.pid(), s.witness.id())
	}

	awaitEnd(command.Pid, s.mirrorStop)
	g.commandEnded(command.Pid)
	state, err := command.Wait()
	s.commandEnded()
	g.finish(a.Timeout, s.impatient)
	if err != nil {
		say(fmt.Sprintf("the exit code of %s is lost: %v", c.Args[0], err))
		return codeCannotRun, nil
	}
	return exitCode(state), nil
}

// Exec replaces this process by c. It returns only on failure, an *Error.
func Exec(c Command) error {
	ignore(ignoredAtStart())
	err := syscall.Exec(c.Path, c.Args, c.Env)
	if errors.Is(err, syscall.ENOEXEC) {
		c := c.asScript()
		err = syscall.Exec(c.Path, c.Args, c.Env)
	}
	return &Error{c.Args[0], err}
}

func executable(file string) error {
	return unix.Faccessat(unix.AT_FDCWD, file, unix.X_OK, unix.AT_EACCESS)
}

// start starts the command in our process group, with our standard streams
// and whatever else we inherited.
func (c Command) start() (*os.Process, error) {
	attr := &os.ProcAttr{Env: c.Env, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}}
	p, err := os.StartProcess(c.Path, c.Args, attr)
	if errors.Is(err, syscall.ENOEXEC) {
		c := c.asScript()
		p, err = os.StartProcess(c.Path, c.Args, attr)
	}
	if err != nil {
		return nil, &Error{c.Args[0], err}
	}
	return p, nil
}

// awaitEnd returns when the child is a zombie, and leaves it one.
func awaitEnd(pid int, stopped func(pid int)) {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return // Wait will say why
		case info.Code == cldStopped || info.Code == cldTrapped:
			// Take it, or the next call returns it again.
			if unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WNOHANG, nil) == nil {
				stopped(pid)
			}
		default:
			return
		}
	}
}

// si_code of a SIGCHLD (include/uapi/asm-generic/siginfo.h).
const (
	cldTrapped = 4
	cldStopped = 5
)

func exitCode(state *os.ProcessState) int {
	if status := state.Sys().(syscall.WaitStatus); status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}
