package agent

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/spanflame/spanflame/internal/cpython"
	"github.com/spanflame/spanflame/profile"
)

// Frames that are no code of the program.
var (
	frameStartup     = profile.Frame{Function: "[startup]"}          // before the first sample
	frameNative      = profile.Frame{Function: "[native thread]"}    // threads, or moments of one, without Python
	frameNotObserved = profile.Frame{Function: "[cpu not observed]"} // CPU time that no sample saw being used
)

// frameType is profile.frame.type of the OpenTelemetry semantic conventions.
const frameType = "cpython"

// ledger books what the threads of one process cost until the window ends.
type ledger struct {
	builder   *profile.Builder
	maxFrames int
	accounts  []*account
	frames    map[cpython.Frame]int
	stack     []int // buffer
	window    int   // counts windows: indexes of the builder are those of one
}

func newLedger(interval time.Duration, maxFrames int) *ledger {
	period := max(1, int64(interval))
	return &ledger{
		builder: profile.NewBuilder(
			profile.ValueType{Type: "cpu", Unit: "nanoseconds", PeriodType: "cpu", PeriodUnit: "nanoseconds", Period: period},
			profile.ValueType{Type: "wall", Unit: "nanoseconds", PeriodType: "wall", PeriodUnit: "nanoseconds", Period: period},
		),
		maxFrames: maxFrames,
		frames:    map[cpython.Frame]int{},
	}
}

// place is where time is booked: what a thread did, and in which span.
type place struct{ stack, link int }

// account is one thread's share of a ledger.
type account struct {
	labels []profile.Label

	ledger  *ledger
	window  int // for which label and now hold
	label   int
	now     place
	frames  []cpython.Frame // of now.stack
	special profile.Frame   // of now.stack, when it has no frames
	link    profile.Link    // of now.link

	wall  time.Duration           // at now, not booked yet
	cpu   time.Duration           // of this window
	onCPU map[place]time.Duration // where samples found the thread on a CPU, with their weights
}

// open opens an account for a thread with these labels.
func (l *ledger) open(labels []profile.Label) *account {
	a := &account{labels: labels, ledger: l, window: -1, onCPU: map[place]time.Duration{}}
	l.accounts = append(l.accounts, a)
	return a
}

// relabel changes what the thread is called, from here on.
func (a *account) relabel(labels []profile.Label) {
	if slices.Equal(a.labels, labels) {
		return
	}
	a.renew()
	a.book()
	a.settle()
	a.labels, a.label = labels, a.ledger.builder.Labels(labels)
}

// at moves the account to a stack, leaf first, and a span.
func (a *account) at(frames []cpython.Frame, link profile.Link) {
	a.renew()
	if len(frames) == 0 {
		a.atSpecial(frameNative, link)
		return
	}
	if a.special == (profile.Frame{}) && slices.Equal(frames, a.frames) {
		a.move(place{a.now.stack, a.now.link}, link)
		return
	}
	a.book()
	a.frames, a.special = append(a.frames[:0], frames...), profile.Frame{}
	a.move(place{a.ledger.intern(frames), a.now.link}, link)
}

// atSpecial moves the account to a stack of one frame that is no code.
func (a *account) atSpecial(f profile.Frame, link profile.Link) {
	a.renew()
	if a.special != f {
		a.book()
		a.frames, a.special = a.frames[:0], f
		a.now.stack = a.ledger.special(f)
	}
	a.move(a.now, link)
}

// unlink moves the account out of its span.
func (a *account) unlink() {
	a.renew()
	a.move(a.now, profile.Link{})
}

// startup books CPU time that was used before the first sample.
func (a *account) startup(cpu time.Duration) {
	a.renew()
	if cpu > 0 {
		a.ledger.builder.Add(a.ledger.special(frameStartup), 0, a.label, int64(cpu), 0)
	}
}

func (a *account) move(to place, link profile.Link) {
	if link != a.link {
		a.book()
		a.link, to.link = link, a.ledger.builder.Link(link)
	}
	a.now = to
}

// spend books wall time where the account stands.
func (a *account) spend(wall time.Duration) { a.wall += wall }

// charge adds CPU time, to be spread over where the thread was seen on a CPU.
func (a *account) charge(cpu time.Duration) { a.cpu += cpu }

// seen says that a sample of that weight found the thread on a CPU.
func (a *account) seen(weight time.Duration) {
	a.renew()
	a.onCPU[a.now] += max(weight, 1)
}

// book books the wall time where it was spent.
func (a *account) book() {
	if a.wall != 0 {
		a.ledger.builder.Add(a.now.stack, a.now.link, a.label, 0, int64(a.wall))
		a.wall = 0
	}
}

// renew brings an account of an earlier window into this one.
func (a *account) renew() {
	if a.window == a.ledger.window {
		return
	}
	first := a.window < 0
	a.window = a.ledger.window
	a.label = a.ledger.builder.Labels(a.labels)
	a.now = place{link: a.ledger.builder.Link(a.link)}
	switch {
	case len(a.frames) > 0:
		a.now.stack = a.ledger.intern(a.frames)
	case first:
		a.special = frameStartup
		fallthrough
	default:
		a.now.stack = a.ledger.special(a.special)
	}
}

// settle spreads the CPU time over the places where samples saw it used. What
// the kernel says the thread used is what is booked, to the nanosecond.
func (a *account) settle() {
	if a.cpu <= 0 {
		clear(a.onCPU)
		return
	}
	b := a.ledger.builder
	if len(a.onCPU) == 0 {
		b.Add(a.ledger.special(frameNotObserved), 0, a.label, int64(a.cpu), 0)
		a.cpu = 0
		return
	}
	type share struct {
		place
		weight time.Duration
	}
	var shares []share
	var total time.Duration
	for where, weight := range a.onCPU {
		shares = append(shares, share{where, weight})
		total += weight
	}
	slices.SortFunc(shares, func(x, y share) int {
		return cmp.Or(cmp.Compare(x.stack, y.stack), cmp.Compare(x.link, y.link))
	})
	var before, booked time.Duration
	for _, s := range shares {
		before += s.weight
		upTo := time.Duration(float64(a.cpu) * (float64(before) / float64(total)))
		if before == total {
			upTo = a.cpu
		}
		b.Add(s.stack, s.link, a.label, int64(upTo-booked), 0)
		booked = upTo
	}
	a.cpu = 0
	clear(a.onCPU)
}

// close books what is left of an account whose thread has ended.
func (l *ledger) close(a *account) {
	a.renew()
	a.book()
	a.settle()
	if i := slices.Index(l.accounts, a); i >= 0 {
		l.accounts = slices.Delete(l.accounts, i, i+1)
	}
}

// extra books CPU time of no particular thread.
func (l *ledger) extra(f profile.Frame, cpu time.Duration) {
	if cpu > 0 {
		l.builder.Add(l.special(f), 0, 0, int64(cpu), 0)
	}
}

// end closes the window and returns what was booked in it, nil if nothing was.
func (l *ledger) end() *profile.Profile {
	for _, a := range l.accounts {
		a.renew()
		a.book()
		a.settle()
	}
	var p *profile.Profile
	if l.builder.Len() > 0 {
		p = l.builder.Build()
	}
	l.builder.Reset()
	clear(l.frames)
	l.window++
	return p
}

func (l *ledger) special(f profile.Frame) int {
	return l.builder.Stack([]int{l.builder.Frame(f)})
}

// intern returns the index of a stack. Names and lines are resolved here, once
// for each instruction.
func (l *ledger) intern(frames []cpython.Frame) int {
	head, tail := frames, []cpython.Frame(nil)
	if cut := len(frames) - l.maxFrames; cut > 0 {
		// Leaf and root matter most. What is cut shows as a frame.
		keep := l.maxFrames / 2
		head, tail = frames[:l.maxFrames-keep], frames[len(frames)-keep:]
	}
	l.stack = l.stack[:0]
	for _, f := range head {
		l.stack = append(l.stack, l.frame(f))
	}
	if cut := len(frames) - len(head) - len(tail); cut > 0 {
		l.stack = append(l.stack, l.builder.Frame(profile.Frame{Function: fmt.Sprintf("[%d frames not shown]", cut)}))
	}
	for _, f := range tail {
		l.stack = append(l.stack, l.frame(f))
	}
	return l.builder.Stack(l.stack)
}

func (l *ledger) frame(f cpython.Frame) int {
	i, ok := l.frames[f]
	if !ok {
		i = l.builder.Frame(profile.Frame{
			Function:  f.Code.Function,
			File:      f.Code.File,
			Line:      f.Code.Line(f.Offset),
			StartLine: f.Code.FirstLine,
			Type:      frameType,
		})
		l.frames[f] = i
	}
	return i
}
