//go:build linux

package e2e

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The exit code is the command's own, as a shell would tell it.
func TestExitCodes(t *testing.T) {
	for _, tt := range []struct {
		how  string
		want int
	}{
		{"0", 0}, {"3", 3}, {"255", 255}, {"raise", 1}, {"_exit", 9},
		{"SIGTERM", 128 + 15}, {"SIGKILL", 128 + 9}, {"SIGSEGV", 128 + 11}, {"SIGABRT", 128 + 6}, {"SIGINT", 128 + 2},
	} {
		t.Run(tt.how, func(t *testing.T) {
			repeat(t, func(m *trial) {
				r := start(t, options{}, pythonCommand(t, options{}, "ending.py", tt.how)...).wait()
				if got := r.exit; got != tt.want && !(bareMode && got == -1) {
					t.Errorf("exit code %d, want %d", got, tt.want)
				}
				if bareMode {
					t.Skip("bare")
				}
				p, tr := r.main(t)
				if cpu := p.cpu(in("burn")); cpu < 30e6 {
					t.Errorf("what was sampled before the end is lost: %.1f ms of burn", ms(cpu))
				}
				if tt.how == "0" {
					m.measured(checkTotals(p, tr))
				}
			})
		})
	}
}

// What is not Python runs as if spanflame were not there, but for one line.
func TestNotPython(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "not-executable")
	if err := os.WriteFile(plain, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		argv []string
		want int
	}{
		"exit 7":         {[]string{"sh", "-c", "exit 7"}, 7},
		"true":           {[]string{"true"}, 0},
		"sleep":          {[]string{"sleep", "0.3"}, 0},
		"killed":         {[]string{"sh", "-c", "kill -TERM $$"}, 128 + 15},
		"not found":      {[]string{"no-such-command-anywhere"}, 127},
		"no such path":   {[]string{filepath.Join(dir, "nothing")}, 127},
		"not executable": {[]string{plain}, 126},
		"directory":      {[]string{dir}, 126},
	} {
		t.Run(name, func(t *testing.T) {
			if bareMode {
				t.Skip("bare")
			}
			r := start(t, options{}, tt.argv...).wait()
			if r.exit != tt.want {
				t.Errorf("exit code %d, want %d", r.exit, tt.want)
			}
			if lines := r.ourLines(); len(lines) != 1 {
				t.Errorf("%d lines of ours, want 1: %q", len(lines), lines)
			}
			if len(r.profiles) != 0 {
				t.Errorf("profiles of %v", keys(r.profiles))
			}
			if r.stdout != "" {
				t.Errorf("stdout is %q", r.stdout)
			}
		})
	}
}

func TestStreams(t *testing.T) {
	heavy(t)
	data := make([]byte, 10<<20)
	random := rand.NewChaCha8([32]byte{1})
	random.Read(data)
	code := "import shutil, sys; shutil.copyfileobj(sys.stdin.buffer, sys.stdout.buffer); sys.stderr.write('own words\\n')"
	r := start(t, options{stdin: bytes.NewReader(data)}, python(t), "-c", code).wait()
	if r.exit != 0 || sha256.Sum256([]byte(r.stdout)) != sha256.Sum256(data) {
		t.Errorf("exit code %d, %d of %d bytes came through", r.exit, len(r.stdout), len(data))
	}
	if !strings.Contains(r.stderr, "own words\n") {
		t.Errorf("stderr is %q", r.stderr)
	}
	t.Run("closed early", func(t *testing.T) {
		r := start(t, options{stdin: bytes.NewReader(data)}, python(t), "-c", "print(input()[:0], end='')").wait()
		if r.exit != 0 && !strings.Contains(r.stderr, "UnicodeDecodeError") {
			t.Errorf("exit code %d", r.exit)
		}
	})
}

// The program sees what it would see without us.
func TestUnchanged(t *testing.T) {
	dir := t.TempDir()
	env := []string{"HUGE=" + strings.Repeat("x", 100_000), "EMPTY=", "UTF=ä☃😀"}
	for i := range 500 {
		env = append(env, fmt.Sprintf("E2E_%d=%d", i, i))
	}
	o := options{dir: dir, env: env}
	args := []string{"0.3", "", "--interval", "a b", "*"}
	bare := o
	bare.bare = true
	_, want := truthOf(t, run(t, bare, "plain.py", args...))
	r := run(t, o, "plain.py", args...)
	_, got := truthOf(t, r)

	if got.CWD != want.CWD || !slices.Equal(got.Argv, want.Argv) || !slices.Equal(got.Path, want.Path) {
		t.Errorf("cwd %q, argv %q, path %q; want %q, %q, %q", got.CWD, got.Argv, got.Path, want.CWD, want.Argv, want.Path)
	}
	if !bytes.Equal(got.Signals, want.Signals) {
		t.Errorf("signals and threads are %s, want %s", got.Signals, want.Signals)
	}
	if len(got.Traced) != 1 || strings.Fields(got.Traced[0])[1] != "0" {
		t.Errorf("traced: %q", got.Traced)
	}
	for key, value := range want.Environ {
		if key != "TRUTH" && key != "PYTHONPATH" && got.Environ[key] != value {
			t.Errorf("%s is %.50q, want %.50q", key, got.Environ[key], value)
		}
	}
	for key := range got.Environ {
		if _, ok := want.Environ[key]; !ok && key != "PYTHONPATH" && !strings.HasPrefix(key, "SPANFLAME_") {
			t.Errorf("%s was added", key)
		}
	}
	allowed := shimModules(t)
	for _, module := range got.Modules {
		if !slices.Contains(want.Modules, module) && !allowed[module] {
			t.Errorf("module %s was loaded", module)
		}
	}
}

func truthOf(t *testing.T, r *result) (*result, *truth) {
	t.Helper()
	for _, tr := range r.truths {
		return r, tr
	}
	t.Fatal("no truth")
	return nil, nil
}

// shimModules are those that the shim's own list allows.
func shimModules(t *testing.T) map[string]bool {
	t.Helper()
	source, err := os.ReadFile("../../python/spanflame/shim.py")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?s)STDLIB = frozenset\(\s*"([^"]*)"`).FindSubmatch(source)
	if m == nil {
		t.Fatal("shim.py has no STDLIB")
	}
	modules := map[string]bool{"sitecustomize": true, "spanflame": true}
	for _, name := range strings.Fields(string(m[1])) {
		modules[name] = true
	}
	for _, name := range []string{"hook", "otel", "ring", "shim", "wire"} {
		modules["spanflame."+name] = true
	}
	return modules
}

// C28: interpreters in which little or nothing of the shim works are profiled.
func TestBareInterpreters(t *testing.T) {
	venv := filepath.Join(t.TempDir(), "venv")
	if r := start(t, options{bare: true}, python(t), "-m", "venv", "--without-pip", venv).wait(); r.exit != 0 {
		t.Fatal(r.stderr)
	}
	custom, mark := t.TempDir(), filepath.Join(t.TempDir(), "mark")
	site := fmt.Sprintf("open(%q, 'a').write('x')\n", mark)
	if err := os.WriteFile(filepath.Join(custom, "sitecustomize.py"), []byte(site), 0o600); err != nil {
		t.Fatal(err)
	}
	script := programPath(t, "plain.py")
	source, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	programs := filepath.Dir(script)
	in1 := fmt.Sprintf("import runpy; runpy.run_path(%q, run_name='__main__')", script)
	fromStdin := strings.ReplaceAll(string(source), "os.path.abspath(__file__)", strconv.Quote(script))
	for name, tt := range map[string]struct {
		options
		argv []string
	}{
		"-I":                  {argv: []string{python(t), "-I", script}},
		"-S":                  {argv: []string{python(t), "-S", script}},
		"-E":                  {argv: []string{python(t), "-E", script}},
		"-I -S":               {argv: []string{python(t), "-I", "-S", script}},
		"-O -B":               {argv: []string{python(t), "-O", "-B", script}},
		"venv":                {argv: []string{filepath.Join(venv, "bin", "python"), script}},
		"-c":                  {argv: []string{python(t), "-c", in1}},
		"-m":                  {options{dir: programs}, []string{python(t), "-m", "plain"}},
		"stdin":               {options{stdin: strings.NewReader(fromStdin)}, []string{python(t), "-"}},
		"no home":             {options{env: []string{"HOME=/proc/1/nothing", "TMPDIR=/proc/1/nothing", "XDG_CACHE_HOME=/proc/1/nothing", "XDG_RUNTIME_DIR="}}, []string{python(t), script}},
		"empty environment":   {options{inside: []string{"env", "-i", "PATH=/usr/bin:/bin"}}, nil},
		"own sitecustomize":   {options{env: []string{"PYTHONPATH=" + custom}}, []string{python(t), script}},
		"through a long path": {options{env: []string{"PYTHONPATH=" + strings.Repeat("/nothing:", 300)}}, []string{python(t), script}},
	} {
		t.Run(name, func(t *testing.T) {
			argv := tt.argv
			p := prepare(t, tt.options, "true")
			if argv == nil {
				argv = slices.Concat(tt.inside, []string{"TRUTH=" + p.dir, python(t), script})
			}
			p.cmd.Args = append(p.cmd.Args[:len(p.cmd.Args)-1], argv...)
			if bareMode {
				p.cmd.Args = argv
				p.cmd.Path = argv[0]
				if !filepath.IsAbs(argv[0]) {
					p.cmd.Path = "/usr/bin/" + argv[0]
				}
			}
			p.start()
			r := p.wait()
			if r.exit != 0 {
				t.Fatalf("exit code %d", r.exit)
			}
			if name == "own sitecustomize" {
				if got, _ := os.ReadFile(mark); string(got) != "x" {
					t.Errorf("the user's sitecustomize ran %d times", len(got))
				}
			}
			if bareMode {
				truthOf(t, r)
				t.Skip("bare")
			}
			pr, tr := r.main(t)
			report(t, checkTotals(pr, tr))
			report(t, near("cpu of spin", pr.cpu(in("spin")), tr.Functions["spin"].CPU, 0.05, tick))
		})
	}
}

// child finds a child process of pid by its arguments.
func child(pid int, accept func(args []string) bool) (int, bool) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		data, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		rest := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
		if len(rest) < 2 || rest[1] != strconv.Itoa(pid) || rest[0] == "Z" {
			continue
		}
		args, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		if accept(strings.Split(string(bytes.TrimRight(args, "\x00")), "\x00")) {
			id, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			return id, true
		}
	}
	return 0, false
}

func isAgent(args []string) bool {
	return len(args) > 1 && strings.HasSuffix(args[0], "spanflame") && args[1] == "agent"
}

// The agent is killed at any moment: the program goes on to its normal end.
func TestAgentKilled(t *testing.T) {
	for _, delay := range []time.Duration{0, 20 * time.Millisecond, 80 * time.Millisecond, 400 * time.Millisecond} {
		t.Run(delay.String(), func(t *testing.T) {
			if bareMode {
				t.Skip("bare")
			}
			p := start(t, options{}, pythonCommand(t, options{}, "ending.py", "3", "1.2")...)
			var agent int
			for found := false; !found; time.Sleep(time.Millisecond) {
				if agent, found = child(p.cmd.Process.Pid, isAgent); time.Since(p.began) > 5*time.Second {
					t.Fatal("no child `spanflame agent` of run")
				}
			}
			time.Sleep(delay)
			kill(t, agent, "KILL")
			r := p.wait()
			if r.exit != 3 {
				t.Errorf("exit code %d, want 3", r.exit)
			}
			if r.took < 1200*time.Millisecond {
				t.Errorf("it ended after %s, before its time", r.took)
			}
			if lines := r.ourLines(); len(lines) == 0 || len(lines) > 2 {
				t.Errorf("%d lines about it: %q", len(lines), lines)
			}
			if r.took > 10*time.Second {
				t.Errorf("it took %s", r.took)
			}
		})
	}
}

// closedPort is an address at which nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestNoCollector(t *testing.T) {
	address := closedPort(t)
	o := options{noPprof: true, export: "300ms", env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + address}}
	r := start(t, o, pythonCommand(t, o, "ending.py", "3", "2")...).wait()
	if r.exit != 3 {
		t.Errorf("exit code %d, want 3", r.exit)
	}
	if bareMode {
		t.Skip("bare")
	}
	lines := r.ourLines()
	if len(lines) != 2 {
		t.Fatalf("%d lines, want one about the collector and the last one: %q", len(lines), lines)
	}
	if !strings.Contains(lines[0], address) {
		t.Errorf("%q does not name %s", lines[0], address)
	}
	if !strings.Contains(lines[1], "--pprof-path") {
		t.Errorf("the last line does not say how to get a file: %q", lines[1])
	}
	if r.took > 10*time.Second {
		t.Errorf("it took %s: the end of delivery is to be within 5 s", r.took)
	}
	r.counts(t)
}

// A wrong setting is refused before the command starts.
func TestRefused(t *testing.T) {
	if bareMode {
		t.Skip("bare")
	}
	for name, tt := range map[string]struct {
		flags, env []string
		names      string
	}{
		"unknown flag":      {flags: []string{"--no-such-flag"}, names: "no-such-flag"},
		"not a duration":    {flags: []string{"--sample-interval=soon"}, names: "sample-interval"},
		"zero":              {flags: []string{"--sample-interval=0"}, names: "sample-interval"},
		"negative":          {flags: []string{"--export-interval=-1s"}, names: "export-interval"},
		"below 1 ms":        {flags: []string{"--sample-interval=10us"}, names: "sample-interval"},
		"unknown exporter":  {env: []string{"OTEL_PYTHON_PROFILING_EXPORTER=carrier-pigeon"}, names: "OTEL_PYTHON_PROFILING_EXPORTER"},
		"unknown protocol":  {env: []string{"OTEL_EXPORTER_OTLP_PROTOCOL=morse"}, names: "OTEL_EXPORTER_OTLP_PROTOCOL"},
		"grpc is not there": {env: []string{"OTEL_EXPORTER_OTLP_PROTOCOL=grpc"}, names: "OTEL_EXPORTER_OTLP_PROTOCOL"},
		"not an address":    {env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://[::bad"}, names: "OTEL_EXPORTER_OTLP_ENDPOINT"},
	} {
		t.Run(name, func(t *testing.T) {
			marker := filepath.Join(t.TempDir(), "marker")
			argv := slices.Concat([]string{"run"}, tt.flags, []string{"--", "touch", marker})
			p := prepare(t, options{env: tt.env, bare: true}, append([]string{binary(t)}, argv...)...)
			p.start()
			r := p.wait()
			if r.exit != 2 {
				t.Errorf("exit code %d, want 2", r.exit)
			}
			if !strings.Contains(r.stderr, tt.names) {
				t.Errorf("%q does not name %s", r.stderr, tt.names)
			}
			if _, err := os.Stat(marker); err == nil {
				t.Error("the command was started")
			}
		})
	}
	t.Run("no command", func(t *testing.T) {
		if r := start(t, options{bare: true}, binary(t), "run", "--").wait(); r.exit != 2 {
			t.Errorf("exit code %d, want 2", r.exit)
		}
	})
}

// The target is never stopped nor traced, and has no thread of ours.
func TestNeverStopped(t *testing.T) {
	p := start(t, options{interval: "1ms"}, pythonCommand(t, options{}, "ending.py", "0", "2")...)
	pid := p.ready()
	looks := 0
	for {
		tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if len(tasks) == 0 {
			break
		}
		if len(tasks) > 1 {
			t.Errorf("%d threads, the program has one", len(tasks))
		}
		for _, task := range tasks {
			status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/status", pid, task.Name()))
			if m := regexp.MustCompile(`(?m)^State:\s+([TtX]\b.*)$`).FindSubmatch(status); m != nil {
				t.Errorf("it is in state %s", m[1])
			}
			if m := regexp.MustCompile(`(?m)^TracerPid:\s+([1-9]\d*)$`).FindSubmatch(status); m != nil {
				t.Errorf("process %s traces it", m[1])
			}
		}
		looks++
		time.Sleep(2 * time.Millisecond)
	}
	if r := p.wait(); r.exit != 0 || looks < 100 {
		t.Errorf("exit code %d, looked %d times", r.exit, looks)
	}
}

// Interpreters that we do not read get one clear line.
func TestUnsupported(t *testing.T) {
	home, _ := os.UserHomeDir()
	for _, version := range []string{"2.7", "3.6", "3.7", "3.8"} {
		t.Run(version, func(t *testing.T) {
			found, _ := filepath.Glob(filepath.Join(home, ".pyenv/versions", version+".*", "bin/python"))
			if len(found) == 0 {
				t.Skip("no Python " + version + " here")
			}
			code := "import sys, time; time.sleep(0.3); sys.stdout.write('ran'); sys.exit(4)"
			r := start(t, options{}, found[0], "-c", code).wait()
			if r.exit != 4 || r.stdout != "ran" {
				t.Errorf("exit code %d, stdout %q", r.exit, r.stdout)
			}
			if bareMode {
				t.Skip("bare")
			}
			if lines := r.ourLines(); len(lines) != 1 || !strings.Contains(lines[0], version) {
				t.Errorf("want one line that names %s: %q", version, lines)
			}
			if r.stderr != strings.Join(r.ourLines(), "\n")+"\n" {
				t.Errorf("more than our line on stderr: %q", r.stderr)
			}
		})
	}
}
