//go:build linux

package launch

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const last = syscall.Signal(40) // ends the counter with code 5

// counted checks that the counter gets what act sends, in order and once.
func counted(t *testing.T, p *play, act func(command int), want ...string) {
	t.Helper()
	p.start(t)
	command := pidAfter(t, &p.out, "ready")
	act(command)
	time.Sleep(4 * settle) // a second delivery would come now
	if err := unix.Kill(command, last); err != nil {
		t.Fatal(err)
	}
	p.end(t, 5)
	var got []string
	for line := range strings.Lines(p.out.String()) {
		// A terminal echoes "^C" before it.
		if _, name, ok := strings.Cut(strings.TrimSpace(line), "got "); ok {
			got = append(got, name)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the command got %q, want %q", got, want)
	}
}

// send sends each signal and gives it time to arrive.
func send(t *testing.T, pid int, list ...syscall.Signal) {
	t.Helper()
	for _, sig := range list {
		if err := unix.Kill(pid, sig); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * settle)
	}
}

var all = []syscall.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH, unix.SIGALRM, unix.SIGABRT}

func names(list []syscall.Signal) (s []string) {
	for _, sig := range list {
		s = append(s, unix.SignalName(sig))
	}
	return s
}

func TestSignalsOnce(t *testing.T) {
	t.Run("to the front", func(t *testing.T) {
		p := front(t, "", program(t), "counter")
		counted(t, p, func(int) { send(t, p.Process.Pid, all...) }, names(all)...)
	})
	t.Run("to the group", func(t *testing.T) {
		p := front(t, "", program(t), "counter")
		counted(t, p, func(int) { send(t, -p.Process.Pid, all...) }, names(all)...)
	})
	t.Run("to one after the other, as for a control group", func(t *testing.T) {
		p := front(t, "", program(t), "counter")
		counted(t, p, func(command int) {
			for _, pid := range []int{p.Process.Pid, command, witnessOf(t, p)} {
				_ = unix.Kill(pid, unix.SIGTERM)
				time.Sleep(time.Millisecond)
			}
		}, "SIGTERM")
	})
	t.Run("to the command", func(t *testing.T) {
		p := front(t, "", program(t), "counter")
		counted(t, p, func(command int) { send(t, command, all...) }, names(all)...)
	})
	t.Run("after one to the group", func(t *testing.T) {
		p := front(t, "", program(t), "counter")
		counted(t, p, func(int) {
			send(t, -p.Process.Pid, unix.SIGTERM)
			send(t, p.Process.Pid, unix.SIGTERM)
		}, "SIGTERM", "SIGTERM")
	})
	t.Run("without a witness", func(t *testing.T) {
		p := front(t, "", program(t), "counter")
		counted(t, p, func(int) {
			_ = unix.Kill(witnessOf(t, p), unix.SIGKILL)
			time.Sleep(50 * time.Millisecond)
			send(t, p.Process.Pid, all...)
		}, names(all)...)
	})
	t.Run("ignored before", func(t *testing.T) {
		p := bare(t, "", "env", "--ignore-signal=HUP,TERM", program(t), "front", program(t), "counter")
		counted(t, p, func(int) { send(t, p.Process.Pid, unix.SIGHUP, unix.SIGTERM) }, "SIGHUP", "SIGTERM")
	})
}

// witnessOf finds the front's witness by its name.
func witnessOf(t *testing.T, p *play) int {
	t.Helper()
	out, err := exec.Command("pgrep", "-P", fmt.Sprint(p.Process.Pid), "-x", "sf witness").Output()
	var pid int
	if _, scanErr := fmt.Sscan(string(out), &pid); err != nil || scanErr != nil {
		t.Fatalf("no witness: %v", err)
	}
	return pid
}

// An ignored signal reaches nobody, a default one ends the command as it would.
func TestDefaultAction(t *testing.T) {
	p := front(t, "", "sh", "-c", "echo ready $$; exec sleep 20").start(t)
	pidAfter(t, &p.out, "ready")
	send(t, p.Process.Pid, unix.SIGUSR1)
	p.end(t, 128+int(unix.SIGUSR1))

	p = bare(t, "", "nohup", program(t), "front", "sh", "-c", "echo ready $$; exec sleep 0.5").start(t)
	pidAfter(t, &p.out, "ready")
	send(t, p.Process.Pid, unix.SIGHUP)
	send(t, -p.Process.Pid, unix.SIGHUP)
	p.end(t, 0)
}

// terminal gives the program a terminal and returns our side of it.
func terminal(t *testing.T, p *play) *os.File {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	fd := int(ours.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	p.Stdin, p.Stdout, p.Stderr = theirs, theirs, theirs
	p.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buffer := make([]byte, 4096)
		for {
			n, err := ours.Read(buffer)
			_, _ = p.out.Write(buffer[:n])
			if err != nil {
				return // the last of them closed it
			}
		}
	}()
	t.Cleanup(func() {
		theirs.Close()
		<-done
		ours.Close()
	})
	return ours
}

func TestTerminalSignalsOnce(t *testing.T) {
	for name, outside := range map[string][]string{
		"session leader": nil,
		// As in a script: no job control, the shell is the leader.
		"in a script": {"sh", "-c", `trap : INT QUIT; "$0" "$@"; exit $?`},
	} {
		t.Run(name, func(t *testing.T) {
			p := bare(t, "", append(outside, program(t), "front", program(t), "counter")...)
			ours := terminal(t, p)
			counted(t, p, func(int) {
				_, _ = ours.Write([]byte{3})
				time.Sleep(3 * settle)
				_ = unix.IoctlSetWinsize(int(ours.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 33, Col: 77})
				time.Sleep(3 * settle)
				_, _ = ours.Write([]byte{3})
				time.Sleep(3 * settle)
				_, _ = ours.Write([]byte{'\\' & 31})
			}, "SIGINT", "SIGWINCH", "SIGINT", "SIGQUIT")
		})
	}
	t.Run("without a witness", func(t *testing.T) {
		p := front(t, "", program(t), "counter")
		ours := terminal(t, p)
		counted(t, p, func(int) {
			_ = unix.Kill(witnessOf(t, p), unix.SIGKILL)
			_, _ = ours.Write([]byte{3})
		}, "SIGINT")
	})
}

// A shell with job control sees the command stop, and continues it.
func TestJobControl(t *testing.T) {
	for name, command := range map[string]string{
		"default action": "sleep 1.5",
		"own handler":    program(t) + " counter",
		"a group of its": "sh -c 'sleep 1.5; :'",
	} {
		t.Run(name, func(t *testing.T) {
			p := bare(t, "", "bash", "--norc", "--noprofile", "-i")
			p.Env = append(p.Env, "PS1=prompt ", "TERM=dumb")
			ours := terminal(t, p)
			p.start(t)
			typed := func(text string) { _, _ = ours.Write([]byte(text)) }
			p.out.await(t, "prompt ", 1)
			typed(program(t) + " front " + command + "; echo code $?\n")
			p.err.await(t, "", 1)
			p.out.await(t, "agent: started", 1)
			for n := 1; n <= 2; n++ {
				time.Sleep(300 * time.Millisecond)
				typed("\x1a")
				p.out.await(t, "Stopped", n)
				if n == 1 { // in between, a command of the shell has the terminal
					typed("echo mid$((1+1))dle\n")
					p.out.await(t, "mid2dle", 1)
				}
				typed("fg\n")
				time.Sleep(200 * time.Millisecond)
			}
			if strings.HasSuffix(command, "counter") {
				text := p.out.await(t, "got SIGCONT", 2)
				if strings.Count(text, "got SIGTSTP") != 2 || strings.Count(text, "got SIGCONT") != 2 {
					t.Errorf("not twice each: %q", text)
				}
				typed("\x03")
				p.out.await(t, "got SIGINT", 1)
				typed("\x1a")
				p.out.await(t, "Stopped", 3)
				typed("kill -40 %1; fg\n")
			}
			p.out.await(t, "agent: exited", 1)
			typed("exit 7\n")
			p.end(t, 7)
		})
	}
}
