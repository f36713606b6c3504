package export

import (
	"log/slog"
	"maps"

	"github.com/spanflame/spanflame/profile"
)

// Reason is why a profile was dropped.
type Reason string

const (
	DroppedFull       Reason = "full"      // the queue had no room
	DroppedTooLarge   Reason = "too_large" // for any queue of these bounds
	DroppedRefused    Reason = "refused"   // by the destination, for good
	DroppedPartly     Reason = "partly"    // refused in part
	DroppedAtShutdown Reason = "shutdown"  // no time was left
)

// Count of profiles and of the samples in them.
type Count struct {
	Profiles int64
	Samples  int64
}

func (c *Count) add(p *profile.Profile) {
	c.Profiles++
	c.Samples += int64(len(p.Samples))
}

// Stats say what became of every profile that was put: delivered, dropped or
// waiting. A profile that was refused in part counts as dropped as a whole,
// since no destination says which samples it took.
type Stats struct {
	Delivered Count
	Dropped   map[Reason]Count
	Waiting   Count
	// Attempts that failed, retries included.
	Failures int64
	// LastError is the last failure or warning; it stays after a success.
	LastError error
}

// DroppedTotal adds up all reasons.
func (s Stats) DroppedTotal() Count {
	var sum Count
	for _, c := range s.Dropped {
		sum.Profiles += c.Profiles
		sum.Samples += c.Samples
	}
	return sum
}

// Stats returns a snapshot.
func (q *Queue) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.stats
	s.Dropped = maps.Clone(s.Dropped)
	s.Waiting = Count{int64(len(q.items)), int64(q.samples)}
	return s
}

// drop counts a profile. The caller holds mu.
func (q *Queue) drop(p *profile.Profile, r Reason) {
	if q.stats.Dropped == nil {
		q.stats.Dropped = map[Reason]Count{}
	}
	c := q.stats.Dropped[r]
	c.add(p)
	q.stats.Dropped[r] = c
	if q.failing {
		q.lost.add(p)
	}
}

// failed notes a failure and returns what logs the first of a row. The caller
// holds mu.
func (q *Queue) failed(err error, e *Error) (log func()) {
	q.stats.LastError = err
	q.stats.Failures++
	if q.failing {
		return func() {}
	}
	q.failing, q.lost = true, Count{}
	message := "profile was refused"
	if e.Retryable {
		message = "profiles cannot be delivered, trying again"
	}
	return func() { q.o.Logger.Warn(message, q.attributes(err, e)...) }
}

// delivered notes a success and returns what logs the first one after failures,
// and the first one with a warning. The caller holds mu.
func (q *Queue) delivered(warning error, e *Error) (log func()) {
	again, lost := q.failing, q.lost.Profiles
	q.failing = false
	warn := warning != nil && !q.warned
	if warning != nil {
		q.warned = true
		q.stats.LastError = warning
	}
	return func() {
		if again {
			q.o.Logger.Info("profiles are delivered again",
				slog.String("exporter", q.exporter.Name()), slog.Int64("dropped", lost))
		}
		if warn {
			q.o.Logger.Warn("destination took a profile with a warning", q.attributes(warning, e)...)
		}
	}
}

func (q *Queue) attributes(err error, e *Error) []any {
	list := []any{slog.String("exporter", q.exporter.Name()), slog.String("error", err.Error())}
	if e.Hint != "" {
		list = append(list, slog.String("hint", e.Hint))
	}
	return list
}
