//go:build linux

package launch

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The agent hears of the start and, while the command is a zombie, of the end.
func TestConversation(t *testing.T) {
	p := front(t, "", "sh", "-c", "sleep 0.2; exit 3").start(t)
	pid := pidAfter(t, &p.err, "agent: pid")
	name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if string(name) != "spanflame agent\n" || string(args) != "spanflame\x00agent\x00" {
		t.Errorf("it is named %q, %q", name, args)
	}
	if sid, err := unix.Getsid(pid); err != nil || sid != pid {
		t.Errorf("its session is %d, %v; want its own", sid, err)
	}
	p.end(t, 3)
	text := p.err.String()
	if !strings.Contains(text, "agent: exited Z") || !strings.Contains(text, "agent: started ") {
		t.Errorf("it heard %q", text)
	}
	if strings.Contains(text, "nobody reads") || strings.Contains(text, "front: ") {
		t.Errorf("more than was to be said: %q", text)
	}
}

// A signal ends no agent.
func TestAgentIgnores(t *testing.T) {
	p := front(t, "", "sleep", "0.5").start(t)
	pid := pidAfter(t, &p.err, "agent: pid")
	for _, sig := range []unix.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT} {
		if err := unix.Kill(pid, sig); err != nil {
			t.Fatal(err)
		}
	}
	p.end(t, 0)
	if !strings.Contains(p.err.String(), "agent: exited") {
		t.Error("the agent was not there at the end")
	}
}

func TestAgentKilled(t *testing.T) {
	p := front(t, "", "sh", "-c", "sleep 0.5; echo end; exit 4").start(t)
	if err := unix.Kill(pidAfter(t, &p.err, "agent: pid"), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.end(t, 4)
	if p.out.String() != "end\n" || strings.Count(p.err.String(), "front: the agent ended (signal: killed)") != 1 {
		t.Error("not one line about it")
	}
}

// Whatever the agent does, the front ends in time and with the right code.
func TestAgentMisbehaves(t *testing.T) {
	for how, tt := range map[string]struct {
		says  string
		limit time.Duration
	}{
		"stuck":    {"did not deliver", 3 * time.Second},
		"crash":    {"ended early (exit status 3)", time.Second},
		"lives on": {"", time.Second},
	} {
		t.Run(how, func(t *testing.T) {
			p := front(t, how, "sh", "-c", "exit 6").start(t)
			p.out.await(t, "", 1)
			agent := pidAfter(t, &p.err, "agent: pid")
			began := time.Now()
			p.end(t, 6)
			if took := time.Since(began); took > tt.limit {
				t.Errorf("it took %s", took)
			}
			if lines := strings.Count(p.err.String(), "front: "); (tt.says != "") != (lines == 1) || !strings.Contains(p.err.String(), tt.says) {
				t.Errorf("it says %q", p.err.String())
			}
			if alive := unix.Kill(agent, 0) == nil; alive && how == "stuck" && !zombie(agent) {
				t.Error("the agent lives")
			}
		})
	}
}

func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(stat), ") Z ")
}

// The signal that ended the command does not end the wait for the agent; the
// next one does.
func TestImpatience(t *testing.T) {
	p := front(t, "stuck", "sh", "-c", "echo ready $$; exec sleep 20")
	p.start(t)
	pidAfter(t, &p.out, "ready")
	p.err.await(t, "agent: started", 1)
	_ = unix.Kill(-p.Process.Pid, unix.SIGINT)
	p.err.await(t, "agent: exited", 1)
	time.Sleep(ackTimeout + sameKeystroke + 100*time.Millisecond)
	if zombie(p.Process.Pid) {
		t.Error("it did not wait for the agent")
	}
	began := time.Now()
	_ = unix.Kill(p.Process.Pid, unix.SIGINT)
	p.end(t, 128+int(unix.SIGINT))
	if took := time.Since(began); took > 300*time.Millisecond || !strings.Contains(p.err.String(), "interrupted") {
		t.Errorf("it took %s", took)
	}
}

// The command outlives a front that was killed, and the agent hears of it.
func TestFrontKilled(t *testing.T) {
	p := front(t, "", "sh", "-c", "echo ready $$; sleep 0.5; echo end").start(t)
	pidAfter(t, &p.out, "ready")
	p.err.await(t, "agent: started", 1)
	_ = unix.Kill(p.Process.Pid, unix.SIGKILL)
	_ = p.Wait()
	p.err.await(t, "agent: the front is gone", 1)
	if got := p.out.await(t, "end", 1); !strings.HasSuffix(got, "end\n") {
		t.Errorf("the command wrote %q", got)
	}
}

// Nothing of ours is left: neither a process nor a zombie.
func TestNothingLeft(t *testing.T) {
	p := front(t, "", "true").start(t)
	p.end(t, 0)
	if out, _ := exec.Command("pgrep", "-g", fmt.Sprint(p.Process.Pid)).Output(); len(out) != 0 {
		t.Errorf("left in the group: %s", out)
	}
}

// As the first process of a container the front takes orphans.
func TestFirstProcess(t *testing.T) {
	count := `sh -c 'for i in 1 2 3; do (sleep 0.05 & ) ; done'; sleep 0.6; grep -l "^State:.*Z" /proc/[0-9]*/status | wc -l; exit 5`
	args := []string{"--pid", "--fork", "--kill-child", "--mount-proc"}
	if os.Getuid() != 0 {
		args = append(args, "--user", "--map-root-user")
	}
	p := bare(t, "", append(append([]string{"unshare"}, args...), program(t), "front", "sh", "-c", count)...).start(t)
	p.end(t, 5)
	if got := strings.TrimSpace(p.out.String()); got != "0" {
		t.Errorf("%s zombies, want none", got)
	}
}

func TestAgentByHand(t *testing.T) {
	p := bare(t, "", program(t), "agent").start(t)
	p.end(t, 1)
	if !strings.Contains(p.err.String(), "spanflame run") {
		t.Errorf("it says %q", p.err.String())
	}
}
