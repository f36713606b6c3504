//go:build linux

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var signalNumbers = map[string]syscall.Signal{
	"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "HUP": syscall.SIGHUP, "KILL": syscall.SIGKILL,
	"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "WINCH": syscall.SIGWINCH,
}

func kill(t *testing.T, pid int, name string) {
	t.Helper()
	if err := syscall.Kill(pid, signalNumbers[name]); err != nil {
		t.Fatalf("kill -%s %d: %v", name, pid, err)
	}
}

// signals runs the counting program, does something to it, and returns what it got.
func signals(t *testing.T, p *process, act func()) (map[string]int, *truth) {
	t.Helper()
	p.start()
	p.ready()
	act()
	time.Sleep(300 * time.Millisecond)
	stop := p.cmd.Args[len(p.cmd.Args)-1]
	if err := os.WriteFile(stop, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := p.wait()
	if r.exit != 5 {
		t.Errorf("exit code %d, want 5", r.exit)
	}
	_, tr := truthOf(t, r)
	var counts map[string]int
	if err := json.Unmarshal(tr.Signals, &counts); err != nil {
		t.Fatal(err)
	}
	return counts, tr
}

func want(t *testing.T, counts map[string]int, names ...string) {
	t.Helper()
	expected := map[string]int{}
	for _, name := range names {
		expected["SIG"+name]++
	}
	for name, got := range counts {
		if got != expected[name] {
			t.Errorf("%s was delivered %d times, want %d", name, got, expected[name])
		}
	}
}

func signalProcess(t *testing.T) *process {
	t.Helper()
	stop := filepath.Join(t.TempDir(), "stop")
	return prepare(t, options{}, pythonCommand(t, options{}, "signals.py", stop)...)
}

// Signals to run reach the program, each once.
func TestSignals(t *testing.T) {
	names := []string{"TERM", "INT", "HUP", "USR1", "USR2", "WINCH"}
	p := signalProcess(t)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	counts, _ := signals(t, p, func() {
		for _, name := range names {
			kill(t, p.cmd.Process.Pid, name)
			time.Sleep(100 * time.Millisecond)
		}
	})
	want(t, counts, names...)
}

// An ignored signal stays ignored (nohup).
func TestIgnoredSignals(t *testing.T) {
	if bareMode {
		t.Skip("bare")
	}
	o := options{outside: []string{"sh", "-c", `trap '' HUP; exec "$0" "$@"`}}
	p := start(t, o, "sh", "-c", "grep SigIgn /proc/self/status")
	r := p.wait()
	bare := o
	bare.bare = true
	if want := start(t, bare, "sh", "-c", "grep SigIgn /proc/self/status").wait(); r.stdout != want.stdout {
		t.Errorf("%q, want %q", r.stdout, want.stdout)
	}
}

// terminal gives the process a terminal of its own and returns our side of it.
func terminal(t *testing.T, p *process) *os.File {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		unavailable(t, "no terminal: %v", err)
	}
	t.Cleanup(func() { ours.Close() })
	fd := int(ours.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { theirs.Close() })
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = theirs, theirs, theirs
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, err := ours.Read(buffer)
			p.stdout.Write(buffer[:n])
			if errors.Is(err, os.ErrClosed) || err != nil {
				return
			}
		}
	}()
	return ours
}

func TestTerminal(t *testing.T) {
	for name, tt := range map[string]struct {
		act  func(t *testing.T, p *process, ours *os.File)
		want []string
	}{
		"^C": {func(t *testing.T, _ *process, ours *os.File) {
			if _, err := ours.Write([]byte{3}); err != nil {
				t.Fatal(err)
			}
		}, []string{"INT"}},
		"kill": {func(t *testing.T, p *process, _ *os.File) {
			for _, name := range []string{"INT", "TERM", "HUP"} {
				kill(t, p.cmd.Process.Pid, name)
				time.Sleep(100 * time.Millisecond)
			}
		}, []string{"INT", "TERM", "HUP"}},
		"resize": {func(t *testing.T, _ *process, ours *os.File) {
			if err := unix.IoctlSetWinsize(int(ours.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 33, Col: 77}); err != nil {
				t.Fatal(err)
			}
		}, []string{"WINCH"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := signalProcess(t)
			ours := terminal(t, p)
			counts, tr := signals(t, p, func() { tt.act(t, p, ours) })
			want(t, counts, tt.want...)
			for fd, tty := range tr.TTY {
				if !tty {
					t.Errorf("descriptor %d is no terminal", fd)
				}
			}
			if !tr.Foreground {
				t.Error("the program is not in the foreground: reading the terminal would stop it")
			}
		})
	}
}
