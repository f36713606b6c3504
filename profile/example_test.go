package profile_test

import (
	"fmt"

	"github.com/spanflame/spanflame/profile"
)

func Example() {
	b := profile.NewBuilder(profile.ValueType{
		Type: "cpu", Unit: "nanoseconds",
		PeriodType: "cpu", PeriodUnit: "nanoseconds", Period: 10_000_000,
	})

	// Two samples of one stack, leaf first, in one span.
	stack := b.Stack([]int{
		b.Frame(profile.Frame{Function: "Shop.price", File: "shop.py", Line: 12}),
		b.Frame(profile.Frame{Function: "Shop.checkout", File: "shop.py", Line: 40}),
	})
	span := b.Link(profile.Link{Span: profile.SpanID{7: 42}, Root: profile.SpanID{7: 42}})
	b.NameSpan(profile.SpanID{7: 42}, "POST /checkout")
	b.Add(stack, span, 0, 10_000_000)
	b.Add(stack, span, 0, 9_000_000)

	p := b.Build()
	for _, s := range p.Samples {
		link := p.Links[s.Link]
		fmt.Printf("%s (%s): %d ns\n", p.SpanNames[link.Root], link.Span, s.Values[0])
		for _, f := range p.Stacks[s.Stack] {
			fmt.Println("  " + p.Frames[f].Function)
		}
	}
	total, _ := p.Total("cpu")
	fmt.Println("total", total)
	// Output:
	// POST /checkout (000000000000002a): 19000000 ns
	//   Shop.price
	//   Shop.checkout
	// total 19000000
}
