//go:build linux

// Package e2e runs real Python programs under `spanflame run` and compares the
// profiles with what the programs know about themselves.
//
// SPANFLAME_TEST_PYTHON names the interpreter, otherwise scripts/testenv makes
// one. With SPANFLAME_E2E_BARE=1 the programs run without spanflame and only
// their own account is read: that is how the programs themselves are checked.
package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	scratch  string // for what all tests share
	bareMode = os.Getenv("SPANFLAME_E2E_BARE") != ""
)

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "spanflame-e2e"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(scratch)
	os.Exit(code)
}

var buildOnce = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "spanflame")
	cmd := exec.Command("go", "build", "-o", path, "../../cmd/spanflame")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

// binary is the path of spanflame, built once.
func binary(t *testing.T) string {
	t.Helper()
	path, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var pythonOnce = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("SPANFLAME_TEST_PYTHON"); path != "" {
		return path, nil
	}
	return testenv("current")
})

// testenv is a Python with what scripts/requirements/NAME.txt says.
func testenv(name string) (string, error) {
	var stderr bytes.Buffer
	cmd := exec.Command("../../scripts/testenv", name)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("scripts/testenv %s: %w\n%s", name, err, stderr.Bytes())
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1], nil
}

// python is an interpreter that has OpenTelemetry, uvloop, gevent and Flask.
func python(t *testing.T) string {
	t.Helper()
	path, err := pythonOnce()
	if err != nil {
		unavailable(t, "no Python to test with: %v", err)
	}
	return path
}

// unavailable ends a test that lacks something: CI has to have it.
func unavailable(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// heavy marks a test that -short leaves out.
func heavy(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("left out by -short")
	}
}

// options says how a program is run; the zero value is the usual way.
type options struct {
	interval string   // --sample-interval; 10ms
	export   string   // --export-interval; 1h, so that there is one window
	flags    []string // further flags of run
	env      []string
	outside  []string // what starts spanflame
	inside   []string // what spanflame starts, in front of the interpreter
	python   []string // another interpreter, or the usual one with flags
	stdin    io.Reader
	noPprof  bool // no --pprof-path
	bare     bool // without spanflame
	dir      string
	timeout  time.Duration
}

// process is a started command.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	dir    string // where its truth and profiles go
	stdout lockedBuffer
	stderr lockedBuffer
	began  time.Time
	timer  *time.Timer
}

// result is what a command left behind.
type result struct {
	exit     int
	stdout   string
	stderr   string
	took     time.Duration
	dir      string
	truths   map[int]*truth // by pid
	profiles map[int]*prof  // by pid, all windows together
}

// lockedBuffer may be read while the command writes.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// run runs a program of programs/ to its end, which has to be a good one.
func run(t *testing.T, o options, program string, args ...string) *result {
	t.Helper()
	r := start(t, o, pythonCommand(t, o, program, args...)...).wait()
	if r.exit != 0 {
		t.Fatalf("%s ended with code %d\nstdout: %s", program, r.exit, r.stdout)
	}
	if bareMode && !o.bare {
		t.Skip("bare: programs only")
	}
	return r
}

func pythonCommand(t *testing.T, o options, program string, args ...string) []string {
	t.Helper()
	interpreter := o.python
	if interpreter == nil {
		interpreter = []string{python(t)}
	}
	return slices.Concat(o.inside, interpreter, []string{programPath(t, program)}, args)
}

func programPath(t *testing.T, program string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("programs", program))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// start starts any command under spanflame.
func start(t *testing.T, o options, argv ...string) *process {
	t.Helper()
	p := prepare(t, o, argv...)
	p.start()
	return p
}

func prepare(t *testing.T, o options, argv ...string) *process {
	t.Helper()
	p := &process{t: t, dir: t.TempDir()}
	var full []string
	if !o.bare && !bareMode {
		full = append(full, binary(t), "run", "--export-interval", or(o.export, "1h"), "--sample-interval", or(o.interval, "10ms"))
		if !o.noPprof {
			full = append(full, "--pprof-path", filepath.Join(p.dir, "p"))
		}
		full = append(append(full, o.flags...), "--")
	}
	full = slices.Concat(o.outside, full, argv)
	p.cmd = exec.Command(full[0], full[1:]...)
	p.cmd.Env = append(append(environment(), "TRUTH="+p.dir), o.env...)
	p.cmd.Dir = o.dir
	p.cmd.Stdin = o.stdin
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	// What outlives the command and holds its streams fails the test.
	p.cmd.WaitDelay = 10 * time.Second
	timeout := o.timeout
	if timeout == 0 {
		timeout = 2 * time.Minute
	}
	p.timer = time.AfterFunc(timeout, func() {
		if p.cmd.Process != nil {
			p.cmd.Process.Kill()
		}
	})
	t.Cleanup(func() {
		p.timer.Stop()
		if t.Failed() {
			t.Logf("command: %s\nstderr:\n%s", strings.Join(full, " "), p.stderr.String())
		}
	})
	return p
}

func (p *process) start() {
	p.t.Helper()
	p.began = time.Now()
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// environment is ours without what would steer Python, OpenTelemetry or spanflame.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(pair string) bool {
		for _, prefix := range []string{"OTEL_", "PYTHON", "SPANFLAME_", "TRUTH", "VIRTUAL_ENV", "__PYVENV"} {
			if strings.HasPrefix(pair, prefix) {
				return true
			}
		}
		return false
	})
}

var readyLine = regexp.MustCompile(`ready (\d+)`)

// ready waits until the program has said so, and returns its pid.
func (p *process) ready() int {
	p.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if m := readyLine.FindStringSubmatch(p.stdout.String()); m != nil {
			pid, _ := strconv.Atoi(m[1])
			return pid
		}
	}
	p.t.Fatalf("the program did not get ready; stdout: %q", p.stdout.String())
	return 0
}

// wait waits for the end and reads what was left behind.
func (p *process) wait() *result {
	p.t.Helper()
	err := p.cmd.Wait()
	p.timer.Stop()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.t.Fatalf("%v: something still holds the streams, or they broke", err)
	}
	r := &result{
		exit: p.cmd.ProcessState.ExitCode(), stdout: p.stdout.String(), stderr: p.stderr.String(),
		took: time.Since(p.began), dir: p.dir,
	}
	if r.truths, err = readTruths(p.dir); err != nil {
		p.t.Fatal(err)
	}
	var problems []string
	if r.profiles, problems, err = readProfiles(p.dir); err != nil {
		p.t.Fatal(err)
	}
	report(p.t, problems)
	return r
}

// report fails the test with each problem, the first few spelled out.
func report(t *testing.T, problems []string) {
	t.Helper()
	for i, problem := range problems {
		if i == 10 {
			t.Errorf("… and %d more", len(problems)-i)
			break
		}
		t.Error(problem)
	}
}

// trial is one run of a program whose profile is measured.
type trial struct{ problems []string }

// measured notes what a disturbed machine may be the reason of.
func (m *trial) measured(problems []string) { m.problems = append(m.problems, problems...) }

func (m *trial) add(format string, args ...any) {
	m.problems = append(m.problems, fmt.Sprintf(format, args...))
}

// repeat measures up to three times and reports what was wrong each time: of
// other programs that take the CPU away, as a test machine may have, not even
// the kernel's clocks know when they did. What is never right, such as a wrong
// span, is reported with report, the first time.
func repeat(t *testing.T, measure func(*trial)) {
	t.Helper()
	const attempts = 3
	for i := range attempts {
		var m trial
		if measure(&m); len(m.problems) == 0 {
			return
		}
		if i == attempts-1 {
			report(t, m.problems)
			return
		}
		t.Logf("measured once more: %s", strings.Join(m.problems, "; "))
	}
}

// truth is what programs/truth.py writes.
type truth struct {
	PID, PPID int
	Born      int64
	File      string
	MainIdent uint64 `json:"main_ident"`
	Wall, CPU int64
	Native    int64 // CPU of threads without Python
	Role      string
	Functions map[string]functionTruth
	Threads   map[string]threadTruth
	Spans     map[string]spanTruth  // by span id
	Links     map[string]*linkTruth // by function
	Edges     [][2]string
	Shares    map[string][2]float64
	Signals   json.RawMessage
	TTY       []bool
	// What the interpreter looked like.
	Foreground    bool
	Shim          bool
	Provider, CWD string
	Modules, Path []string
	Argv, Traced  []string
	Environ       map[string]string
}

type functionTruth struct {
	CPU, Wall   int64
	First, Line int64
}

type threadTruth struct {
	Ident, Native uint64
	Wall, CPU     int64
}

type spanTruth struct {
	Trace, Root, Name, Attribute string
	CPU                          int64
	Functions                    []string
}

type linkTruth struct{ Trace, Span, Root, Name string }

func readTruths(dir string) (map[int]*truth, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	truths := map[int]*truth{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var tr truth
		if err := json.Unmarshal(data, &tr); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		truths[tr.PID] = &tr
	}
	return truths, err
}

// main is the oldest process and its profile.
func (r *result) main(t *testing.T) (*prof, *truth) {
	t.Helper()
	var oldest *truth
	for _, tr := range r.truths {
		if oldest == nil || tr.Born < oldest.Born || tr.Born == oldest.Born && tr.PID < oldest.PID {
			oldest = tr
		}
	}
	if oldest == nil {
		t.Fatal("the program wrote no truth")
	}
	p := r.profiles[oldest.PID]
	if p == nil {
		t.Fatalf("no profile of pid %d, only of %v", oldest.PID, keys(r.profiles))
	}
	return p, oldest
}

func keys[V any](m map[int]V) []int {
	var ks []int
	for k := range m {
		ks = append(ks, k)
	}
	slices.Sort(ks)
	return ks
}

// ourLines are the lines on stderr that spanflame wrote.
func (r *result) ourLines() []string {
	var lines []string
	for line := range strings.Lines(r.stderr) {
		if strings.HasPrefix(line, "spanflame: ") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// counts are the figures of the line that ends a run.
type counts struct{ samples, torn, unproven, givenUp int }

func (r *result) counts(t *testing.T) counts {
	t.Helper()
	c, err := parseSummary(r.ourLines())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func parseSummary(lines []string) (c counts, err error) {
	if len(lines) == 0 {
		return c, errors.New("spanflame said nothing on stderr")
	}
	last := lines[len(lines)-1]
	for _, field := range []struct {
		pattern string
		value   *int
	}{
		{`\b(\d+) samples`, &c.samples},
		{`\btorn (\d+)`, &c.torn},
		{`\bunproven (\d+)`, &c.unproven},
		{`\bgiven up (\d+)`, &c.givenUp},
	} {
		m := regexp.MustCompile(field.pattern).FindStringSubmatch(last)
		if m == nil {
			return c, fmt.Errorf("the last line has no %s: %q", field.pattern, last)
		}
		*field.value, _ = strconv.Atoi(m[1])
	}
	return c, nil
}
