//go:build linux

package cpython

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"testing"
	"time"
)

// named is what testdata/threads.py prints of one thread.
type named struct {
	Name     string
	NativeID uint64
}

func (n *named) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&n.Name, &n.NativeID})
}

func TestThreads(t *testing.T) {
	withPython("threads.py", t, func(t *testing.T, p *python) {
		var main uint64
		p.read(t, &main)
		r := p.open(t)
		generations := map[uint64]bool{}
		// A thread that ends leaves its memory to the next one.
		for _, command := range []string{"one", "zwölf ü 名 \U0001f600", "end", "three", "end", "four", "end", "end", "five"} {
			fmt.Fprintln(p.in, command)
			want := map[string]named{}
			p.read(t, &want)
			sameThreads(t, r, main, want)
			generation, err := r.Generation()
			if err != nil {
				t.Fatal(err)
			}
			if generations[generation] {
				t.Errorf("after %q: a generation that was there before", command)
			}
			generations[generation] = true
			if again, err := r.Generation(); again != generation || err != nil {
				t.Errorf("after %q: another generation, though nothing happened: %v", command, err)
			}
		}
	})
}

// sameThreads compares the threads that a Reader lists, and their names, with
// those that threading knows.
func sameThreads(t *testing.T, r *Reader, main uint64, want map[string]named) {
	t.Helper()
	refs, err := r.Threads()
	if err != nil {
		t.Fatal(err)
	}
	names, err := r.ThreadNames(func(uint64) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]named{}
	for _, ref := range refs {
		got[strconv.FormatUint(ref.Ident, 10)] = named{names[ref.Ident], ref.NativeID}
		if ref.Main != (ref.Ident == main) {
			t.Errorf("thread %d: main %t", ref.Ident, ref.Main)
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("threads %v, want %v", got, want)
	}
	if some, err := r.ThreadNames(func(ident uint64) bool { return ident == main }); err != nil || len(some) != 1 || some[main] != "MainThread" {
		t.Errorf("name of the main thread alone: %v, %v", some, err)
	}
}

// TestThreadsThatEnd lists and samples threads that live for some hundred
// microseconds each.
func TestThreadsThatEnd(t *testing.T) {
	withPython("threads.py", t, func(t *testing.T, p *python) {
		var main uint64
		p.read(t, &main)
		r := p.open(t)
		fmt.Fprintln(p.in, "churn")
		var ignored map[string]named
		p.read(t, &ignored)
		lists, seen, samples, errs := 0, map[uint64]bool{}, 0, map[string]int{}
		for begin := time.Now(); time.Since(begin) < time.Second; {
			refs, err := r.Threads()
			if err != nil {
				errs["list: "+err.Error()]++
				continue
			}
			lists++
			for _, ref := range refs {
				seen[ref.NativeID] = true
				thread := r.Thread(ref)
				if err := thread.Sample(); err != nil {
					errs[err.Error()]++
					continue
				}
				samples++
				for _, f := range thread.Frames {
					if f.Code.Function == "" || f.Code.File == "" {
						t.Errorf("nameless frame: %+v", f.Code)
					}
				}
			}
			if _, err := r.ThreadNames(func(uint64) bool { return true }); err != nil {
				errs["names: "+err.Error()]++
			}
		}
		t.Logf("%d lists, %d threads, %d samples, %v", lists, len(seen), samples, errs)
		if lists < 50 || len(seen) < 50 {
			t.Errorf("%d lists, %d threads, %v", lists, len(seen), errs)
		}
	})
}
