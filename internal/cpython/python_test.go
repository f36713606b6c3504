//go:build linux

package cpython

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spanflame/spanflame/internal/proc"
)

// python is a real interpreter that runs a program of testdata.
type python struct {
	process *proc.Process
	memory  *proc.Memory
	reader  *Reader
	in      io.WriteCloser
	out     *bufio.Reader
}

// withPython runs a program of testdata, with arguments, which prints a line
// when it is ready, in every supported CPython there is.
func withPython(program string, t *testing.T, test func(*testing.T, *python)) {
	t.Helper()
	args := strings.Fields(program)
	args[0] = filepath.Join("testdata", args[0])
	withInterpreters(t, func(t *testing.T, path string) {
		test(t, startPython(t, path, nil, args...))
	})
}

// withInterpreters runs a test in every supported CPython there is. Of 3.11
// that is the one of the test environment, which has OpenTelemetry, and
// Debian's, which is linked statically.
func withInterpreters(t *testing.T, test func(t *testing.T, path string)) {
	t.Helper()
	for minor := 11; minor <= 13; minor++ {
		t.Run(fmt.Sprintf("3.%d", minor), func(t *testing.T) { test(t, interpreter(t, minor)) })
	}
	const debian = "/usr/bin/python3.11"
	if _, err := os.Stat(debian); err == nil && interpreter(t, 11) != debian {
		t.Run("debian", func(t *testing.T) { test(t, debian) })
	}
}

// interpreter returns the path of a CPython 3.minor; where there is none the
// test is skipped.
func interpreter(t testing.TB, minor int) string {
	t.Helper()
	found := findPython(minor)
	if found == "" {
		if minor == 11 && os.Getenv("CI") != "" {
			t.Fatal("no CPython 3.11 found")
		}
		t.Skipf("no CPython 3.%d found; SPANFLAME_TEST_PYTHON names that of 3.11", minor)
	}
	// pyenv's shim is a script that becomes Python.
	out, err := exec.Command(found, "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// startPython starts an interpreter; it ends with the test at the latest.
func startPython(t testing.TB, path string, env []string, args ...string) *python {
	t.Helper()
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONHASHSEED=0")
	cmd.Env = append(cmd.Env, env...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	p := &python{in: in, out: bufio.NewReaderSize(out, 1<<20)}
	if p.process, err = proc.OpenProcess(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.process.Close)
	if p.memory, err = proc.OpenMemory(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.memory.Close() })
	return p
}

// read waits for the program's next line and decodes it.
func (p *python) read(t testing.TB, v any) {
	t.Helper()
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		t.Fatalf("the program said nothing: %v", err)
	}
	if err := json.Unmarshal(line, v); err != nil {
		t.Fatalf("%v in %q", err, line)
	}
}

// open finds the interpreter. The program has printed something by now.
func (p *python) open(t testing.TB) *Reader {
	t.Helper()
	image, err := Locate(p.process)
	if err != nil {
		t.Fatal(err)
	}
	if p.reader, err = NewReader(p.memory, image); err != nil {
		t.Fatal(err)
	}
	return p.reader
}

// threads returns a sampler for each thread, by ident.
func threads(t testing.TB, r *Reader) map[uint64]*Thread {
	t.Helper()
	refs, err := r.Threads()
	if err != nil {
		t.Fatal(err)
	}
	all := map[uint64]*Thread{}
	for _, ref := range refs {
		all[ref.Ident] = r.Thread(ref)
	}
	return all
}

// withOtel returns what an interpreter's environment needs for the OpenTelemetry
// SDK, that of the environment for 3.11 if it has none of its own: it is written
// in Python. Without it the test is skipped.
func withOtel(t testing.TB, path string) []string {
	t.Helper()
	has := func(env ...string) bool {
		cmd := exec.Command(path, "-c", "import opentelemetry.sdk.trace")
		cmd.Env = append(os.Environ(), env...)
		return cmd.Run() == nil
	}
	if has() {
		return nil
	}
	const packages = "import sysconfig; print(sysconfig.get_path('purelib'))"
	if other := findPython(11); other != "" {
		if out, err := exec.Command(other, "-c", packages).Output(); err == nil {
			env := "PYTHONPATH=" + strings.TrimSpace(string(out))
			if has(env) {
				return []string{env}
			}
		}
	}
	t.Skip("OpenTelemetry is not installed for " + path)
	return nil
}
