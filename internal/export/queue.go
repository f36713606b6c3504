package export

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/spanflame/spanflame/profile"
)

// QueueOptions bound a [Queue]. Zero fields take the defaults named.
type QueueOptions struct {
	// MaxProfiles and MaxSamples bound what waits, the profile under way
	// included (100 profiles, 200,000 samples: some tens of MB).
	MaxProfiles int
	MaxSamples  int
	// MinBackoff and MaxBackoff bound the time between two attempts while the
	// destination does not say when to come back (1s, 1m). The wait doubles
	// with each failure; up to half of it is left to chance, so that the agents
	// of many machines do not come back at once.
	MinBackoff time.Duration
	MaxBackoff time.Duration
	// Logger gets a line when deliveries begin to fail and one when they work
	// again. Nil: none.
	Logger *slog.Logger
}

func (o *QueueOptions) setDefaults() {
	if o.MaxProfiles <= 0 {
		o.MaxProfiles = 100
	}
	if o.MaxSamples <= 0 {
		o.MaxSamples = 200_000
	}
	if o.MinBackoff <= 0 {
		o.MinBackoff = time.Second
	}
	if o.MaxBackoff <= 0 {
		o.MaxBackoff = time.Minute
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// Queue owns an exporter and the one goroutine that calls it. Profiles are
// delivered in the order in which they were put. All methods may be called from
// any goroutine.
//
// When the queue is full the oldest profile goes, also one that waits for its
// retry: after an outage the last minutes are worth more than the first.
// Whatever is not delivered is counted, with the reason.
type Queue struct {
	exporter Exporter
	o        QueueOptions

	ctx     context.Context // of Export; ends when Shutdown has no time left
	cancel  context.CancelFunc
	wake    chan struct{} // holds one token: something changed
	closing chan struct{} // closed by Shutdown
	done    chan struct{} // closed when the goroutine has ended

	once sync.Once
	down error // result of Shutdown, read after done

	mu       sync.Mutex
	items    []item
	put      uint64        // number of the newest item
	left     chan struct{} // closed, and made anew, when an item leaves
	busy     bool          // items[0] is in Export
	samples  int           // of items
	closed   bool
	deadline time.Time // of Shutdown, zero if it has none
	stats    Stats
	failing  bool  // the last attempt failed, and that was logged
	lost     Count // dropped while failing
	warned   bool  // that the destination has a warning was logged
}

// item is a profile that waits. The numbers of items ascend.
type item struct {
	*profile.Profile
	number uint64
}

// NewQueue starts a Queue that owns e. Shutdown ends both.
func NewQueue(e Exporter, o QueueOptions) *Queue {
	o.setDefaults()
	q := &Queue{
		exporter: e, o: o,
		wake:    make(chan struct{}, 1),
		closing: make(chan struct{}),
		done:    make(chan struct{}),
		left:    make(chan struct{}),
	}
	q.ctx, q.cancel = context.WithCancel(context.Background())
	go q.run()
	return q
}

// Put hands a profile over, which nobody may change from then on. It never
// blocks: where there is no room it drops, and counts what it drops.
func (q *Queue) Put(p *profile.Profile) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		q.drop(p, DroppedAtShutdown)
		return
	case len(p.Samples) > q.o.MaxSamples:
		q.drop(p, DroppedTooLarge)
		return
	}
	for len(q.items) >= q.o.MaxProfiles || q.samples+len(p.Samples) > q.o.MaxSamples {
		oldest := 0
		if q.busy {
			oldest = 1 // the first may be delivered at this moment
		}
		if oldest >= len(q.items) {
			q.drop(p, DroppedFull)
			return
		}
		q.drop(q.items[oldest].Profile, DroppedFull)
		q.remove(oldest)
	}
	q.put++
	q.items = append(q.items, item{p, q.put})
	q.samples += len(p.Samples)
	q.signal()
}

// remove takes items[i] out. The caller holds mu.
func (q *Queue) remove(i int) {
	q.samples -= len(q.items[i].Samples)
	copy(q.items[i:], q.items[i+1:])
	q.items[len(q.items)-1] = item{}
	q.items = q.items[:len(q.items)-1]
	close(q.left)
	q.left = make(chan struct{})
}

func (q *Queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// run is the queue's goroutine.
func (q *Queue) run() {
	defer close(q.done)
	var backoff time.Duration
	for {
		p := q.next()
		if p == nil {
			return
		}
		err := q.exporter.Export(q.ctx, p)
		wait, failed := q.settle(p, err)
		if !failed {
			backoff = 0
			continue
		}
		backoff = min(max(2*backoff, q.o.MinBackoff), q.o.MaxBackoff)
		asked := wait > 0
		wait = max(wait, backoff/2+rand.N(backoff/2+1))
		if !q.sleep(wait, asked) {
			return
		}
	}
}

// next waits for a profile; nil means that there will be none.
func (q *Queue) next() *profile.Profile {
	for {
		q.mu.Lock()
		if q.ctx.Err() == nil && len(q.items) > 0 {
			q.busy = true
			p := q.items[0].Profile
			q.mu.Unlock()
			return p
		}
		closed := q.closed
		q.mu.Unlock()
		if closed {
			return nil
		}
		<-q.wake
	}
}

// settle does what the outcome of an attempt asks for. It reports whether to
// wait before the next one, and the time that the destination asked for.
func (q *Queue) settle(p *profile.Profile, err error) (after time.Duration, failed bool) {
	log := func() {}
	defer func() { log() }() // without mu: Put must not wait for a log
	q.mu.Lock()
	defer q.mu.Unlock()
	q.busy = false
	var e *Error
	if err != nil && !errors.As(err, &e) {
		e = &Error{Err: err}
	}
	switch {
	case err == nil || e.Accepted:
		q.remove(0)
		q.stats.Delivered.add(p)
		log = q.delivered(err, e)
	case q.ctx.Err() != nil && (e.Retryable || errors.Is(err, q.ctx.Err())):
		// Cut short, which says nothing: Shutdown counts what is left, and an
		// earlier failure is the better reason.
		q.stats.LastError = cmp.Or(q.stats.LastError, err)
	case e.Retryable:
		log = q.failed(err, e)
		return e.After, true
	default:
		log = q.failed(err, e)
		q.remove(0)
		if e.Partial {
			q.drop(p, DroppedPartly)
		} else {
			q.drop(p, DroppedRefused)
		}
	}
	return 0, false
}

// sleep waits between two attempts. Shutdown cuts it short once, unless the
// destination asked for the time. It returns false when there will be no time
// for another attempt.
func (q *Queue) sleep(wait time.Duration, asked bool) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	until := time.Now().Add(wait)
	closing := q.closing
	if q.isClosed() {
		if q.tooLate(until) {
			return false
		}
		closing = nil
	}
	select {
	case <-timer.C:
		return true
	case <-q.ctx.Done():
		return false
	case <-closing:
	}
	if !asked {
		return true
	}
	if q.tooLate(until) {
		return false
	}
	select {
	case <-timer.C:
		return true
	case <-q.ctx.Done():
		return false
	}
}

func (q *Queue) isClosed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

// tooLate reports whether Shutdown ends before that time.
func (q *Queue) tooLate(t time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return !q.deadline.IsZero() && t.After(q.deadline)
}

// Flush waits until every profile that was put before the call is delivered or
// dropped, or ctx ends; then it returns the error of ctx. Retries keep their
// pace.
func (q *Queue) Flush(ctx context.Context) error {
	q.mu.Lock()
	last := q.put
	for len(q.items) > 0 && q.items[0].number <= last {
		left := q.left
		q.mu.Unlock()
		select {
		case <-left:
		case <-ctx.Done():
			return ctx.Err()
		}
		q.mu.Lock()
	}
	q.mu.Unlock()
	return nil
}

// Shutdown delivers what waits, with retries, until ctx ends or no further
// attempt would fit before its deadline; what is left then is dropped and
// counted. It waits for the exporter, whose Shutdown it calls. The error says
// what was lost and why. Further calls return the same.
func (q *Queue) Shutdown(ctx context.Context) error {
	q.once.Do(func() {
		q.mu.Lock()
		q.closed = true
		q.deadline, _ = ctx.Deadline()
		q.mu.Unlock()
		close(q.closing)
		q.signal()
		select {
		case <-q.done:
		case <-ctx.Done():
			q.cancel()
			<-q.done
		}
		q.cancel()
		q.down = errors.Join(q.abandon(), q.exporter.Shutdown(ctx))
	})
	return q.down
}

// abandon counts what was not delivered.
func (q *Queue) abandon() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := len(q.items)
	for len(q.items) > 0 {
		q.drop(q.items[0].Profile, DroppedAtShutdown)
		q.remove(0)
	}
	if n == 0 {
		return nil
	}
	if q.stats.LastError == nil {
		return fmt.Errorf("%d profiles were not delivered in time", n)
	}
	return fmt.Errorf("%d profiles were not delivered in time: %w", n, q.stats.LastError)
}
