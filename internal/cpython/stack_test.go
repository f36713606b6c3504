//go:build linux

package cpython

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// parked is what testdata/parked.py prints of one thread.
type parked struct {
	Name  string
	Stack []call
}

func (p *parked) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&p.Name, &p.Stack})
}

func (c *call) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&c.Function, &c.File, &c.Line, &c.FirstLine})
}

// TestParkedStacks compares the stacks of threads that hold still with what
// sys._current_frames says.
func TestParkedStacks(t *testing.T) {
	withPython("parked.py", t, func(t *testing.T, p *python) {
		var want map[string]parked
		p.read(t, &want)
		r := p.open(t)
		all := threads(t, r)
		names, err := r.ThreadNames(func(uint64) bool { return true })
		if err != nil {
			t.Fatal(err)
		}
		if len(all) != len(want)+1 {
			t.Errorf("%d threads, want %d and the main one", len(all), len(want))
		}
		for round := range 3 {
			for key, want := range want {
				ident, _ := strconv.ParseUint(key, 10, 64)
				thread := all[ident]
				if thread == nil {
					t.Fatalf("%s is not listed", want.Name)
				}
				if err := thread.Sample(); err != nil {
					t.Errorf("%s: %v", want.Name, err)
					continue
				}
				for i := range want.Stack {
					want.Stack[i].Function = cut(want.Stack[i].Function)
				}
				if diff := cmp.Diff(want.Stack, calls(thread.Frames)); diff != "" {
					t.Errorf("round %d, %s (-want +got):\n%.2000s", round, want.Name, diff)
				}
				if !thread.Proven || thread.Truncated || thread.Torn || thread.GIL {
					t.Errorf("round %d, %s: proven %t, truncated %t, torn %v, GIL %t",
						round, want.Name, thread.Proven, thread.Truncated, thread.Torn, thread.GIL)
				}
				if got := names[ident]; got != cut(want.Name) {
					t.Errorf("thread name %q, want %q", got, want.Name)
				}
			}
		}
	})
}

// TestBareThreads samples threads without Python code, and with a generator at
// the root.
func TestBareThreads(t *testing.T) {
	withPython("bare.py", t, func(t *testing.T, p *python) {
		var idents []uint64
		p.read(t, &idents)
		all := threads(t, p.open(t))
		for i, want := range [][]string{nil, {"inner", "generator"}} {
			thread := all[idents[i]]
			for range 3 {
				if err := thread.Sample(); err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, f := range thread.Frames {
					got = append(got, f.Code.Function)
				}
				if !slices.Equal(got, want) || thread.Torn || !thread.Proven {
					t.Errorf("stack %v, want %v; torn %t, proven %t", got, want, thread.Torn, thread.Proven)
				}
			}
		}
	})
}

// cut shortens a name as a Reader does. Surrogates, which JSON turns into
// U+FFFD, are that there too.
func cut(name string) string {
	if utf8.RuneCountInString(name) <= maxRunes {
		return name
	}
	var b strings.Builder
	for i, c := range []rune(name) {
		if i == maxRunes {
			break
		}
		b.WriteRune(c)
	}
	return b.String() + "…"
}
