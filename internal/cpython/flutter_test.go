//go:build linux

package cpython

import (
	"encoding/json"
	"flag"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

var flutterFor = flag.Duration("flutter", 800*time.Millisecond, "how long TestFlutter samples each program")

// TestFlutter samples programs whose stacks change every microsecond: no call
// may be seen that they do not make, and what costs the same has to be seen
// equally often.
func TestFlutter(t *testing.T) {
	for _, mode := range []string{"chains", "recursion", "generators", "coroutines", "entries", "exceptions", "instances"} {
		t.Run(mode, func(t *testing.T) {
			withPython("flutter.py "+mode, t, func(t *testing.T, p *python) {
				flutter(t, p, mode)
			})
		})
	}
}

func flutter(t *testing.T, p *python, mode string) {
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
	seen, before := map[byte]int{}, []Frame(nil)
	var cost time.Duration
	// As many as there is time for; some thousands, if nothing else runs.
	samples, distinct := 0, 0
	for end := time.Now().Add(*flutterFor); time.Now().Before(end); samples++ {
		time.Sleep(time.Duration(rand.IntN(100)) * time.Microsecond)
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
		// A thread that has to wait for a CPU is seen in one place all the while.
		if leaf := frames[0].Code.Function; !slices.Equal(frames, before) {
			distinct++
			if !strings.HasPrefix(leaf, mode) {
				seen[leaf[0]]++
			}
		}
		before = append(before[:0], frames...)
	}
	t.Logf("%d samples, %d distinct, %v each, failed %d, seen %v", samples, distinct, cost/time.Duration(samples), failed, seen)
	for edge, n := range impossible {
		t.Errorf("%d times %s called %s", n, edge[0], edge[1])
	}
	if failed > samples/50 || distinct < 50 {
		t.Errorf("%d samples, %d distinct, %d failed", samples, distinct, failed)
	}
	a, b := float64(seen['a']), float64(seen['b'])
	if noise := 6 * math.Sqrt(a+b); mode == "chains" && math.Abs(a-b) > noise {
		t.Errorf("%v and %v samples of two halves", a, b)
	}
}
