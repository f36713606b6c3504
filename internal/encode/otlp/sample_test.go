package otlp

import (
	"fmt"
	"math/rand/v2"

	"github.com/spanflame/spanflame/profile"
)

var (
	traceA = profile.TraceID{0xaa, 15: 1}
	traceB = profile.TraceID{0xbb, 15: 2}
	rootA  = profile.SpanID{0xa0, 7: 1}
	childA = profile.SpanID{0xa0, 7: 2}
	rootB  = profile.SpanID{0xb0, 7: 1}
)

var cpuAndWall = []profile.ValueType{
	{Type: "cpu", Unit: "nanoseconds", PeriodType: "cpu", PeriodUnit: "nanoseconds", Period: 10_000_000},
	{Type: "wall", Unit: "nanoseconds", PeriodType: "wall", PeriodUnit: "nanoseconds", Period: 10_000_000},
}

// shop is a small profile with one of everything.
func shop() *profile.Profile {
	b := profile.NewBuilder(cpuAndWall...)
	frame := func(name string, line, start int32) int {
		return b.Frame(profile.Frame{Function: name, File: "/srv/shop.py", Line: line, StartLine: start, Type: "cpython"})
	}
	burn, checkout, main := frame("burn", 12, 10), frame("Shop.checkout", 33, 30), frame("<module>", 90, 1)
	main2 := frame("<module>", 91, 1)
	unseen := b.Frame(profile.Frame{Function: "[cpu not observed]"})
	deep := b.Stack([]int{burn, checkout, main})
	flat := b.Stack([]int{checkout, main2})
	other := b.Stack([]int{unseen})
	never := b.Stack([]int{frame("never", 1, 1)})

	thread := func(ident, native int64, name string) int {
		return b.Labels([]profile.Label{
			{Key: profile.LabelThreadID, Num: ident},
			{Key: profile.LabelThreadName, Str: name},
			{Key: profile.LabelNativeThreadID, Num: native},
		})
	}
	first, second := thread(0x7f0000000001, 41, "MainThread"), thread(0x7f0000000002, 42, "MainThread")
	exact := b.Link(profile.Link{Trace: traceA, Span: childA, Root: rootA})
	root := b.Link(profile.Link{Trace: traceA, Span: rootA, Root: rootA})
	remote := b.Link(profile.Link{Trace: traceB, Span: rootB})
	b.NameSpan(rootA, "POST /checkout")

	b.Add(deep, exact, first, 30_000_000, 40_000_000)
	b.Add(deep, exact, second, 10_000_000, 10_000_000)
	b.Add(deep, root, first, 5_000_000, 5_000_000)
	b.Add(flat, root, first, 0, 7_000_000)
	b.Add(flat, remote, second, 1_000_000, 0)
	b.Add(other, 0, 0, 3, 0)
	b.Add(never, 0, 0, 0, 0)
	return finish(b)
}

func finish(b *profile.Builder) *profile.Profile {
	p := b.Build()
	p.Start, p.Duration, p.PID, p.Seq = 1_790_000_000_000_000_000, 60_000_000_000, 4711, 1
	p.Resource = []profile.Attribute{
		{Key: "service.name", Value: "shop"},
		{Key: "process.pid", Value: int64(4711)},
		{Key: "canary", Value: true},
		{Key: "share", Value: 0.25},
		{Key: "process.command_args", Value: []string{"python", "", "shop.py"}},
		{Key: "ports", Value: []int64{80, 443}},
		{Key: "flags", Value: []bool{true, false}},
		{Key: "shares", Value: []float64{0.5, 0}},
		{Key: "empty", Value: ""},
	}
	return p
}

// random is a profile of n samples with everything shared at random.
func random(seed uint64, n int) *profile.Profile {
	r := rand.New(rand.NewPCG(seed, 1))
	b := profile.NewBuilder(cpuAndWall...)
	frames := make([]int, 1+n/2)
	for i := range frames {
		frames[i] = b.Frame(profile.Frame{
			Function: fmt.Sprintf("function%d", r.IntN(len(frames))), File: fmt.Sprintf("/srv/file%d.py", i%50),
			Line: r.Int32N(500), StartLine: r.Int32N(400), Type: "cpython",
		})
	}
	stacks := make([]int, 1+n/3)
	for i := range stacks {
		stack := make([]int, r.IntN(60))
		for j := range stack {
			stack[j] = frames[r.IntN(len(frames))]
		}
		stacks[i] = b.Stack(stack)
	}
	for range n {
		link, labels := 0, 0
		if trace := r.IntN(n/10 + 2); trace > 0 {
			root := profile.SpanID{1, byte(trace), byte(trace >> 8)}
			link = b.Link(profile.Link{Trace: profile.TraceID{byte(trace), byte(trace >> 8), 9}, Span: profile.SpanID{2, byte(trace), byte(r.IntN(3))}, Root: root})
			b.NameSpan(root, fmt.Sprintf("GET /%d", trace%7))
		}
		if thread := r.Int64N(8); thread > 0 {
			labels = b.Labels([]profile.Label{{Key: profile.LabelThreadID, Num: thread}, {Key: profile.LabelThreadName, Str: fmt.Sprintf("worker_%d", thread%3)}})
		}
		b.Add(stacks[r.IntN(len(stacks))], link, labels, r.Int64N(3)*10_000_000, r.Int64N(3)*10_000_000)
	}
	return finish(b)
}
