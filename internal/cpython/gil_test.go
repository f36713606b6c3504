//go:build linux

package cpython

import (
	"testing"
	"time"
)

// TestGIL samples a thread that nobody else wants the lock from, and one that
// has let it go.
func TestGIL(t *testing.T) {
	withPython("spin.py", t, func(t *testing.T, p *python) {
		var idents []uint64
		p.read(t, &idents)
		all := threads(t, p.open(t))
		const samples = 300
		for i, want := range []int{samples, 0} {
			thread, held := all[idents[i]], 0
			for range samples {
				time.Sleep(100 * time.Microsecond)
				if err := thread.Sample(); err != nil {
					t.Fatal(err)
				}
				if thread.GIL {
					held++
				}
			}
			if abs(held-want) > samples/20 { // a signal, an interval at which it asks for others
				t.Errorf("thread %d held the lock in %d of %d samples, want %d", i, held, samples, want)
			}
		}
	})
}

func abs(n int) int { return max(n, -n) }
