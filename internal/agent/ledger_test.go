package agent

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spanflame/spanflame/internal/cpython"
	"github.com/spanflame/spanflame/profile"
)

var (
	work  = &cpython.Code{Function: "work", File: "shop.py", FirstLine: 3}
	sleep = &cpython.Code{Function: "sleep", File: "shop.py", FirstLine: 9}
	span  = profile.Link{Trace: profile.TraceID{1}, Span: profile.SpanID{2}, Root: profile.SpanID{2}}
)

func stack(codes ...*cpython.Code) []cpython.Frame {
	frames := make([]cpython.Frame, len(codes))
	for i, c := range codes {
		frames[i].Code = c
	}
	return frames
}

// booked is what one sample of a profile says.
type booked struct {
	Top, Thread string
	Span        profile.SpanID
	CPU, Wall   time.Duration
}

func bookedIn(t *testing.T, p *profile.Profile) []booked {
	t.Helper()
	if p == nil {
		return nil
	}
	var all []booked
	for _, s := range p.Samples {
		b := booked{
			Top:  p.Frames[p.Stacks[s.Stack][0]].Function,
			Span: p.Links[s.Link].Span,
			CPU:  time.Duration(s.Values[0]),
			Wall: time.Duration(s.Values[1]),
		}
		for _, label := range p.LabelSets[s.Labels] {
			b.Thread += label.Str
		}
		all = append(all, b)
	}
	return all
}

func check(t *testing.T, p *profile.Profile, want ...booked) {
	t.Helper()
	if diff := cmp.Diff(want, bookedIn(t, p)); diff != "" {
		t.Errorf("booked (-want +got):\n%s", diff)
	}
}

func named(name string) []profile.Label {
	return []profile.Label{{Key: profile.LabelThreadName, Str: name}}
}

func TestCPUGoesToWhereItWasSeen(t *testing.T) {
	l := newLedger(10*time.Millisecond, 100)
	a := l.open(named("main"))
	a.spend(5)
	a.at(stack(work), span)
	a.seen(30, surely)
	a.spend(30)
	a.at(stack(sleep), profile.Link{})
	a.spend(60) // asleep: not seen
	a.at(stack(sleep), span)
	a.charge(20 * time.Millisecond)
	a.seen(10, surely)
	a.charge(1)
	a.seen(0, surely)
	check(t, l.end(true),
		booked{"[startup]", "main", profile.SpanID{}, 0, 5},
		booked{"work", "main", span.Span, 15*time.Millisecond + 1, 30},
		booked{"sleep", "main", profile.SpanID{}, 0, 60},
		booked{"sleep", "main", span.Span, 5 * time.Millisecond, 0},
	)
}

func TestCPUThatNothingSaw(t *testing.T) {
	l := newLedger(10*time.Millisecond, 100)
	a := l.open(named("main"))
	a.startup = 4
	a.at(stack(work), span)
	a.charge(7)
	l.extra(frameNative, 2)
	check(t, l.end(true),
		booked{"[native thread]", "", profile.SpanID{}, 2, 0},
		booked{"[startup]", "main", profile.SpanID{}, 4, 0},
		booked{"[cpu not observed]", "main", profile.SpanID{}, 7, 0},
	)
}

// Samples that may have found the thread waiting count only where there are few
// better ones.
func TestDoubtfulSamples(t *testing.T) {
	for _, tt := range []struct {
		sure int
		want []booked
	}{
		{enoughSure - 1, []booked{{Top: "work", CPU: 60 * time.Millisecond}, {Top: "sleep", CPU: 30 * time.Millisecond}}},
		{enoughSure, []booked{{Top: "sleep", CPU: 90 * time.Millisecond}}},
	} {
		l := newLedger(10*time.Millisecond, 100)
		a := l.open(nil)
		a.at(stack(work), profile.Link{})
		for range 4 {
			a.seen(1, perhaps)
		}
		a.seen(1, not)
		a.at(stack(sleep), profile.Link{})
		a.charge(90 * time.Millisecond)
		for range tt.sure {
			a.seen(1, surely)
		}
		check(t, l.end(true), tt.want...)
	}
}

// A share that is not worth a sample goes to the largest.
func TestTinyShares(t *testing.T) {
	l := newLedger(10*time.Millisecond, 100)
	a := l.open(nil)
	a.at(stack(work), profile.Link{})
	a.charge(10 * time.Millisecond)
	a.seen(10*time.Millisecond, surely)
	a.at(stack(sleep), profile.Link{})
	a.seen(leastShare-1, surely)
	check(t, l.end(true), booked{Top: "work", CPU: 10 * time.Millisecond})
}

// A thread that moved on must not share its CPU time with where it was long
// ago.
func TestCPUStaysInItsTime(t *testing.T) {
	l := newLedger(10*time.Millisecond, 100)
	a := l.open(nil)
	for _, phase := range []struct {
		code *cpython.Code
		cpu  time.Duration
	}{{work, 10}, {sleep, 2}} {
		for range spreadOver {
			a.charge(phase.cpu)
			a.at(stack(phase.code), profile.Link{})
			a.seen(1, surely)
		}
	}
	check(t, l.end(true),
		booked{Top: "work", CPU: 10 * spreadOver},
		booked{Top: "sleep", CPU: 2 * spreadOver},
	)
}

func TestWindowsAreSeparate(t *testing.T) {
	l := newLedger(10*time.Millisecond, 100)
	a := l.open(named("before"))
	a.at(stack(work), span)
	a.charge(3)
	a.seen(1, surely)
	a.charge(4) // seen by no sample, yet
	a.spend(5)
	a.labels = named("after") // the name at the end counts
	check(t, l.end(false), booked{"work", "after", span.Span, 3, 5})

	a.spend(7) // still there, without a sample
	check(t, l.end(false), booked{"work", "after", span.Span, 0, 7})

	a.seen(1, surely)
	a.charge(6)
	check(t, l.end(true),
		booked{"[cpu not observed]", "after", profile.SpanID{}, 6, 0},
		booked{"work", "after", span.Span, 4, 0},
	)
	if p := l.end(true); p != nil {
		t.Errorf("an empty window is %v", p)
	}

	a.spend(2)
	l.close(a)
	check(t, l.end(true), booked{"work", "after", span.Span, 0, 2})
	if p := l.end(true); p != nil {
		t.Errorf("a closed account has %v", p)
	}
}

func TestThreadsAreSeparate(t *testing.T) {
	l := newLedger(10*time.Millisecond, 100)
	for _, name := range []string{"a", "b"} {
		account := l.open(named(name))
		account.at(stack(work), profile.Link{})
		account.charge(10)
		account.seen(1, surely)
	}
	check(t, l.end(true), booked{"work", "a", profile.SpanID{}, 10, 0}, booked{"work", "b", profile.SpanID{}, 10, 0})
}

func TestNoPythonFrames(t *testing.T) {
	l := newLedger(10*time.Millisecond, 100)
	a := l.open(named("main"))
	a.at(nil, profile.Link{})
	a.spend(3)
	a.unlink()
	a.spend(2)
	check(t, l.end(true), booked{"[no python code]", "main", profile.SpanID{}, 0, 5})
}

func TestDeepStacksLoseTheirMiddle(t *testing.T) {
	l := newLedger(10*time.Millisecond, 5)
	codes := make([]*cpython.Code, 9)
	for i := range codes {
		codes[i] = &cpython.Code{Function: string(rune('a' + i))}
	}
	a := l.open(nil)
	a.at(stack(codes...), profile.Link{})
	a.spend(1)
	p := l.end(true)
	var names []string
	for _, f := range p.Stacks[p.Samples[0].Stack] {
		names = append(names, p.Frames[f].Function)
	}
	want := []string{"a", "b", "c", "[4 frames not shown]", "h", "i"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("stack (-want +got):\n%s", diff)
	}
}

// What is spread must add up to the nanosecond, however it divides.
func TestSpreadingLosesNothing(t *testing.T) {
	for _, places := range []int{1, 2, 3, 7, 1000} {
		l := newLedger(10*time.Millisecond, 100)
		a := l.open(nil)
		for i := range places {
			code := &cpython.Code{Function: string(rune(0x4e00 + i))}
			a.at(stack(code), profile.Link{})
			a.seen(time.Duration(i*i+1), surely)
			a.charge(1_000_003)
		}
		cpu := int64(places) * 1_000_003
		p := l.end(true)
		if sum, _ := p.Total("cpu"); sum != cpu {
			t.Errorf("%d places share %d ns, want %d", places, sum, cpu)
		}
		for _, s := range p.Samples {
			if s.Values[0] < 0 {
				t.Errorf("%d places: negative share %d", places, s.Values[0])
			}
		}
	}
}
