//go:build linux

package e2e

import "testing"

// Programs that change their stacks as fast as Python can, at 1 kHz: no sample
// shows a call that the program does not make, and less than 1 % are torn.
func TestTear(t *testing.T) {
	for _, mode := range []string{"chains", "recursion", "generators", "exceptions"} {
		t.Run(mode, func(t *testing.T) {
			seconds := "5"
			if testing.Short() {
				seconds = "2"
			}
			r := run(t, options{interval: "1ms"}, "tear.py", mode, seconds)
			p, tr := r.main(t)
			report(t, checkTotals(p, tr))
			report(t, checkEdges(p, tr))
			report(t, near("cpu of "+mode, p.cpu(in(mode)), tr.Functions[mode].CPU, 0.03, tick))
			checkTorn(t, r)
		})
	}
}

func checkTorn(t *testing.T, r *result) {
	t.Helper()
	c := r.counts(t)
	t.Logf("%+v", c)
	if c.samples < 500 {
		t.Errorf("%d samples are too few to say anything", c.samples)
	}
	if c.torn*100 >= c.samples {
		t.Errorf("%d of %d samples are torn", c.torn, c.samples)
	}
	if c.givenUp*100 >= c.samples {
		t.Errorf("%d of %d samples were given up", c.givenUp, c.samples)
	}
}

// Rejecting stacks that changed while they were read would favour slow code:
// the shares of tiny functions show that it does not.
func TestTinyLeaves(t *testing.T) {
	r := run(t, options{interval: "1ms"}, "leaves.py", "4")
	p, tr := r.main(t)
	report(t, checkEdges(p, tr))
	report(t, checkSelf(p, tr, "caller", 0.1))
	checkTorn(t, r)
}
