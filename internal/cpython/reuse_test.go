//go:build linux

package cpython

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// TestReusedCode samples programs whose code objects live for a moment, each
// where another one was.
func TestReusedCode(t *testing.T) {
	for _, test := range []struct {
		name, program string
		samples       int
		share         float64 // of samples that see made code
	}{
		// Code that does not live as long as two readings take is hardly ever
		// proven: its callers are seen instead.
		{"for 5 µs", "reuse.py 20", 1500, 0},
		{"for 250 µs", "reuse.py 5000", 600, 0.1},
		{"for 500 µs", "reuse.py 10000", 500, 0.7},
	} {
		t.Run(test.name, func(t *testing.T) {
			withPython(test.program, t, func(t *testing.T, p *python) {
				reusedCode(t, p, test.samples, test.share)
			})
		})
	}
}

func reusedCode(t *testing.T, p *python, samples int, share float64) {
	var ident uint64
	p.read(t, &ident)
	r := p.open(t)
	if otel, err := r.FindOtel(); err == nil {
		if err := r.SetOtel(otel); err != nil {
			t.Fatal(err)
		}
	}
	thread := threads(t, r)[ident]
	seen, failed := 0, 0
	addresses := map[uint64]map[string]bool{}
	for range samples {
		time.Sleep(time.Duration(rand.IntN(100)) * time.Microsecond)
		if err := thread.Sample(); err != nil {
			failed++
			continue
		}
		number := ""
		for _, f := range thread.Frames {
			name := f.Code.Function
			if !strings.HasPrefix(name, "outer") && !strings.HasPrefix(name, "inner") || name == "outer" || name == "inner" {
				continue
			}
			n := name[len("outer"):]
			if n != f.Code.File || number != "" && n != number {
				t.Errorf("%s of file %s in a stack of %s", name, f.Code.File, number)
			}
			number = n
			if addresses[f.Code.addr] == nil {
				addresses[f.Code.addr] = map[string]bool{}
			}
			addresses[f.Code.addr][n] = true
		}
		if number != "" {
			seen++
		}
	}
	reused := 0
	for _, names := range addresses {
		if len(names) > 1 {
			reused++
		}
	}
	t.Logf("%d of %d samples saw made code, at %d addresses, %d of them reused; torn %v, failed %d, spans %t",
		seen, samples, len(addresses), reused, thread.Torn, failed, r.HasOtel())
	if share > 0 && reused == 0 || float64(seen) < share*float64(samples) || failed > samples/2 { // the race detector makes reading slow
		t.Errorf("%d seen, %d addresses reused, %d samples failed", seen, reused, failed)
	}
}
