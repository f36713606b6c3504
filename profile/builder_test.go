package profile

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	cpu  = ValueType{Type: "cpu", Unit: "nanoseconds", PeriodType: "cpu", PeriodUnit: "nanoseconds", Period: 1e7}
	wall = ValueType{Type: "wall", Unit: "nanoseconds", PeriodType: "wall", PeriodUnit: "nanoseconds", Period: 1e7}
)

func TestBuilderMerges(t *testing.T) {
	b := NewBuilder(cpu, wall)
	link := Link{Trace: TraceID{1}, Span: SpanID{2}, Root: SpanID{3}}
	labels := []Label{{Key: LabelThreadID, Num: 5}, {Key: LabelThreadName, Str: "main"}}
	add := func(link Link, labels []Label, values [2]int64, functions ...string) {
		frames := make([]int, len(functions))
		for i, f := range functions {
			frames[i] = b.Frame(Frame{Function: f})
		}
		b.Add(b.Stack(frames), b.Link(link), b.Labels(labels), values[:]...)
	}
	add(link, labels, [2]int64{1, 10}, "leaf", "root")
	add(Link{}, nil, [2]int64{2, 20}, "root")
	add(link, labels, [2]int64{4, 40}, "leaf", "root")
	add(link, nil, [2]int64{8, 80}, "leaf", "root")
	add(Link{}, nil, [2]int64{16, 160})
	b.NameSpan(link.Root, "GET")
	b.NameSpan(link.Root, "GET /")

	want := &Profile{
		Types:     []ValueType{cpu, wall},
		Frames:    []Frame{{Function: "leaf"}, {Function: "root"}},
		Stacks:    [][]int{{0, 1}, {1}, nil},
		Links:     []Link{{}, link},
		SpanNames: map[SpanID]string{link.Root: "GET /"},
		LabelSets: [][]Label{nil, labels},
		Samples: []Sample{
			{Stack: 0, Link: 1, Labels: 1, Values: []int64{5, 50}},
			{Stack: 1, Link: 0, Labels: 0, Values: []int64{2, 20}},
			{Stack: 0, Link: 1, Labels: 0, Values: []int64{8, 80}},
			{Stack: 2, Link: 0, Labels: 0, Values: []int64{16, 160}},
		},
	}
	if diff := cmp.Diff(want, b.Build(), equateEmpty); diff != "" {
		t.Error(diff)
	}
	if b.Len() != len(want.Samples) {
		t.Errorf("Len is %d, want %d", b.Len(), len(want.Samples))
	}
}

// A stack without frames may be a nil slice or an empty one.
var equateEmpty = cmp.FilterValues(
	func(a, b []int) bool { return len(a) == 0 && len(b) == 0 },
	cmp.Comparer(func(a, b []int) bool { return true }),
)

// What differs only in the end of a stack or of a label set is another one.
func TestBuilderKeepsApart(t *testing.T) {
	b := NewBuilder(cpu)
	thread := Label{Key: LabelThreadID, Num: 1}
	sets := [][]Label{
		{},
		{thread},
		{thread, {Key: LabelThreadName, Str: "a"}},
		{thread, {Key: LabelThreadName, Str: "b"}},
		{{Key: LabelThreadName, Str: "a"}, thread},
		{{}},
	}
	stacks := [][]int{{}, {0}, {0, 0}, {0, 1}, {1, 0}, {256}}
	for range 2 {
		for i, set := range sets {
			if got := b.Labels(set); got != i {
				t.Errorf("label set %v has index %d, want %d", set, got, i)
			}
		}
		for i, stack := range stacks {
			if got := b.Stack(stack); got != i {
				t.Errorf("stack %v has index %d, want %d", stack, got, i)
			}
		}
	}
}

func TestBuilderCopiesItsInput(t *testing.T) {
	types := []ValueType{cpu}
	b := NewBuilder(types...)
	stack, labels := []int{b.Frame(Frame{Function: "f"})}, []Label{{Key: "k", Str: "v"}}
	b.Add(b.Stack(stack), 0, b.Labels(labels), 1)
	types[0], stack[0], labels[0] = wall, 7, Label{}
	p := b.Build()
	if p.Types[0] != cpu || p.Stacks[0][0] != 0 || p.LabelSets[1][0].Key != "k" {
		t.Errorf("the profile follows its input: %+v", p)
	}
}

// Encoders may read a Profile while its Builder goes on, and whoever changes
// one changes nothing else.
func TestBuildIsIndependent(t *testing.T) {
	b := NewBuilder(cpu, wall)
	fill := func() {
		stack := b.Stack([]int{b.Frame(Frame{Function: "f"})})
		b.Add(stack, b.Link(Link{Span: SpanID{1}}), b.Labels([]Label{{Key: "k", Str: "v"}}), 1, 2)
		b.NameSpan(SpanID{1}, "span")
	}
	fill()
	want, p := b.Build(), b.Build()

	p.Types[0].Type = "changed"
	p.Frames[0].Function = "changed"
	p.Stacks[0][0] = 99
	p.Links[1].Span = SpanID{99}
	p.LabelSets[1][0].Str = "changed"
	p.SpanNames[SpanID{1}] = "changed"
	p.Samples[0].Values[0] = 99
	p.Samples[0].Values = append(p.Samples[0].Values, 99)
	if diff := cmp.Diff(want, b.Build()); diff != "" {
		t.Errorf("changing a profile changed its builder: %s", diff)
	}

	before := b.Build()
	fill()
	b.NameSpan(SpanID{1}, "other")
	if diff := cmp.Diff(want, before); diff != "" {
		t.Errorf("filling the builder changed a profile: %s", diff)
	}
	b.Reset()
	if diff := cmp.Diff(want, before); diff != "" {
		t.Errorf("resetting the builder changed a profile: %s", diff)
	}
}

func TestReset(t *testing.T) {
	b := NewBuilder(cpu)
	b.Add(b.Stack([]int{b.Frame(Frame{Function: "f"})}), b.Link(Link{Span: SpanID{1}}), 0, 1)
	b.NameSpan(SpanID{1}, "span")
	b.Reset()
	if diff := cmp.Diff(NewBuilder(cpu).Build(), b.Build()); diff != "" {
		t.Error(diff)
	}
	if b.Link(Link{}) != 0 || b.Labels(nil) != 0 {
		t.Error("index 0 is not the empty link and label set")
	}
}

func TestTotal(t *testing.T) {
	b := NewBuilder(cpu, wall)
	b.Add(b.Stack([]int{0}), 0, 0, 1, 10)
	b.Add(b.Stack([]int{1}), 0, 0, 2, 20)
	p := b.Build()
	for _, test := range []struct {
		typ  string
		want int64
		ok   bool
	}{{"cpu", 3, true}, {"wall", 30, true}, {"heap", 0, false}} {
		if got, ok := p.Total(test.typ); got != test.want || ok != test.ok {
			t.Errorf("total of %s is %d, %v; want %d, %v", test.typ, got, ok, test.want, test.ok)
		}
	}
}

func TestAddToKnownAllocatesNothing(t *testing.T) {
	b := NewBuilder(cpu, wall)
	frames := slices.Repeat([]int{b.Frame(Frame{Function: "f"})}, 30)
	labels := []Label{{Key: LabelThreadID, Num: 5}, {Key: LabelThreadName, Str: "main"}}
	link := Link{Trace: TraceID{1}, Span: SpanID{2}}
	add := func() {
		b.Frame(Frame{Function: "f"})
		b.Add(b.Stack(frames), b.Link(link), b.Labels(labels), 1, 2)
	}
	add()
	if n := testing.AllocsPerRun(100, add); n != 0 {
		t.Errorf("%v allocations for a sample that is known", n)
	}
}

func BenchmarkAddKnown(b *testing.B) {
	builder := NewBuilder(cpu, wall)
	frames := slices.Repeat([]int{builder.Frame(Frame{Function: "f"})}, 30)
	b.ReportAllocs()
	for b.Loop() {
		builder.Add(builder.Stack(frames), 0, 0, 1, 2)
	}
}
