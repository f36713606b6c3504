package pproffile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spanflame/spanflame/internal/encode/pprof"
	"github.com/spanflame/spanflame/internal/export"
	"github.com/spanflame/spanflame/profile"
)

func window(pid int, cpu int64) *profile.Profile {
	b := profile.NewBuilder(profile.ValueType{Type: "cpu", Unit: "nanoseconds", Period: 1})
	b.Add(b.Stack([]int{b.Frame(profile.Frame{Function: "burn"})}), 0, 0, cpu)
	p := b.Build()
	p.PID, p.Start, p.Duration = pid, 1, 1
	return p
}

func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		list = append(list, entry.Name())
	}
	return list
}

func read(t *testing.T, path string) int64 {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, err := pprof.Decode(f)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	cpu, _ := p.Total("cpu")
	return cpu
}

func TestWritesTheNextFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there", "yet")
	prefix := filepath.Join(dir, "shop")
	first := New(prefix)
	for _, p := range []*profile.Profile{window(7, 1), window(7, 2), window(8, 3)} {
		if err := first.Export(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	// Another run must not overwrite, nor must a gap be filled with what is newer.
	taken := prefix + ".7.4.pprof"
	if err := os.WriteFile(taken, []byte("someone's"), 0o644); err != nil {
		t.Fatal(err)
	}
	second := New(prefix)
	for cpu := int64(4); cpu < 6; cpu++ {
		if err := second.Export(t.Context(), window(7, cpu)); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"shop.7.1.pprof", "shop.7.2.pprof", "shop.7.3.pprof", "shop.7.4.pprof", "shop.7.5.pprof", "shop.8.1.pprof"}, names(t, dir)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	want := []string{prefix + ".7.3.pprof", prefix + ".7.5.pprof"}
	if diff := cmp.Diff(want, second.Files()); diff != "" || second.Count() != 2 {
		t.Errorf("%d files: -want +got\n%s", second.Count(), diff)
	}
	for i, path := range append(first.Files(), second.Files()...) {
		if cpu := read(t, path); cpu != int64(i+1) {
			t.Errorf("%s has cpu %d, want %d", path, cpu, i+1)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != 0o600 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("directory: %v, %v", info.Mode(), err)
	}
	if content, _ := os.ReadFile(taken); string(content) != "someone's" {
		t.Error("a file was overwritten")
	}
}

func TestPrefixes(t *testing.T) {
	t.Chdir(t.TempDir())
	for prefix, want := range map[string]string{
		"":          "spanflame.7.1.pprof",
		"plain":     "plain.7.1.pprof",
		"dir/":      "dir/spanflame.7.1.pprof",
		"./here":    "./here.7.1.pprof",
		"a b.c/d e": "a b.c/d e.7.1.pprof",
	} {
		e := New(prefix)
		if err := e.Export(t.Context(), window(7, 1)); err != nil {
			t.Fatal(err)
		}
		if got := e.Files(); !slices.Equal(got, []string{want}) {
			t.Errorf("%q: %v, want %s", prefix, got, want)
		}
		if _, err := os.Stat(want); err != nil {
			t.Error(err)
		}
	}
}

// Several agents may have the same prefix and, in other pid namespaces, the
// same pid.
func TestManyWriters(t *testing.T) {
	dir := t.TempDir()
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			e := New(filepath.Join(dir, "p"))
			for range 25 {
				if err := e.Export(t.Context(), window(7, 1)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	var want []string
	for n := 1; n <= 100; n++ {
		want = append(want, fmt.Sprintf("p.7.%d.pprof", n))
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, names(t, dir)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestReserve(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	if err := move(from, to); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	if list := names(t, dir); len(list) != 0 {
		t.Errorf("left behind: %v", list)
	}
}

func TestFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	e := New(filepath.Join(file, "prefix"))
	err := e.Export(t.Context(), window(7, 1))
	var got *export.Error
	if !errors.As(err, &got) || got.Retryable || !strings.Contains(got.Hint, "--pprof-path") || !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("%v, %+v", err, got)
	}
	// What cannot be encoded leaves nothing behind.
	dir := t.TempDir()
	if err := New(filepath.Join(dir, "p")).Export(t.Context(), &profile.Profile{}); err == nil {
		t.Error("a profile without types was written")
	}
	if list := names(t, dir); len(list) != 0 {
		t.Errorf("left behind: %v", list)
	}
	if e.Count() != 0 || len(e.Files()) != 0 {
		t.Error("a failure was counted as a file")
	}
}

// /dev/full takes what is written and says that there is no room.
func TestFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	var got *export.Error
	if err := describe(pprof.Encode(full, window(7, 1))); !errors.As(err, &got) || !got.Retryable || got.Hint == "" {
		t.Errorf("%v, %+v", err, got)
	}
}

func TestFilesAreBounded(t *testing.T) {
	t.Chdir(t.TempDir())
	e := New("p")
	e.files, e.count = make([]string, maxFiles), maxFiles
	for range 3 {
		if err := e.Export(t.Context(), window(7, 1)); err != nil {
			t.Fatal(err)
		}
	}
	files := e.Files()
	if len(files) != maxFiles || files[maxFiles-1] != "p.7.3.pprof" || e.Count() != maxFiles+3 {
		t.Errorf("%d files up to %s, count %d", len(files), files[maxFiles-1], e.Count())
	}
}

func TestCheck(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	if err := New(filepath.Join(dir, "p")).Check(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("it left %v, %v", left, err)
	}
	for _, prefix := range []string{"/proc/new/p", filepath.Join(os.Args[0], "p")} {
		if err := New(prefix).Check(); export.HintOf(err) == "" {
			t.Errorf("%s: %v has no hint", prefix, err)
		}
	}
}
