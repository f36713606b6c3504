//go:build linux

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

const tick = 10e6 // the default interval

func TestRatio(t *testing.T) {
	repeat(t, func(m *trial) {
		r := run(t, options{}, "ratio.py", "4")
		p, tr := r.main(t)
		m.measured(checkTotals(p, tr))
		for name, f := range tr.Functions {
			m.measured(checkShare(p, tr, name, in(name), f.CPU, 0.03))
		}
		// The sleeper has its lifetime, and the CPU of its birth at most.
		thread := labelled("thread_name", "sleeper")
		m.measured(near("wall of the sleeper", p.wall(thread), tr.Threads["sleeper"].Wall, 0.03, tick))
		if cpu, most := p.cpu(thread), tr.Threads["sleeper"].CPU+2e6; cpu > most {
			m.add("the sleeper has %.2f ms cpu, true %.2f ms", ms(cpu), ms(tr.Threads["sleeper"].CPU))
		}
		if wall := p.wall(both(thread, at("sleeper"))); wall < tr.Threads["sleeper"].Wall*9/10 {
			m.add("only %.1f ms wall where the sleeper sleeps", ms(wall))
		}
		for i := range p.samples {
			s := &p.samples[i]
			if thread(s) && s.labels["thread_id"] != fmt.Sprint(tr.Threads["sleeper"].Ident) {
				t.Errorf("the sleeper's ident is %d: %s", tr.Threads["sleeper"].Ident, s.where())
			}
			if linked(s) {
				t.Errorf("no span exists: %s", s.where())
			}
		}
		if c := r.counts(t); c.samples == 0 {
			t.Error("the last line counts no samples")
		}
	})
}

func TestLines(t *testing.T) {
	repeat(t, func(m *trial) {
		p, tr := run(t, options{interval: "2ms"}, "lines.py").main(t)
		for name, f := range tr.Functions {
			m.measured(checkLines(p, name, f, 0.98))
		}
		for i := range p.samples {
			for _, f := range p.samples[i].stack {
				if _, own := tr.Functions[f.function]; own && f.file != tr.File {
					t.Errorf("%s is in %s, not %s", f.function, f.file, tr.File)
				}
			}
		}
	})
}

func TestBursts(t *testing.T) {
	heavy(t)
	for _, tt := range []struct{ burst, pause, seconds string }{
		{"1", "1", "10"},
		{"3", "3", "10"},
		{"50", "60", "8"},
	} {
		t.Run(tt.burst+"ms", func(t *testing.T) {
			repeat(t, func(m *trial) {
				p, tr := run(t, options{}, "burst.py", tt.burst, tt.pause, tt.seconds).main(t)
				m.measured(checkTotals(p, tr))
				for name, f := range tr.Functions {
					m.measured(checkShare(p, tr, name, in(name), f.CPU, bound(float64(f.CPU)/float64(tr.CPU), tr.CPU, tick)))
				}
				for id, s := range tr.Spans {
					// Starting a burst and going to sleep are the span's too.
					allowed := bound(float64(s.CPU)/float64(tr.CPU), tr.CPU, tick)
					m.measured(checkShare(p, tr, "span "+s.Name, both(labelled("active_span_id", id), in("burn")), s.CPU, allowed))
				}
				report(t, checkSpans(p, tr))
			})
		})
	}
}

func TestTwoThreads(t *testing.T) {
	repeat(t, func(m *trial) {
		p, tr := run(t, options{}, "two_threads.py", "0.8").main(t)
		m.measured(checkTotals(p, tr))
		m.measured(checkThreads(p, tr))
		m.measured(near("cpu of double()", p.cpu(in("double")), tr.Threads["double"].CPU, 0.03, tick))
		m.measured(near("cpu of single()", p.cpu(in("single")), tr.Threads["single"].CPU, 0.03, 2*tick))
		for _, name := range []string{"double", "single"} {
			other := map[string]string{"double": "single", "single": "double"}[name]
			if cpu := p.cpu(both(in(name), labelled("thread_name", other))); cpu != 0 {
				t.Errorf("%s() has %.1f ms on the other thread", name, ms(cpu))
			}
		}
	})
}

func TestNativeLeaf(t *testing.T) {
	repeat(t, func(m *trial) {
		p, tr := run(t, options{interval: "2ms"}, "native_leaf.py").main(t)
		m.measured(checkTotals(p, tr))
		for name, f := range tr.Functions {
			if name == "napping" {
				m.measured(near("wall of napping", p.wall(at(name)), f.Wall, 0.05, tick))
				if cpu := p.cpu(at(name)); cpu > f.CPU+5e6 {
					m.add("napping has %.1f ms cpu, true %.1f ms", ms(cpu), ms(f.CPU))
				}
				continue
			}
			m.measured(checkLines(p, name, f, 0.97))
		}
	})
}

func TestNativeThread(t *testing.T) {
	repeat(t, func(m *trial) {
		p, tr := run(t, options{}, "native_thread.py").main(t)
		m.measured(checkTotals(p, tr))
		m.measured(near("cpu of the native thread", p.cpu(in("[native thread]")), tr.Native, 0.1, 2*tick))
		m.measured(near("cpu of burn", p.cpu(in("burn")), 300e6, 0.1, tick))
	})
}

// A process that lives 200 ms has samples, the first within 100 ms.
func TestShortLife(t *testing.T) {
	repeat(t, func(m *trial) {
		var startups []int64
		for range 5 {
			p, tr := run(t, options{}, "short.py", "0.2").main(t)
			m.measured(checkTotals(p, tr))
			f := tr.Functions["brief"]
			if cpu := p.cpu(in("brief")); cpu < f.CPU/2 {
				m.add("brief has %.1f ms cpu, true %.1f ms", ms(cpu), ms(f.CPU))
			}
			startups = append(startups, p.wall(both(in("[startup]"), labelled("thread_id", fmt.Sprint(tr.MainIdent)))))
		}
		slices.Sort(startups)
		if median := startups[2]; median > 100e6 {
			m.add("the first sample comes after %.1f ms; all: %v", ms(median), startups)
		}
	})
}

func TestProcesses(t *testing.T) {
	for _, how := range []string{"fork", "subprocess", "spawn", "forkserver"} {
		t.Run(how, func(t *testing.T) {
			if how == "forkserver" {
				heavy(t)
			}
			repeat(t, func(m *trial) {
				r := run(t, options{}, "processes.py", how)
				roles := map[string]bool{"parent_before": true, "first_child": true, "second_child": true}
				if len(r.truths) != len(roles) {
					t.Fatalf("%d processes told about themselves", len(r.truths))
				}
				for pid, tr := range r.truths {
					p := r.profiles[pid]
					if p == nil {
						t.Errorf("%s (pid %d) has no profile, only %v have", tr.Role, pid, keys(r.profiles))
						continue
					}
					m.measured(near("cpu of "+tr.Role, p.cpu(all), tr.CPU, 0.03, afterwards))
					m.measured(near("cpu of "+tr.Role+"()", p.cpu(in(tr.Role)), tr.Functions[tr.Role].CPU, 0.05, 2*tick))
					for role := range roles {
						if cpu := p.cpu(in(role)); role != tr.Role && cpu != 0 {
							t.Errorf("%s has %.1f ms of %s", tr.Role, ms(cpu), role)
						}
					}
				}
			})
		})
	}
}

// A program that exec replaces by Python is profiled anew, from there on.
func TestExec(t *testing.T) {
	repeat(t, func(m *trial) {
		p, tr := run(t, options{}, "execs.py", "0").main(t)
		m.measured(near("cpu of the process", p.cpu(all), tr.CPU, 0.03, afterwards))
		for _, name := range []string{"stage_0", "stage_1", "stage_2"} {
			m.measured(near("cpu of "+name, p.cpu(in(name)), 200e6, 0.1, tick))
		}
	})
}

// Several windows together say the same as one.
func TestWindows(t *testing.T) {
	repeat(t, func(m *trial) {
		p, tr := run(t, options{export: "1s"}, "windows.py").main(t)
		m.measured(checkTotals(p, tr))
		for name, f := range tr.Functions {
			m.measured(near("cpu of "+name, p.cpu(in(name)), f.CPU, 0.05, tick))
		}
		if len(p.windows) < 3 {
			t.Errorf("%d windows in 3.5 s", len(p.windows))
		}
		for i, w := range p.windows {
			if w.seconds > 2 {
				t.Errorf("window %d lasts %.1f s", w.number, w.seconds)
			}
			if i == 0 {
				continue
			}
			if before := p.windows[i-1]; w.start <= before.start || w.start < before.start+before.seconds-0.01 {
				t.Errorf("window %d starts at %f, the one before at %f and lasts %f s", w.number, w.start, before.start, before.seconds)
			}
		}
	})
}

// Whatever is between spanflame and the interpreter, the interpreter is found.
func TestFindsPython(t *testing.T) {
	for name, wrap := range map[string][]string{
		"env":        {"env"},
		"sh":         {"sh", "-c", `"$0" "$@"; exit $?`},
		"sh exec":    {"sh", "-c", `exec "$0" "$@"`},
		"timeout":    {"timeout", "60"},
		"background": {"sh", "-c", `"$0" "$@" & wait $!`},
	} {
		t.Run(name, func(t *testing.T) {
			repeat(t, func(m *trial) {
				p, tr := run(t, options{inside: wrap}, "plain.py").main(t)
				m.measured(near("cpu of spin", p.cpu(in("spin")), tr.Functions["spin"].CPU, 0.05, tick))
				if !strings.HasSuffix(tr.File, "plain.py") {
					t.Error(tr.File)
				}
			})
		})
	}
}
