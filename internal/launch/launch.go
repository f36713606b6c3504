// Package launch is the front of `spanflame run`: it starts a command and the
// agent that profiles it, passes signals and the exit code through, and gives
// the agent a bounded time to deliver. docs/run.md says what the command can
// notice. Join is the agent's end of the conversation.
package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Command is what is run.
type Command struct {
	Path string   // see Find
	Args []string // argv, with the name it was called by
	Env  []string
}

// Agent says how to profile the command.
type Agent struct {
	// Handoff reaches Join over a socket: others can read a command line, and
	// the command would inherit a variable.
	Handoff []byte
	// Listener is where shims register. Run closes it, so that nobody waits
	// for an agent that has died.
	Listener *os.File
	// Timeout bounds the delivery after the command's end.
	Timeout time.Duration
}

// EventKind says what happened to the command.
type EventKind string

const (
	Started EventKind = "started"
	// Exited: it is a zombie, kept until the agent acknowledges, so that its
	// clocks can still be read.
	Exited EventKind = "exited"
)

// Event tells the agent about the command.
type Event struct {
	Kind EventKind
	PID  int
}

// Session is an agent's connection to the front that started it.
type Session struct {
	Handoff  []byte
	Listener *os.File     // the caller closes it
	Control  <-chan Event // closed when the front is gone

	conn *os.File
}

// Exit codes of env(1), nohup(1) and shells.
const (
	codeCannotRun = 126
	codeNotFound  = 127
)

// Error is a command that could not be started.
type Error struct {
	Name string
	Err  error
}

func (e *Error) Error() string {
	return fmt.Sprintf("cannot run %q: %v", e.Name, plain(e.Err))
}

func (e *Error) Unwrap() error { return e.Err }

// Code is the exit code for it: 127 if it was not found, otherwise 126.
func (e *Error) Code() int {
	if errors.Is(e.Err, fs.ErrNotExist) || errors.Is(e.Err, syscall.ENOTDIR) {
		return codeNotFound
	}
	return codeCannotRun
}

// plain takes the system call and the path off an error.
func plain(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// Find looks a command up as execvp(3) does: without a slash in its name, in
// the directories of path, where an empty one is the current directory. The
// error is an *Error.
func Find(name, path string) (string, error) {
	if name == "" {
		return "", &Error{name, syscall.ENOENT}
	}
	if filepath.Base(name) != name || name == "/" {
		if err := runnable(name); err != nil {
			return "", &Error{name, err}
		}
		return name, nil
	}
	var denied error
	for _, dir := range filepath.SplitList(path) {
		if dir == "" {
			dir = "."
		}
		file := dir + "/" + name
		err := runnable(file)
		if err == nil {
			return file, nil
		}
		// A directory of that name is passed over.
		if errors.Is(err, fs.ErrPermission) && denied == nil {
			denied = err
		}
	}
	if denied != nil {
		return "", &Error{name, denied}
	}
	return "", &Error{name, syscall.ENOENT}
}

func runnable(file string) error {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return syscall.EISDIR
	case !info.Mode().IsRegular():
		return syscall.EACCES
	}
	return executable(file)
}

// asScript is how execvp(3) runs a file that the kernel does not know the
// format of: a script without "#!".
func (c Command) asScript() Command {
	const sh = "/bin/sh"
	args := append([]string{sh, c.Path}, c.Args[1:]...)
	return Command{Path: sh, Args: args, Env: c.Env}
}
