//go:build linux

package launch

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The test binary plays all parts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "front":
			os.Exit(playFront(os.Args[2:]))
		case "agent":
			os.Exit(playAgent())
		case "counter":
			os.Exit(playCounter())
		}
	}
	os.Exit(m.Run())
}

const (
	manner   = "LAUNCH_TEST_AGENT" // how the agent behaves
	deadline = 20 * time.Second
)

func playFront(argv []string) int {
	say := func(line string) { fmt.Fprintln(os.Stderr, "front: "+line) }
	path, err := Find(argv[0], os.Getenv("PATH"))
	if err == nil && os.Getenv(manner) == "exec" {
		err = Exec(Command{path, argv, os.Environ()})
	}
	code := 0
	if err == nil {
		listener, _ := os.Open(os.DevNull)
		if pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err == nil {
			listener = os.NewFile(uintptr(pair[0]), "listener")
		}
		handoff, _ := json.Marshal(os.Getenv(manner))
		code, err = Run(Command{path, argv, os.Environ()}, Agent{handoff, listener, 500 * time.Millisecond}, say)
	}
	if e, ok := errors.AsType[*Error](err); ok {
		say(e.Error())
		return e.Code()
	}
	return code
}

// playAgent says on standard error what it sees.
func playAgent() int {
	session, err := Join()
	if err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		return 1
	}
	defer session.Close()
	var how string
	_ = json.Unmarshal(session.Handoff, &how)
	fmt.Fprintln(os.Stderr, "agent: pid", os.Getpid())
	for e := range session.Control {
		state, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", e.PID))
		fmt.Fprintln(os.Stderr, "agent:", e.Kind, strings.Fields(string(state) + " x x x x")[2])
		if e.Kind != Exited {
			continue
		}
		if how == "stuck" {
			time.Sleep(time.Minute)
		}
		session.Ack(e.PID)
		if how == "crash" {
			return 3
		}
		session.Flushed()
		fmt.Fprintln(os.Stderr, "agent: nobody reads this")
		if how == "lives on" {
			time.Sleep(3 * time.Second)
		}
		return 0
	}
	fmt.Fprintln(os.Stderr, "agent: the front is gone")
	return 0
}

// playCounter prints each signal it gets, until it reads "end" or a minute
// has passed.
func playCounter() int {
	got := make(chan os.Signal, 100)
	signal.Notify(got, append(forwarded(), unix.SIGTTOU)...)
	fmt.Println("ready", os.Getpid())
	timeout := time.After(time.Minute)
	for {
		select {
		case s := <-got:
			fmt.Println("got", unix.SignalName(s.(syscall.Signal)))
			if s == unix.SIGTSTP {
				_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
			}
			if s == syscall.Signal(40) {
				return 5
			}
		case <-timeout:
			return 1
		}
	}
}

// output is what processes wrote so far.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// await returns the text once it holds want n times.
func (o *output) await(t *testing.T, want string, n int) string {
	t.Helper()
	for end := time.Now().Add(deadline); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if text := o.String(); strings.Count(text, want) >= n {
			return text
		}
	}
	t.Fatalf("no %q, %d times, in %q", want, n, o.String())
	return ""
}

type play struct {
	*exec.Cmd
	out, err output
}

func program(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// front prepares argv under a front whose agent behaves as given.
func front(t *testing.T, how string, argv ...string) *play {
	t.Helper()
	return bare(t, how, append([]string{program(t), "front"}, argv...)...)
}

func bare(t *testing.T, how string, argv ...string) *play {
	t.Helper()
	p := &play{Cmd: exec.Command(argv[0], argv[1:]...)}
	p.Env = append(os.Environ(), manner+"="+how, "GORACE=atexit_sleep_ms=0")
	p.Stdout, p.Stderr = &p.out, &p.err
	p.WaitDelay = 2 * time.Second // what holds the streams longer fails
	p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	t.Cleanup(func() {
		if p.Process != nil && p.ProcessState == nil {
			_ = unix.Kill(-p.Process.Pid, unix.SIGKILL)
			_ = p.Wait()
		}
		if t.Failed() {
			t.Logf("%q\nstdout: %s\nstderr: %s", argv, p.out.String(), p.err.String())
		}
	})
	return p
}

func (p *play) start(t *testing.T) *play {
	t.Helper()
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// end waits for the end and checks the exit code.
func (p *play) end(t *testing.T, code int) {
	t.Helper()
	err := p.Wait()
	if errors.Is(err, exec.ErrWaitDelay) {
		t.Error("something holds the streams open")
	}
	if got := p.ProcessState.ExitCode(); got != code {
		t.Errorf("exit code %d, want %d (%v)", got, code, err)
	}
}

// pidAfter reads the number behind a word.
func pidAfter(t *testing.T, o *output, word string) int {
	t.Helper()
	_, rest, _ := strings.Cut(o.await(t, word+" ", 1), word+" ")
	pid, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func TestExitCodes(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, tt := range map[string]struct {
		argv []string
		code int
	}{
		"true":                {[]string{"true"}, 0},
		"exit 255":            {[]string{"sh", "-c", "exit 255"}, 255},
		"killed":              {[]string{"sh", "-c", "kill -KILL $$"}, 128 + 9},
		"terminated":          {[]string{"sh", "-c", "kill -TERM $$"}, 128 + 15},
		"not found":           {[]string{"no-such-command-anywhere"}, 127},
		"no path":             {[]string{filepath.Join(dir, "nothing")}, 127},
		"below a file":        {[]string{"/dev/null/x"}, 127},
		"empty name":          {[]string{""}, 127},
		"directory":           {[]string{dir}, 126},
		"device":              {[]string{"/dev/null"}, 126},
		"not executable":      {[]string{file("plain", "exit 1", 0o600)}, 126},
		"without #!":          {[]string{file("script", "[ \"$1\" = 'a b' ] && exit 4", 0o700), "a b"}, 4},
		"without interpreter": {[]string{file("bad", "#!/no/such/thing\n", 0o700)}, 127},
	} {
		for _, how := range []string{"", "exec"} {
			t.Run(strings.TrimSpace(name+" "+how), func(t *testing.T) {
				if how == "exec" && tt.code > 128 && tt.code != 255 {
					tt.code = -1 // killed itself, without a front in between
				}
				p := front(t, how, tt.argv...).start(t)
				p.end(t, tt.code)
				if lines := strings.Count(p.err.String(), "front: "); (tt.code == 126 || tt.code == 127) != (lines == 1) {
					t.Errorf("%d lines on stderr: %s", lines, p.err.String())
				}
			})
		}
	}
}

func TestFindAsExecvp(t *testing.T) {
	dir := t.TempDir()
	for _, sub := range []string{"a/tool", "b"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, mode := range map[string]os.FileMode{"a/plain": 0o600, "b/tool": 0o700, "b/both": 0o700, "a/both": 0o600, "here": 0o700} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	path := dir + "/a:/nothing:" + dir + "/b:"
	for name, want := range map[string]string{
		"tool": dir + "/b/tool", "both": dir + "/b/both", "here": "./here", "./here": "./here", "b/tool": "b/tool",
	} {
		if got, err := Find(name, path); err != nil || got != want {
			t.Errorf("%s is %q, %v; want %q", name, got, err, want)
		}
	}
	for name, code := range map[string]int{"plain": 126, "nothing": 127, "": 127, "/": 126, "..": 127} {
		_, err := Find(name, path)
		if e, ok := errors.AsType[*Error](err); !ok || e.Code() != code {
			t.Errorf("%q: %v, want code %d", name, err, code)
		}
	}
}

// The command sees the process that it would be without us.
func TestUnchanged(t *testing.T) {
	if out, err := exec.Command("env", "--block-signal=USR1", "true").CombinedOutput(); err != nil {
		t.Fatalf("needs env of coreutils 8.31 or later: %s", out)
	}
	look := []string{"sh", "-c", `
		grep -E '^(Sig(Blk|Ign|Cgt)|Umask|NoNewPrivs|Seccomp|Cap.*|Uid|Gid|Groups|CoreDumping|THP_enabled|Cpus_allowed):' /proc/self/status
		cat /proc/self/limits /proc/self/oom_score_adj /proc/self/timerslack_ns /proc/self/personality
		nice; pwd; ls /proc/$$/fd; cut -d' ' -f 5,6 /proc/$$/stat; echo "$0 $*" $$`, "own name", "a b", "", "*"}
	for name, outside := range map[string][]string{
		"plain":      nil,
		"nohup":      {"nohup"},
		"background": {"sh", "-c", `trap '' INT QUIT; exec "$0" "$@"`},
		"systemd":    {"env", "--ignore-signal=PIPE"},
		// Not faults, PROF and CHLD: docs/run.md.
		"all ignored": {"env", "--ignore-signal=HUP,INT,QUIT,ABRT,USR1,USR2,PIPE,ALRM,TERM,CONT,TSTP,TTIN,TTOU,URG,XCPU,XFSZ,VTALRM,WINCH,IO,PWR,RTMIN+1,RTMAX"},
		"blocked":     {"env", "--block-signal=USR1,USR2,WINCH,PIPE,TSTP,ALRM"},
		"limits":      {"sh", "-c", `ulimit -Sn 300; ulimit -c 0; ulimit -St 1000; umask 027; exec "$0" "$@"`},
		"descriptors": {"sh", "-c", `exec 5</dev/null 7>/dev/null 9<&0; exec "$0" "$@"`},
		"nice":        {"nice", "-n", "5"},
	} {
		for _, how := range []string{"", "exec"} {
			t.Run(strings.TrimSpace(name+" "+how), func(t *testing.T) {
				want := bare(t, "", slices.Concat(outside, look)...).start(t)
				want.end(t, 0)
				got := bare(t, how, slices.Concat(outside, []string{program(t), "front"}, look)...).start(t)
				got.end(t, 0)
				if a, b := normal(got), normal(want); a != b {
					t.Errorf("it sees\n%s\nwant\n%s", a, b)
				}
			})
		}
	}
}

// normal replaces the process group, which is the outermost program's pid, and
// takes off the command's pid.
func normal(p *play) string {
	text := strings.ReplaceAll(p.out.String(), strconv.Itoa(p.Process.Pid)+" ", "GROUP ")
	return text[:strings.LastIndexByte(strings.TrimSpace(text), ' ')]
}
