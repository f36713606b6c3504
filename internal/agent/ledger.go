package agent

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spanflame/spanflame/internal/cpython"
	"github.com/spanflame/spanflame/profile"
)

// Frames that are no code of the program.
var (
	frameStartup     = profile.Frame{Function: "[startup]"}          // before the first sample
	frameNative      = profile.Frame{Function: "[native thread]"}    // threads that Python does not know
	frameNoCode      = profile.Frame{Function: "[no python code]"}   // a Python thread that runs none: the interpreter begins or ends
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

// account is one thread's share of a ledger. What it holds is handed to the
// builder when the window ends, under the name that the thread has then.
type account struct {
	labels []profile.Label

	ledger  *ledger
	window  int // for which now holds
	now     place
	frames  []cpython.Frame // of now.stack
	special profile.Frame   // of now.stack, when it has no frames
	link    profile.Link    // of now.link

	pending time.Duration           // wall at now
	wall    map[place]time.Duration // but for what is pending
	startup time.Duration           // CPU before the first sample
	cpu     map[place]time.Duration // but for what follows
	held    time.Duration           // CPU since a sample found the thread on a CPU
	shared  time.Duration           // CPU before that, to be spread over one of the following
	onCPU   map[place]time.Duration // where samples found the thread on a CPU, with their weights
	maybe   map[place]time.Duration // the same, and where they may have
	sure    int                     // samples in onCPU
	samples int                     // in maybe
}

// spreadOver is how many samples that found a thread on a CPU share the CPU
// time that it used meanwhile. A single one says little about a thread that
// works in short bursts and sleeps in between; a whole window would mix what
// lies far apart.
const (
	spreadOver = 8
	enoughSure = 3 // of them, to leave out those that are not
	// leastShare is not worth a sample, and would have pprof print nanoseconds.
	leastShare = 50 * time.Microsecond
)

// open opens an account for a thread with these labels. It stands at
// [startup].
func (l *ledger) open(labels []profile.Label) *account {
	a := &account{
		labels: labels, ledger: l, window: l.window,
		wall: map[place]time.Duration{}, cpu: map[place]time.Duration{},
		onCPU: map[place]time.Duration{}, maybe: map[place]time.Duration{},
	}
	a.atSpecial(frameStartup)
	l.accounts = append(l.accounts, a)
	return a
}

// at moves the account to a stack, leaf first, and a span.
func (a *account) at(frames []cpython.Frame, link profile.Link) {
	a.renew()
	switch {
	case len(frames) == 0:
		a.atSpecial(frameNoCode)
	case len(a.frames) == 0 || !slices.Equal(frames, a.frames):
		a.frames, a.special = append(a.frames[:0], frames...), profile.Frame{}
		a.move(place{a.ledger.intern(frames), a.now.link})
	}
	if link != a.link {
		a.link = link
		a.move(place{a.now.stack, a.ledger.builder.Link(link)})
	}
}

// unlink moves the account out of its span.
func (a *account) unlink() { a.at(a.frames, profile.Link{}) }

func (a *account) atSpecial(f profile.Frame) {
	if a.special != f {
		a.frames, a.special = a.frames[:0], f
		a.move(place{a.ledger.special(f), a.now.link})
	}
}

// move books what is pending and stands at another place from here on.
func (a *account) move(to place) {
	if a.pending != 0 {
		a.wall[a.now] += a.pending
		a.pending = 0
	}
	a.now = to
}

// spend books wall time where the account stands.
func (a *account) spend(wall time.Duration) { a.pending += wall }

// charge adds CPU time, to be spread over where the thread was seen on a CPU.
func (a *account) charge(cpu time.Duration) { a.held += cpu }

// seen says that a sample found the thread on a CPU, of which it had used so
// much since the sample before.
func (a *account) seen(used time.Duration, c certainty) {
	if c == not {
		return
	}
	a.shared, a.held = a.shared+a.held, 0
	a.maybe[a.now] += used
	a.samples++
	if c == surely {
		a.onCPU[a.now] += used
		a.sure++
	}
	if a.samples >= spreadOver {
		a.spread()
	}
}

// spread books the CPU time that is shared in proportion to the weights: what
// the kernel says that the thread used, to the nanosecond.
func (a *account) spread() {
	weights := a.onCPU
	if a.sure < min(enoughSure, a.samples) {
		weights = a.maybe
	}
	places := sorted(weights)
	if len(places) == 0 {
		return
	}
	var total, booked time.Duration
	most := places[0]
	for _, at := range places {
		total += weights[at]
		if weights[at] > weights[most] {
			most = at
		}
	}
	for _, at := range places {
		share := a.shared / time.Duration(len(places)) // where the counters have not moved
		if total > 0 {
			share = time.Duration(float64(a.shared) * (float64(weights[at]) / float64(total)))
		}
		if at != most && share >= leastShare {
			a.cpu[at] += share
			booked += share
		}
	}
	if a.shared > booked {
		a.cpu[most] += a.shared - booked
	}
	a.shared, a.samples, a.sure = 0, 0, 0
	clear(a.onCPU)
	clear(a.maybe)
}

// renew brings an account of an earlier window into this one.
func (a *account) renew() {
	if a.window == a.ledger.window {
		return
	}
	a.window = a.ledger.window
	a.now = place{link: a.ledger.builder.Link(a.link)}
	if len(a.frames) > 0 {
		a.now.stack = a.ledger.intern(a.frames)
	} else {
		a.now.stack = a.ledger.special(a.special)
	}
}

// settle hands everything to the builder, but for CPU time of which a later
// window may still see where it was used. final says that there is none.
func (a *account) settle(final bool) {
	a.renew()
	a.move(a.now)
	b := a.ledger.builder
	label := b.Labels(a.labels)
	for _, at := range sorted(a.wall) {
		b.Add(at.stack, at.link, label, 0, int64(a.wall[at]))
	}
	if a.startup > 0 {
		b.Add(a.ledger.special(frameStartup), 0, label, int64(a.startup), 0)
	}
	a.spread()
	if final && a.held > 0 {
		b.Add(a.ledger.special(frameNotObserved), 0, label, int64(a.held), 0)
		a.held = 0
	}
	for _, at := range sorted(a.cpu) {
		b.Add(at.stack, at.link, label, int64(a.cpu[at]), 0)
	}
	a.startup = 0
	for _, m := range []map[place]time.Duration{a.wall, a.cpu, a.onCPU, a.maybe} {
		clear(m)
	}
}

// sorted returns the places in a fixed order.
func sorted(at map[place]time.Duration) []place {
	return slices.SortedFunc(maps.Keys(at), func(x, y place) int {
		return cmp.Or(cmp.Compare(x.stack, y.stack), cmp.Compare(x.link, y.link))
	})
}

// close settles the account of a thread that has ended.
func (l *ledger) close(a *account) {
	a.settle(true)
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
// final says that it is the last one.
func (l *ledger) end(final bool) *profile.Profile {
	for _, a := range l.accounts {
		a.settle(final)
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
			Function:  cmp.Or(f.Code.Function, "<unnamed>"), // pprof knows no function without a name
			File:      f.Code.File,
			Line:      f.Code.Line(f.Offset),
			StartLine: f.Code.FirstLine,
			Type:      frameType,
		})
		l.frames[f] = i
	}
	return i
}
