//go:build linux

package e2e

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

// maker builds pprof profiles by hand.
type maker struct {
	raw       *profile.Profile
	functions map[frame]*profile.Location
}

func newMaker() *maker {
	ns := func(name string) *profile.ValueType { return &profile.ValueType{Type: name, Unit: "nanoseconds"} }
	return &maker{
		raw: &profile.Profile{
			SampleType: []*profile.ValueType{ns("cpu"), ns("wall")}, DefaultSampleType: "cpu",
			PeriodType: ns("cpu"), Period: 1e7, TimeNanos: 1, DurationNanos: 1,
		},
		functions: map[frame]*profile.Location{},
	}
}

// add adds a sample; frames are leaf first, as NAME or NAME:LINE:FIRST.
func (m *maker) add(cpu, wall int64, labels map[string]string, frames ...string) {
	s := &profile.Sample{Value: []int64{cpu, wall}, Label: map[string][]string{}}
	for k, v := range labels {
		s.Label[k] = []string{v}
	}
	for _, text := range frames {
		f := frame{file: "/x.py", line: 1, first: 1}
		f.function, _, _ = strings.Cut(text, ":")
		if _, numbers, ok := strings.Cut(text, ":"); ok {
			fmt.Sscanf(numbers, "%d:%d", &f.line, &f.first)
		}
		l := m.functions[f]
		if l == nil {
			id := uint64(len(m.raw.Function) + 1)
			fn := &profile.Function{ID: id, Name: f.function, Filename: f.file, StartLine: f.first}
			l = &profile.Location{ID: id, Line: []profile.Line{{Function: fn, Line: f.line}}}
			m.raw.Function = append(m.raw.Function, fn)
			m.raw.Location = append(m.raw.Location, l)
			m.functions[f] = l
		}
		s.Location = append(s.Location, l)
	}
	m.raw.Sample = append(m.raw.Sample, s)
}

// prof sends the profile through files, as tests get it.
func (m *maker) prof(t *testing.T) (*prof, []string) {
	t.Helper()
	var b bytes.Buffer
	if err := m.raw.Write(&b); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "p.42.0.pprof"), b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	profiles, problems, err := readProfiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	return profiles[42], problems
}

const (
	traceA, traceB = "0af7651916cd43dd8448eb211c80319c", "1af7651916cd43dd8448eb211c80319c"
	spanA, spanB   = "b7ad6b7169203331", "c7ad6b7169203331"
)

func labelsOf(trace, root, name, active string) map[string]string {
	return map[string]string{
		"trace_id": trace, "span_id": root, "span_name": name, "active_span_id": active,
		"thread_id": "7", "thread_name": "MainThread", "native_thread_id": "42",
	}
}

var (
	inA  = labelsOf(traceA, spanA, "a", spanA)
	inB  = labelsOf(traceB, spanB, "b", spanB)
	none = map[string]string{"thread_id": "7", "thread_name": "MainThread", "native_thread_id": "42"}
)

func exampleTruth() *truth {
	return &truth{
		PID: 42, File: "/x.py", MainIdent: 7, CPU: 1000e6, Wall: 2000e6,
		Threads: map[string]threadTruth{"MainThread": {Ident: 7, Native: 42, Wall: 2000e6, CPU: 1000e6}},
		Spans: map[string]spanTruth{
			spanA: {Trace: traceA, Root: spanA, Name: "a", CPU: 600e6, Functions: []string{"work_a"}},
			spanB: {Trace: traceB, Root: spanB, Name: "b", CPU: 300e6, Functions: []string{"work_b"}},
		},
		Links: map[string]*linkTruth{
			"work_a": {Trace: traceA, Span: spanA, Root: spanA, Name: "a"},
			"plain":  nil,
		},
		Edges: [][2]string{
			{"<module>", "work_a"}, {"<module>", "work_b"}, {"work_a", "burn"}, {"work_b", "burn"}, {"<module>", "plain"},
		},
		Shares: map[string][2]float64{"burn": {0.95, 1}},
	}
}

// example is a profile that agrees with exampleTruth.
func example() *maker {
	m := newMaker()
	m.add(600e6, 600e6, inA, "burn", "work_a:5:3", "<module>")
	m.add(300e6, 300e6, inB, "burn", "work_b", "<module>")
	m.add(100e6, 1100e6, none, "plain", "<module>")
	return m
}

func allChecks(p *prof, tr *truth, shape []string) []string {
	return slices.Concat(shape, checkTotals(p, tr), checkThreads(p, tr), checkSpans(p, tr), checkSpanCPU(p, tr, 0.1, 0), checkWorkersLinked(p, tr),
		checkLinks(p, tr), checkEdges(p, tr), checkSelf(p, tr, "work_a", 0.01),
		checkShare(p, tr, "work_a", in("work_a"), 600e6, 0.03),
		checkLines(p, "work_a", functionTruth{CPU: 600e6, First: 3, Line: 5}, 0.9))
}

func TestChecksAcceptTheTruth(t *testing.T) {
	p, shape := example().prof(t)
	report(t, allChecks(p, exampleTruth(), shape))
}

func TestChecksFindWhatIsWrong(t *testing.T) {
	relabel := func(labels map[string]string, key, value string) map[string]string {
		labels = maps.Clone(labels)
		labels[key] = value
		if value == "" {
			delete(labels, key)
		}
		return labels
	}
	tests := map[string]struct {
		break_ func(*maker)
		want   string
	}{
		"too much cpu":                 {func(m *maker) { m.add(120e6, 1, none, "plain", "<module>") }, "cpu of the process"},
		"too little cpu":               {func(m *maker) { m.raw.Sample[0].Value[0] -= 120e6 }, "cpu of the process"},
		"too much wall":                {func(m *maker) { m.raw.Sample[2].Value[1] += 120e6 }, "wall of the main thread"},
		"too little thread wall":       {func(m *maker) { m.raw.Sample[2].Value[1] -= 120e6 }, "wall of thread MainThread"},
		"other thread id":              {func(m *maker) { m.add(1, 1, relabel(none, "thread_id", "8"), "plain", "<module>") }, "thread MainThread is 7"},
		"other native id":              {func(m *maker) { m.add(1, 1, relabel(none, "native_thread_id", "8"), "plain", "<module>") }, "thread MainThread is 7"},
		"one sample on another's span": {func(m *maker) { m.add(0, 1, inB, "burn", "work_a", "<module>") }, "on another's worker"},
		"one sample of an unknown span": {func(m *maker) {
			m.add(0, 1, labelsOf(traceA, spanA, "a", "00000000000000ff"), "burn", "work_a", "<module>")
		}, "did not have"},
		"idle under a span":         {func(m *maker) { m.add(0, 100e6, inA, "select", "<module>") }, "were not running"},
		"exact span as local root":  {func(m *maker) { m.add(0, 1, labelsOf(traceA, spanB, "a", spanA), "burn", "work_a", "<module>") }, "local root"},
		"other trace":               {func(m *maker) { m.add(0, 1, labelsOf(traceB, spanA, "a", spanA), "burn", "work_a", "<module>") }, "trace is"},
		"old name":                  {func(m *maker) { m.add(0, 1, labelsOf(traceA, spanA, "old", spanA), "burn", "work_a", "<module>") }, "is named"},
		"span cpu off":              {func(m *maker) { m.raw.Sample[1].Value[0] -= 40e6 }, "cpu of span b"},
		"links missing":             {func(m *maker) { m.raw.Sample[1].Label = nil }, "has no link"},
		"link on plain code":        {func(m *maker) { m.add(0, 1, inA, "plain", "<module>") }, "is to have no link"},
		"wrong exact span":          {func(m *maker) { m.add(0, 1, labelsOf(traceA, spanA, "a", spanB), "work_a", "<module>") }, "is to have"},
		"function never seen":       {func(m *maker) { m.raw.Sample = m.raw.Sample[:2] }, "plain was never seen"},
		"an edge that is not there": {func(m *maker) { m.add(0, 1, none, "burn", "<module>") }, "does not call"},
		"a foreign frame within":    {func(m *maker) { m.add(0, 1, none, "burn", "elsewhere", "work_a", "<module>") }, "does not call"},
		"root cut off":              {func(m *maker) { m.add(0, 1, inA, "burn", "work_a") }, "the stack ends at"},
		"self time at the caller":   {func(m *maker) { m.add(100e6, 1, inA, "work_a:5:3", "<module>") }, "of work_a, true"},
		"share off":                 {func(m *maker) { m.raw.Sample[0].Value[0] -= 60e6; m.raw.Sample[2].Value[0] += 60e6 }, "allowed to differ by 3.0 points"},
		"burning line":              {func(m *maker) { m.raw.Location[1].Line[0].Line = 6 }, "burns on line 5"},
		"first line":                {func(m *maker) { m.raw.Function[1].StartLine = 4 }, "starts at line 4"},
		"wrong default":             {func(m *maker) { m.raw.DefaultSampleType = "wall" }, "default sample type"},
		"no wall":                   {func(m *maker) { m.raw.SampleType[1].Type = "walk" }, "without wall/nanoseconds"},
		"short trace id":            {func(m *maker) { m.raw.Sample[0].Label["trace_id"] = []string{"ff"} }, "label trace_id"},
		"span without trace":        {func(m *maker) { delete(m.raw.Sample[0].Label, "trace_id") }, "without its trace"},
		"negative":                  {func(m *maker) { m.raw.Sample[0].Value[1] = -5 }, "has value -5"},
		"nothing":                   {func(m *maker) { m.add(0, 0, none, "plain", "<module>") }, "only zeros"},
		"no stack":                  {func(m *maker) { m.add(1, 1, none) }, "has no stack"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m := example()
			tt.break_(m)
			p, shape := m.prof(t)
			problems := allChecks(p, exampleTruth(), shape)
			if !slices.ContainsFunc(problems, func(s string) bool { return strings.Contains(s, tt.want) }) {
				t.Errorf("nothing about %q in %q", tt.want, problems)
			}
		})
	}
}

func TestEdgesPassOverACut(t *testing.T) {
	m := newMaker()
	m.add(1, 1, none, "burn", "work_a", "[12 frames left out]", "<module>")
	p, _ := m.prof(t)
	report(t, checkEdges(p, exampleTruth()))
}

func TestQueries(t *testing.T) {
	p, _ := example().prof(t)
	for name, got := range map[string][2]int64{
		"in":       {p.cpu(in("work_a")), 600e6},
		"at":       {p.cpu(at("burn")), 900e6},
		"at no":    {p.cpu(at("work_a")), 0},
		"labelled": {p.wall(labelled("span_name", "b")), 300e6},
		"both":     {p.cpu(both(at("burn"), labelled("span_id", spanA))), 600e6},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: %d, want %d", name, got[0], got[1])
		}
	}
}

func TestParseSummary(t *testing.T) {
	line := "spanflame: 1234 samples of 2 processes (torn 5, unproven 6, given up 7) in p.*.pprof"
	got, err := parseSummary([]string{"spanflame: torn 9", line})
	if want := (counts{1234, 5, 6, 7}); err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	for _, bad := range [][]string{nil, {"spanflame: 12 samples"}, {line, "spanflame: bye"}} {
		if got, err := parseSummary(bad); err == nil {
			t.Errorf("%q gave %+v", bad, got)
		}
	}
}

func TestBoundOfASampler(t *testing.T) {
	// 5 s of CPU at 100 Hz are 500 draws.
	if got := bound(0.5, 5e9, 1e7); got < 0.094 || got > 0.095 {
		t.Errorf("bound is %f", got)
	}
}
