//go:build linux

package e2e

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Each span's CPU is within 10 % of the truth. A burst of L ms that a sampler
// meets every 2 ms is measured with a deviation of about 1.2 ms (two edges and
// the jitter); twelve bursts of 20 ms, the least that a span has here, give
// 1.7 %, so that 10 % is nearly six deviations.
func TestTwentyTasks(t *testing.T) {
	heavy(t)
	for _, loop := range []string{"asyncio", "uvloop"} {
		t.Run(loop, func(t *testing.T) {
			repeat(t, func(m *trial) {
				p, tr := run(t, options{interval: "2ms"}, "tasks.py", loop, "gather", "20", "12", "20", "10").main(t)
				m.measured(checkTotals(p, tr))
				report(t, checkSpans(p, tr))
				m.measured(checkSpanCPU(p, tr, 0.1, 0))
				m.measured(checkWorkersLinked(p, tr))
			})
		})
	}
}

// C01, C02: 8 tasks that burn 20 ms and let the others go on, at 100 Hz.
func TestInterleavedTasks(t *testing.T) {
	for _, tt := range []struct{ loop, how string }{
		{"asyncio", "gather"},
		{"asyncio", "taskgroup"},
		{"uvloop", "taskgroup"},
		{"uvloop", "runner"},
		{"asyncio", "thread"},
		{"uvloop", "thread"},
	} {
		t.Run(tt.loop+" "+tt.how, func(t *testing.T) {
			if tt.how == "taskgroup" || tt.loop+tt.how == "asynciothread" {
				heavy(t)
			}
			repeat(t, func(m *trial) {
				p, tr := run(t, options{}, "tasks.py", tt.loop, tt.how, "8", "16", "20", "0").main(t)
				report(t, checkSpans(p, tr))
				// 16 bursts at 10 ms: a deviation of 7 %. This is about wrong spans, not shares.
				m.measured(checkSpanCPU(p, tr, 0.35, 0))
				m.measured(checkWorkersLinked(p, tr))
			})
		})
	}
}

// Bursts far below the interval: most samples fall near a switch.
func TestFastSwitching(t *testing.T) {
	heavy(t)
	for _, loop := range []string{"asyncio", "uvloop"} {
		t.Run(loop, func(t *testing.T) {
			repeat(t, func(m *trial) {
				p, tr := run(t, options{interval: "1ms"}, "tasks.py", loop, "gather", "8", "2500", "0.2", "0").main(t)
				report(t, checkSpans(p, tr))
				// At most 1.8 s in 10 ms of CPU a span: some 500 draws, 4 deviations are 18 %.
				m.measured(checkSpanCPU(p, tr, 0.25, 0))
				m.measured(checkWorkersLinked(p, tr))
			})
		})
	}
}

func TestSpanThreads(t *testing.T) {
	repeat(t, func(m *trial) {
		p, tr := run(t, options{}, "span_threads.py", "0.25").main(t)
		m.measured(checkTotals(p, tr))
		m.measured(checkThreads(p, tr))
		report(t, checkSpans(p, tr))
		m.measured(checkSpanCPU(p, tr, 0.1, tick))
		m.measured(checkWorkersLinked(p, tr))
	})
}

func TestGreenlets(t *testing.T) {
	repeat(t, func(m *trial) {
		p, tr := run(t, options{interval: "2ms"}, "greenlets.py", "20", "15", "12").main(t)
		report(t, checkSpans(p, tr))
		// The least are 15 bursts of 12 ms: a deviation of 2.6 %.
		m.measured(checkSpanCPU(p, tr, 0.1, 2e6))
		m.measured(checkWorkersLinked(p, tr))
	})
}

// What the program itself asked OpenTelemetry is what its samples say: C03,
// C06, C08 and the rest of the rules for who is linked to what.
func TestLinks(t *testing.T) {
	for _, tt := range []struct {
		program string
		cpu     float64 // how near each span's cpu has to be
	}{
		{"ended_elsewhere.py", 0.15},
		{"children.py", 0.15},
		{"handover.py", 0.2},
		{"unlinked.py", 0.2},
	} {
		t.Run(tt.program, func(t *testing.T) {
			repeat(t, func(m *trial) {
				p, tr := run(t, options{interval: "2ms"}, tt.program).main(t)
				report(t, checkLinks(p, tr))
				report(t, checkSpans(p, tr))
				m.measured(checkSpanCPU(p, tr, tt.cpu, 4e6))
				report(t, checkAttributes(tr))
			})
		})
	}
}

// checkAttributes wants pyroscope.profile.id on local roots and nowhere else.
func checkAttributes(tr *truth) (problems []string) {
	for id, span := range tr.Spans {
		want := ""
		if span.Root == id {
			want = id
		}
		if span.Attribute != want {
			problems = append(problems, "span "+span.Name+" has pyroscope.profile.id "+span.Attribute+", not "+want)
		}
	}
	return problems
}

func TestCheckAttributes(t *testing.T) {
	tr := &truth{Spans: map[string]spanTruth{
		spanA: {Root: spanA, Attribute: spanA}, spanB: {Root: spanA},
	}}
	report(t, checkAttributes(tr))
	for _, span := range []spanTruth{{Root: spanA, Attribute: spanA}, {Root: spanB}} {
		tr.Spans[spanB] = span
		if checkAttributes(tr) == nil {
			t.Errorf("%+v is right?", span)
		}
	}
}

// C04: names are the final ones, and a span that is over leaves nothing behind.
func TestRename(t *testing.T) {
	p, tr := run(t, options{interval: "2ms"}, "rename.py").main(t)
	report(t, checkLinks(p, tr))
	report(t, checkSpans(p, tr))
	names, seen := map[string]bool{}, map[string]bool{}
	for i := range p.samples {
		s := &p.samples[i]
		if linked(s) {
			names[s.labels["span_name"]] = true
			seen[s.labels["span_id"]] = true
		}
	}
	if names["renamed child"] || names["child"] {
		t.Error("a child's name stands for the local root's")
	}
	if len(names) > 400 {
		t.Errorf("%d names, the program had 241 at most", len(names))
	}
	if len(seen) < 300 {
		t.Errorf("only %d of 1000 requests were seen", len(seen))
	}
}

func TestSpanProcesses(t *testing.T) {
	repeat(t, func(m *trial) {
		r := run(t, options{interval: "2ms"}, "span_processes.py")
		if len(r.truths) != 2 {
			t.Fatalf("%d processes", len(r.truths))
		}
		for pid, tr := range r.truths {
			p := r.profiles[pid]
			if p == nil {
				t.Errorf("pid %d has no profile", pid)
				continue
			}
			report(t, checkLinks(p, tr))
			report(t, checkSpans(p, tr))
			m.measured(checkSpanCPU(p, tr, 0.1, 4e6))
			m.measured(checkWorkersLinked(p, tr))
		}
	})
}

// opentelemetry-instrument uses the same door as our shim: inside and outside of us.
func TestInstrument(t *testing.T) {
	instrument := filepath.Join(filepath.Dir(python(t)), "opentelemetry-instrument")
	env := []string{"OTEL_TRACES_EXPORTER=none", "OTEL_METRICS_EXPORTER=none", "OTEL_LOGS_EXPORTER=none", "OTEL_SERVICE_NAME=web"}
	for name, o := range map[string]options{
		"inside":  {inside: []string{instrument}, env: env},
		"outside": {outside: []string{instrument}, env: env},
	} {
		t.Run(name, func(t *testing.T) {
			repeat(t, func(m *trial) {
				r := run(t, o, "web.py")
				p, tr := r.main(t)
				if tr.Provider != "opentelemetry.sdk.trace.TracerProvider" {
					t.Fatalf("the tracer provider is %s", tr.Provider)
				}
				if !slices.ContainsFunc(tr.Modules, func(m string) bool { return strings.HasPrefix(m, "opentelemetry.instrumentation.auto_instrumentation") }) {
					t.Errorf("instrumentation did not load: %v", tr.Modules)
				}
				report(t, checkLinks(p, tr))
				report(t, checkSpans(p, tr))
				m.measured(checkSpanCPU(p, tr, 0.15, tick))
				m.measured(checkWorkersLinked(p, tr))
				report(t, checkAttributes(tr))
			})
		})
	}
}

// Where no shim can load, stacks are there, and the exact span if it can be found.
func TestIsolated(t *testing.T) {
	for _, flag := range []string{"-I", "-E"} {
		t.Run(flag, func(t *testing.T) {
			repeat(t, func(m *trial) {
				p, tr := run(t, options{python: []string{python(t), flag}}, "isolated.py").main(t)
				if tr.Shim {
					t.Error("the shim loaded all the same")
				}
				inside := in("inside")
				m.measured(near("cpu of inside", p.cpu(inside), tr.Links["inside"].cpuOf(tr), 0.1, tick))
				linkedCPU := p.cpu(both(inside, labelled("active_span_id", tr.Links["inside"].Span)))
				if linkedCPU*20 < p.cpu(inside)*19 {
					m.add("%.1f of %.1f ms are linked", ms(linkedCPU), ms(p.cpu(inside)))
				}
				for i := range p.samples {
					s := &p.samples[i]
					if linked(s) && (s.labels["active_span_id"] != tr.Links["inside"].Span || s.labels["trace_id"] != tr.Links["inside"].Trace) {
						t.Errorf("not the only span: %s", s.where())
					}
					// Without our mark the local root is not known, and not guessed.
					if s.labels["span_id"] != "" {
						t.Errorf("a local root was guessed: %s", s.where())
					}
				}
			})
		})
	}
}

func (l *linkTruth) cpuOf(tr *truth) int64 { return tr.Spans[l.Span].CPU }

// C28: with the oldest OpenTelemetry that is supported, spans are linked and
// marked all the same.
func TestOldestOpenTelemetry(t *testing.T) {
	old, err := testenv("old")
	if err != nil {
		unavailable(t, "no Python with old packages: %v", err)
	}
	for _, program := range []string{"children.py", "ended_elsewhere.py"} {
		t.Run(program, func(t *testing.T) {
			repeat(t, func(m *trial) {
				p, tr := run(t, options{interval: "2ms", python: []string{old}}, program).main(t)
				report(t, checkLinks(p, tr))
				report(t, checkSpans(p, tr))
				m.measured(checkSpanCPU(p, tr, 0.15, 4e6))
				report(t, checkAttributes(tr))
			})
		})
	}
}
