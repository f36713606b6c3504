//go:build linux

package e2e

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// The files are read by the tool that people have.
func TestGoToolPprof(t *testing.T) {
	p, tr := run(t, options{}, "tasks.py", "asyncio", "gather", "4", "8", "20", "0").main(t)
	file := p.windows[0].file
	for name, tt := range map[string]struct {
		args []string
		want []string
	}{
		"top":      {[]string{"-top"}, []string{`(?m)^Type: cpu$`, `(?m)^\s*\S+s\s+\S+%.*\bburn\b`, `\bworker_00\b`}},
		"wall":     {[]string{"-top", "-sample_index=wall"}, []string{`(?m)^Type: wall$`, `\bburn\b`}},
		"tags":     {[]string{"-tags"}, []string{`trace_id: Total`, `span_id: Total`, `span_name: Total`, `active_span_id: Total`, `thread_id: Total`, `thread_name: Total`, `native_thread_id: Total`, `span-worker_03`, "MainThread"}},
		"list":     {[]string{"-peek", "^burn$"}, []string{`worker_02`}},
		"one span": {[]string{"-top", "-tagfocus=span_name=span-worker_01"}, []string{`\bworker_01\b`}},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := exec.Command("go", append(append([]string{"tool", "pprof"}, tt.args...), file)...).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for _, want := range tt.want {
				if !regexp.MustCompile(want).Match(out) {
					t.Errorf("no %s in\n%s", want, out)
				}
			}
			if name == "one span" && strings.Contains(string(out), "worker_00") {
				t.Errorf("another span's worker in\n%s", out)
			}
		})
	}
	for _, span := range tr.Spans {
		if p.cpu(labelled("span_name", span.Name)) == 0 {
			t.Errorf("%s is not there", span.Name)
		}
	}
}
