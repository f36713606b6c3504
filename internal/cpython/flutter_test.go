//go:build linux

package cpython

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// TestFlutter samples programs whose stacks change every microsecond: no call
// may be seen that they do not make, and what costs the same has to be seen
// equally often.
func TestFlutter(t *testing.T) {
	for mode, samples := range map[string]int{
		"chains": 20_000, "recursion": 6_000, "generators": 10_000,
		"coroutines": 6_000, "entries": 10_000, "exceptions": 6_000,
	} {
		t.Run(mode, func(t *testing.T) {
			withPython("flutter.py "+mode, t, func(t *testing.T, p *python) {
				flutter(t, p, mode, samples/2)
			})
		})
	}
}

func flutter(t *testing.T, p *python, mode string, samples int) {
	var ident uint64
	var edges [][2]string
	var text json.RawMessage
	p.read(t, &text)
	if err := json.Unmarshal(text, &[]any{&ident, &edges}); err != nil {
		t.Fatal(err)
	}
	known := map[[2]string]bool{}
	for _, edge := range edges {
		known[edge] = true
	}
	thread := threads(t, p.open(t))[ident]
	failed, impossible := 0, map[[2]string]int{}
	seen := map[byte]int{}
	var cost time.Duration
	for range samples {
		// Busy: a timer would fire when the target's own do.
		for until := time.Now().Add(time.Duration(rand.IntN(150)) * time.Microsecond); time.Now().Before(until); {
		}
		begin := time.Now()
		err := thread.Sample()
		cost += time.Since(begin)
		if err != nil {
			failed++
			continue
		}
		frames := thread.Frames
		if len(frames) == 0 {
			impossible[[2]string{"", ""}]++
			continue
		}
		if root := frames[len(frames)-1].Code.Function; root != "Thread._bootstrap" {
			impossible[[2]string{"", root}]++
		}
		if leaf := frames[0].Code.Function; strings.HasPrefix(leaf, "Thread.") && !thread.Torn {
			impossible[[2]string{leaf, ""}]++
		}
		for i := len(frames) - 1; i > 0; i-- {
			edge := [2]string{frames[i].Code.Function, frames[i-1].Code.Function}
			if !known[edge] {
				impossible[edge]++
			}
		}
		if leaf := frames[0].Code.Function; !strings.HasPrefix(leaf, mode) {
			seen[leaf[0]]++
		}
	}
	t.Logf("%d samples, %v each, torn %v, failed %d, seen %v", samples, cost/time.Duration(samples), thread.Torn, failed, seen)
	for edge, n := range impossible {
		t.Errorf("%d times %s called %s", n, edge[0], edge[1])
	}
	if failed > samples/50 {
		t.Errorf("%d samples failed", failed)
	}
	if a, b := float64(seen['a']), float64(seen['b']); mode == "chains" && (a+b < float64(samples)/2 || a/(a+b) < 0.46 || a/(a+b) > 0.54) {
		t.Errorf("%v and %v samples of two halves", a, b)
	}
}
