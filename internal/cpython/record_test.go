//go:build linux

package cpython

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestRecord reads a live interpreter as TestReplay reads a recorded one, which
// it records anew with -update.
func TestRecord(t *testing.T) {
	path := interpreter(t, 11)
	env := withOtel(t, path)
	program := filepath.Join("testdata", "spans.py")
	const debian = "/usr/bin/python3.11"
	if _, err := os.Stat(debian); err == nil && *update {
		// No paths of the machine that records.
		dir := t.TempDir()
		out, err := exec.Command(path, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").Output()
		if err != nil {
			t.Fatal(err)
		}
		packages := filepath.Join(dir, "packages")
		if err := os.Symlink(strings.TrimSpace(string(out)), packages); err != nil {
			t.Fatal(err)
		}
		source, err := os.ReadFile(program)
		if err != nil {
			t.Fatal(err)
		}
		program = filepath.Join(dir, "spans.py")
		if err := os.WriteFile(program, source, 0o600); err != nil {
			t.Fatal(err)
		}
		path, env = debian, []string{"PYTHONPATH=" + packages}
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
