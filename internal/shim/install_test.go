//go:build linux

package shim

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestInstall(t *testing.T) {
	base := filepath.Join(openTempDir(t), "spanflame")
	dir, err := installUnder(base)
	if err != nil {
		t.Fatal(err)
	}
	init := filepath.Join(dir, "spanflame", "__init__.py")
	if content, err := os.ReadFile(init); err != nil || !strings.Contains(string(content), `__version__ = "`+Version+`"`) {
		t.Errorf("version of the shim is not %s: %v", Version, err)
	}
	for _, name := range []string{"sitecustomize.py", "spanflame-" + Version + ".dist-info/entry_points.txt"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	info, err := os.Stat(init)
	if err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("%v, %v", info.Mode(), err)
	}

	t.Run("again", func(t *testing.T) {
		if again, err := installUnder(base); err != nil || again != dir {
			t.Errorf("%s, %v", again, err)
		}
		if now, _ := os.Stat(init); !now.ModTime().Equal(info.ModTime()) {
			t.Error("wrote what was there")
		}
	})
	for name, spoil := range map[string]func() error{
		"changed":  func() error { return os.WriteFile(init, []byte("evil"), 0o644) },
		"lost":     func() error { return os.Remove(init) },
		"writable": func() error { return os.Chmod(init, 0o666) },
		"link": func() error {
			os.Remove(init)
			return os.Symlink("/etc/passwd", init)
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := spoil(); err != nil {
				t.Fatal(err)
			}
			if _, err := installUnder(base); err != nil {
				t.Error(err)
			}
		})
	}
	if leftovers, _ := filepath.Glob(filepath.Join(base, ".new-*")); len(leftovers) > 0 {
		t.Errorf("left %v", leftovers)
	}
}

func TestInstallRefuses(t *testing.T) {
	for name, prepare := range map[string]func(base string) error{
		"a link": func(base string) error { return os.Symlink(t.TempDir(), base) },
		"a file": func(base string) error { return os.WriteFile(base, nil, 0o644) },
		"writable": func(base string) error {
			return os.Mkdir(base, 0o777)
		},
		"parent writable": func(base string) error { return os.Chmod(filepath.Dir(base), 0o777) },
		"foreign": func(base string) error {
			if err := os.Mkdir(base, 0o755); err != nil {
				return err
			}
			return os.Chown(base, 65534, 65534)
		},
	} {
		t.Run(name, func(t *testing.T) {
			base := filepath.Join(openTempDir(t), "spanflame")
			if err := prepare(base); err != nil {
				t.Skip(err)
			}
			if name == "writable" {
				if err := os.Chmod(base, 0o777); err != nil {
					t.Fatal(err)
				}
			}
			if dir, err := installUnder(base); err == nil {
				t.Errorf("used %s", dir)
			}
		})
	}
}

// openTempDir is a temporary directory that everyone may enter, which root's
// shim needs.
func openTempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "shim-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestEnviron(t *testing.T) {
	for _, test := range []struct{ before, want string }{
		{"A=1", "A=1 PYTHONPATH=/d"},
		{"PYTHONPATH=", "PYTHONPATH=/d"},
		{"PYTHONPATH=/a:/d:/b B=", "B= PYTHONPATH=/d:/a:/b"},
		{"PYTHONPATH=/a: SPANFLAME_TOKEN=old", "PYTHONPATH=/d:/a:"},
	} {
		got := Environ(strings.Fields(test.before), "/d", "sock", "tok")
		want := strings.Fields(test.want + " SPANFLAME_SOCKET=sock SPANFLAME_TOKEN=tok")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.before, diff)
		}
	}
}
