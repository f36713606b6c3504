//go:build linux

package e2e

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// The checks return what is wrong, so that helper_test.go can show that each
// of them finds a wrong profile.

var (
	hex32   = regexp.MustCompile(`^[0-9a-f]{32}$`)
	hex16   = regexp.MustCompile(`^[0-9a-f]{16}$`)
	decimal = regexp.MustCompile(`^[1-9][0-9]*$`)
	labels  = map[string]*regexp.Regexp{
		"trace_id": hex32, "span_id": hex16, "active_span_id": hex16, "span_name": regexp.MustCompile(`(?s).`),
		"thread_id": decimal, "native_thread_id": decimal, "thread_name": regexp.MustCompile(`(?s).`),
	}
)

// checkShape holds for every file, whatever was profiled.
func checkShape(p *profile.Profile) (problems []string) {
	bad := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if err := p.CheckValid(); err != nil {
		bad("invalid: %v", err)
	}
	var types []string
	for _, v := range p.SampleType {
		types = append(types, v.Type+"/"+v.Unit)
	}
	for _, want := range []string{"cpu/nanoseconds", "wall/nanoseconds"} {
		if !slices.Contains(types, want) {
			bad("sample types are %v, without %s", types, want)
		}
	}
	if p.DefaultSampleType != "cpu" {
		bad("default sample type is %q", p.DefaultSampleType)
	}
	if p.TimeNanos <= 0 || p.DurationNanos <= 0 {
		bad("time %d, duration %d", p.TimeNanos, p.DurationNanos)
	}
	for i, s := range p.Sample {
		if len(s.Location) == 0 {
			bad("sample %d has no stack", i)
		}
		sum := int64(0)
		for _, v := range s.Value {
			if v < 0 {
				bad("sample %d has value %d", i, v)
			}
			sum += v
		}
		if sum == 0 {
			bad("sample %d has only zeros", i)
		}
		for _, l := range s.Location {
			if len(l.Line) == 0 || l.Line[0].Function == nil || l.Line[0].Function.Name == "" {
				bad("sample %d has a location without a function", i)
				continue
			}
			f := l.Line[0].Function
			if synthetic := strings.HasPrefix(f.Name, "["); !synthetic && (f.Filename == "" || f.StartLine < 0 || l.Line[0].Line < 0) {
				bad("sample %d: %s is in %q, first line %d, line %d", i, f.Name, f.Filename, f.StartLine, l.Line[0].Line)
			}
		}
		for key, values := range s.Label {
			if shape := labels[key]; shape != nil && (len(values) != 1 || !shape.MatchString(values[0])) {
				bad("sample %d: label %s is %q", i, key, values)
			}
		}
		if len(s.NumLabel) > 0 {
			bad("sample %d has numeric labels %v", i, s.NumLabel)
		}
		if s.Label["trace_id"] == nil && (s.Label["span_id"] != nil || s.Label["active_span_id"] != nil || s.Label["span_name"] != nil) {
			bad("sample %d has a span without its trace: %v", i, s.Label)
		}
		if s.Label["trace_id"] != nil && s.Label["span_id"] == nil && s.Label["active_span_id"] == nil {
			bad("sample %d has a trace without a span: %v", i, s.Label)
		}
	}
	return problems
}

// near reports when got is further from want than a part of want plus slack.
func near(what string, got, want int64, part float64, slack int64) []string {
	allowed := part*float64(want) + float64(slack)
	if math.Abs(float64(got-want)) <= allowed {
		return nil
	}
	return []string{fmt.Sprintf("%s is %.1f ms, true %.1f ms, allowed to differ by %.1f ms", what, ms(got), ms(want), allowed/1e6)}
}

func ms(ns int64) float64 { return float64(ns) / 1e6 }

// afterwards is the CPU and wall time of a process that its own account, made
// shortly before its end, cannot hold.
const afterwards = 25e6

// checkTotals compares the sums with the process's own clocks.
func checkTotals(p *prof, tr *truth) []string {
	return append(near("cpu of the process", p.cpu(all), tr.CPU, 0.03, afterwards),
		near("wall of the main thread", p.wall(labelled("thread_id", fmt.Sprint(tr.MainIdent))), tr.Wall, 0.03, afterwards)...)
}

// checkThreads compares each thread with its own clock and lifetime.
func checkThreads(p *prof, tr *truth) (problems []string) {
	for name, thread := range tr.Threads {
		m := labelled("thread_name", name)
		problems = append(problems, near("wall of thread "+name, p.wall(m), thread.Wall, 0.03, 10e6)...)
		problems = append(problems, near("cpu of thread "+name, p.cpu(m), thread.CPU, 0.03, 5e6)...)
		for i := range p.samples {
			s := &p.samples[i]
			if m(s) && (s.labels["thread_id"] != fmt.Sprint(thread.Ident) || s.labels["native_thread_id"] != fmt.Sprint(thread.Native)) {
				problems = append(problems, fmt.Sprintf("thread %s is %d (native %d): %s", name, thread.Ident, thread.Native, s.where()))
			}
		}
	}
	return problems
}

// bound is how far, in shares, a sampler that meets the burning thread every
// interval of its CPU may be off: four standard deviations of a binomial with
// that many draws, and half a point for what is not random.
func bound(share float64, cpu, interval int64) float64 {
	n := float64(cpu) / float64(interval)
	return 4*math.Sqrt(share*(1-share)/n) + 0.005
}

// checkShare compares a part of the process's CPU with its true share.
func checkShare(p *prof, tr *truth, what string, m match, cpu int64, allowed float64) []string {
	got, want := float64(p.cpu(m))/float64(p.cpu(all)), float64(cpu)/float64(tr.CPU)
	if math.Abs(got-want) <= allowed { // false for NaN
		return nil
	}
	return []string{fmt.Sprintf("%s has %.1f %% of the cpu, true %.1f %%, allowed to differ by %.1f points", what, 100*got, 100*want, 100*allowed)}
}

// workers are the functions that tell one span from another.
func (tr *truth) workers() map[string]bool {
	set := map[string]bool{}
	for _, span := range tr.Spans {
		for _, f := range span.Functions {
			set[f] = true
		}
	}
	return set
}

func linked(s *sample) bool {
	return s.labels["trace_id"] != "" || s.labels["span_id"] != "" || s.labels["active_span_id"] != "" || s.labels["span_name"] != ""
}

// checkSpans wants that no sample is on a span that was not running and that
// the ids belong together.
//
// A sample on a span whose stack holds no worker at all is right for the few
// microseconds in which an event loop has entered the task's context but not
// its code, or runs a timer of it: a fiftieth of the time at most.
func checkSpans(p *prof, tr *truth) (problems []string) {
	workers := tr.workers()
	var strayCPU, strayWall int64
	var stray *sample
	for i := range p.samples {
		s := &p.samples[i]
		if !linked(s) {
			continue
		}
		id := or(s.labels["active_span_id"], s.labels["span_id"])
		span, known := tr.Spans[id]
		switch worker := s.innermost(workers); {
		case !known:
			problems = append(problems, "a span that the program did not have: "+s.where())
		case s.labels["trace_id"] != span.Trace || s.labels["span_id"] != span.Root:
			problems = append(problems, fmt.Sprintf("trace is %s, local root %s: %s", span.Trace, span.Root, s.where()))
		case s.labels["span_name"] != tr.Spans[span.Root].Name && tr.Spans[span.Root].Name != "":
			problems = append(problems, fmt.Sprintf("local root is named %q: %s", tr.Spans[span.Root].Name, s.where()))
		case worker == "":
			strayCPU += s.cpu
			strayWall += s.wall
			stray = s
		case !slices.Contains(span.Functions, worker):
			problems = append(problems, fmt.Sprintf("span %s of %v on another's worker: %s", id, span.Functions, s.where()))
		}
	}
	if stray != nil && (strayCPU > tr.CPU/50 || strayWall > tr.Wall/50) {
		problems = append(problems, fmt.Sprintf("%.1f ms cpu, %.1f ms wall on spans that were not running, such as %s", ms(strayCPU), ms(strayWall), stray.where()))
	}
	return problems
}

// checkSpanCPU wants each span's cpu within a part of the truth.
func checkSpanCPU(p *prof, tr *truth, part float64, slack int64) (problems []string) {
	for id, span := range tr.Spans {
		if span.CPU == 0 {
			continue
		}
		problems = append(problems, near("cpu of span "+span.Name, p.cpu(labelled("active_span_id", id)), span.CPU, part, slack)...)
	}
	return problems
}

// checkWorkersLinked wants 95 % of the cpu of the spans' workers linked to
// something.
func checkWorkersLinked(p *prof, tr *truth) (problems []string) {
	workers := tr.workers()
	inside := p.cpu(func(s *sample) bool { return s.innermost(workers) != "" })
	missing := p.cpu(func(s *sample) bool { return s.innermost(workers) != "" && !linked(s) })
	if inside == 0 || missing*20 > inside {
		problems = append(problems, fmt.Sprintf("%.1f of %.1f ms cpu inside spans has no link", ms(missing), ms(inside)))
	}
	return problems
}

// checkLinks compares the samples of each function with the link it is to have.
func checkLinks(p *prof, tr *truth) (problems []string) {
	functions := map[string]bool{}
	for f := range tr.Links {
		functions[f] = true
	}
	total, missing := map[string]int64{}, map[string]int64{}
	for i := range p.samples {
		s := &p.samples[i]
		f := s.innermost(functions)
		if f == "" {
			continue
		}
		total[f] += s.cpu
		want := tr.Links[f]
		switch {
		case !linked(s):
			missing[f] += s.cpu
		case want == nil:
			problems = append(problems, f+" is to have no link: "+s.where())
		case s.labels["trace_id"] != want.Trace || s.labels["span_id"] != want.Root || s.labels["span_name"] != want.Name ||
			s.labels["active_span_id"] != want.Span:
			problems = append(problems, fmt.Sprintf("%s is to have %+v: %s", f, *want, s.where()))
		}
	}
	for f, want := range tr.Links {
		if total[f] == 0 {
			problems = append(problems, f+" was never seen")
		}
		if want != nil && missing[f]*20 > total[f] {
			problems = append(problems, fmt.Sprintf("%.1f of %.1f ms cpu of %s has no link", ms(missing[f]), ms(total[f]), f))
		}
	}
	return problems
}

// checkEdges wants no caller and callee next to each other that the program
// does not have, and every stack of its functions whole down to the module.
func checkEdges(p *prof, tr *truth) (problems []string) {
	edges, nodes := map[[2]string]bool{}, map[string]bool{}
	for _, e := range tr.Edges {
		edges[e] = true
		nodes[e[1]] = true
	}
	for i := range p.samples {
		s := &p.samples[i]
		inner := slices.IndexFunc(s.stack, func(f frame) bool { return f.file == tr.File && nodes[f.function] })
		if inner < 0 {
			continue
		}
		for j := inner; j+1 < len(s.stack); j++ {
			callee, caller := s.stack[j], s.stack[j+1]
			cut := strings.HasPrefix(callee.function, "[") || strings.HasPrefix(caller.function, "[")
			if !cut && !edges[[2]string{caller.function, callee.function}] {
				problems = append(problems, fmt.Sprintf("%s does not call %s: %s", caller.function, callee.function, s.where()))
				break
			}
		}
		if root := s.stack[len(s.stack)-1]; root.function != "<module>" || root.file != tr.File {
			problems = append(problems, fmt.Sprintf("the stack ends at %s: %s", root.function, s.where()))
		}
	}
	return problems
}

// checkSelf compares the self time of leaves, as shares of their caller, with
// the two figures between which the truth lies.
func checkSelf(p *prof, tr *truth, caller string, allowed float64) (problems []string) {
	whole := p.cpu(in(caller))
	for name, between := range tr.Shares {
		got := float64(p.cpu(both(in(caller), at(name)))) / float64(whole)
		if !(got >= between[0]-allowed && got <= between[1]+allowed) {
			problems = append(problems, fmt.Sprintf("%s has %.1f %% of %s, true %.1f to %.1f %%", name, 100*got, caller, 100*between[0], 100*between[1]))
		}
	}
	return problems
}

// checkLines wants a function's cpu on its burning line and its first line right.
func checkLines(p *prof, name string, f functionTruth, part float64) (problems []string) {
	byLine, first := p.lines(name)
	var total int64
	for _, cpu := range byLine {
		total += cpu
	}
	problems = near("cpu of "+name, total, f.CPU, 0.15, 10e6)
	if f.First != 0 && first != f.First {
		problems = append(problems, fmt.Sprintf("%s starts at line %d, true %d", name, first, f.First))
	}
	if total > 0 && float64(byLine[f.Line]) < part*float64(total) {
		problems = append(problems, fmt.Sprintf("%s burns on line %d, seen %v", name, f.Line, byLine))
	}
	return problems
}
