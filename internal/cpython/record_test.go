//go:build linux

package cpython

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestRecord reads a live interpreter as TestReplay reads a recorded one, which
// it records anew with -update.
func TestRecord(t *testing.T) {
	for _, minor := range dumpMinors {
		t.Run(fmt.Sprintf("3.%d", minor), func(t *testing.T) { record(t, minor) })
	}
}

func record(t *testing.T, minor int) {
	path := interpreter(t, minor)
	env := withOtel(t, path)
	program := filepath.Join("testdata", "spans.py")
	if *update {
		// No paths of the machine that records.
		dir := t.TempDir()
		link := func(name, code, python string) string {
			out, err := exec.Command(python, "-c", code).Output()
			if err != nil {
				t.Fatal(err)
			}
			to := filepath.Join(dir, name)
			if err := os.Symlink(strings.TrimSpace(string(out)), to); err != nil {
				t.Fatal(err)
			}
			return to
		}
		env = []string{"PYTHONPATH=" + link("packages", "import sysconfig; print(sysconfig.get_path('purelib'))", interpreter(t, 11))}
		const debian = "/usr/bin/python3.11"
		if _, err := os.Stat(debian); err == nil && minor == 11 {
			path = debian
		} else {
			env = append(env, "PYTHONHOME="+link("python", "import sys; print(sys.base_prefix)", path))
		}
		source, err := os.ReadFile(program)
		if err != nil {
			t.Fatal(err)
		}
		program = filepath.Join(dir, "spans.py")
		if err := os.WriteFile(program, source, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := startPython(t, path, env, program)
	if _, err := p.out.ReadBytes('\n'); err != nil {
		t.Fatal(err)
	}
	image := p.open(t).Image
	recorder := &recorder{Memory: p.memory}
	truth, err := session(recorder, image)
	if err != nil {
		t.Fatal(err)
	}
	d := &dump{Image: image, Truth: truth, Blocks: recorder.merged()}
	if *update {
		d.write(t)
	}
	d.left = 64 << 20
	sameSession(t, d)
}
