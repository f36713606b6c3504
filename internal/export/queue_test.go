package export

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spanflame/spanflame/profile"
)

// double is an exporter that answers as told.
type double struct {
	answer func(attempt int, p *profile.Profile) error
	takes  time.Duration
	begin  time.Time

	mu       sync.Mutex
	attempts []string // "time profile"
	downs    int
}

func (d *double) Name() string { return "double" }

func (d *double) Export(ctx context.Context, p *profile.Profile) error {
	d.mu.Lock()
	d.attempts = append(d.attempts, fmt.Sprintf("%v %d", time.Since(d.begin), p.Seq))
	n := len(d.attempts)
	d.mu.Unlock()
	select {
	case <-time.After(d.takes):
	case <-ctx.Done():
		return ctx.Err()
	}
	if d.answer == nil {
		return nil
	}
	return d.answer(n, p)
}

func (d *double) Shutdown(context.Context) error { d.downs++; return nil }

func (d *double) seen() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.attempts...)
}

func numbered(seq, samples int) *profile.Profile {
	return &profile.Profile{Seq: seq, Samples: make([]profile.Sample, samples)}
}

// inBubble runs a queue on a clock that jumps.
func inBubble(t *testing.T, d *double, o QueueOptions, test func(t *testing.T, q *Queue, log *bytes.Buffer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d.begin = time.Now()
		var log bytes.Buffer
		o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
		q := NewQueue(d, o)
		test(t, q, &log)
		if err := q.Shutdown(t.Context()); err != nil && d.answer == nil {
			t.Errorf("shutdown: %v", err)
		}
		if d.downs != 1 {
			t.Errorf("exporter shut down %d times", d.downs)
		}
	})
}

func down(_ int, _ *profile.Profile) error {
	return &Error{Op: "post", Err: errors.New("nobody there"), Retryable: true, Hint: "start somebody"}
}

func shutdown(t *testing.T, q *Queue, within time.Duration) (took time.Duration, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	begin := time.Now()
	err = q.Shutdown(ctx)
	return time.Since(begin), err
}

func TestDeliversInOrder(t *testing.T) {
	d := &double{takes: time.Second}
	inBubble(t, d, QueueOptions{}, func(t *testing.T, q *Queue, log *bytes.Buffer) {
		for i := 1; i <= 3; i++ {
			q.Put(numbered(i, 10))
		}
		if time.Since(d.begin) != 0 {
			t.Error("Put waited")
		}
		took, err := shutdown(t, q, time.Minute)
		if err != nil || took != 3*time.Second {
			t.Errorf("shutdown: %v after %v", err, took)
		}
		if diff := cmp.Diff([]string{"0s 1", "1s 2", "2s 3"}, d.seen()); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
		if s := q.Stats(); s.Delivered != (Count{3, 30}) || s.DroppedTotal() != (Count{}) || s.Waiting != (Count{}) {
			t.Errorf("stats %+v", s)
		}
		if log.Len() > 0 {
			t.Errorf("logged %s", log)
		}
	})
}

func TestRetriesWithBackoff(t *testing.T) {
	d := &double{answer: func(attempt int, p *profile.Profile) error {
		if attempt <= 8 {
			return down(attempt, p)
		}
		return nil
	}}
	inBubble(t, d, QueueOptions{MaxBackoff: 20 * time.Second}, func(t *testing.T, q *Queue, log *bytes.Buffer) {
		q.Put(numbered(1, 1))
		q.Put(numbered(2, 1))
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		want := []time.Duration{1, 2, 4, 8, 16, 20, 20, 20} // seconds
		var last time.Duration
		for i, attempt := range d.seen()[1:9] {
			when, err := time.ParseDuration(strings.Fields(attempt)[0])
			if err != nil {
				t.Fatal(err)
			}
			if wait, most := when-last, want[i]*time.Second; wait < most/2 || wait > most {
				t.Errorf("wait %d was %v, want %v to %v", i, wait, most/2, most)
			}
			last = when
		}
		if s := q.Stats(); s.Delivered != (Count{2, 2}) || s.Failures != 8 || s.LastError == nil {
			t.Errorf("stats %+v", s)
		}
		wantLog := `level=WARN msg="profiles cannot be delivered, trying again" exporter=double error="post: nobody there" hint="start somebody"
level=INFO msg="profiles are delivered again" exporter=double dropped=0
`
		if diff := cmp.Diff(wantLog, log.String()); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
	})
}

func TestHonoursAfter(t *testing.T) {
	d := &double{answer: func(attempt int, _ *profile.Profile) error {
		if attempt == 1 {
			return fmt.Errorf("wrapped: %w", &Error{Err: errors.New("busy"), Retryable: true, After: 90 * time.Second})
		}
		return nil
	}}
	inBubble(t, d, QueueOptions{}, func(t *testing.T, q *Queue, _ *bytes.Buffer) {
		q.Put(numbered(1, 1))
		synctest.Wait()
		// Also at the end: who asked for time gets it.
		if took, err := shutdown(t, q, 2*time.Minute); err != nil || took != 90*time.Second {
			t.Errorf("shutdown: %v after %v", err, took)
		}
		if diff := cmp.Diff([]string{"0s 1", "1m30s 1"}, d.seen()); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
	})
}

func TestFinalFailuresAreCounted(t *testing.T) {
	d := &double{answer: func(attempt int, _ *profile.Profile) error {
		switch attempt {
		case 1:
			return errors.New("plain")
		case 2:
			return &Error{Err: errors.New("bad request")}
		case 3:
			return &Error{Err: errors.New("half of it"), Partial: true}
		case 5, 6:
			return &Error{Err: errors.New("old format"), Accepted: true}
		}
		return nil
	}}
	inBubble(t, d, QueueOptions{}, func(t *testing.T, q *Queue, log *bytes.Buffer) {
		for i := 1; i <= 6; i++ {
			q.Put(numbered(i, i))
		}
		synctest.Wait()
		s := q.Stats()
		want := map[Reason]Count{DroppedRefused: {2, 3}, DroppedPartly: {1, 3}}
		if diff := cmp.Diff(want, s.Dropped); diff != "" || s.Delivered != (Count{3, 15}) {
			t.Errorf("delivered %v, dropped -want +got\n%s", s.Delivered, diff)
		}
		if s.LastError == nil || s.LastError.Error() != "old format" {
			t.Errorf("last error %v", s.LastError)
		}
		wantLog := `level=WARN msg="profile was refused" exporter=double error=plain
level=INFO msg="profiles are delivered again" exporter=double dropped=3
level=WARN msg="destination took a profile with a warning" exporter=double error="old format"
`
		if diff := cmp.Diff(wantLog, log.String()); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
	})
}

func TestFullDropsTheOldest(t *testing.T) {
	for name, tt := range map[string]struct {
		o       QueueOptions
		takes   time.Duration
		answer  func(int, *profile.Profile) error
		put     []int // samples
		waiting []int // numbers that are left
		dropped map[Reason]Count
	}{
		"profiles, one under way":  {o: QueueOptions{MaxProfiles: 3}, takes: time.Hour, put: []int{1, 1, 1, 1, 1}, waiting: []int{1, 4, 5}, dropped: map[Reason]Count{DroppedFull: {2, 2}}},
		"profiles, one to retry":   {o: QueueOptions{MaxProfiles: 3}, answer: down, put: []int{1, 1, 1, 1, 1}, waiting: []int{3, 4, 5}, dropped: map[Reason]Count{DroppedFull: {2, 2}}},
		"samples, one under way":   {o: QueueOptions{MaxSamples: 10}, takes: time.Hour, put: []int{4, 4, 2, 6}, waiting: []int{1, 4}, dropped: map[Reason]Count{DroppedFull: {2, 6}}},
		"samples, one to retry":    {o: QueueOptions{MaxSamples: 10}, answer: down, put: []int{4, 4, 2, 6}, waiting: []int{3, 4}, dropped: map[Reason]Count{DroppedFull: {2, 8}}},
		"too large for any":        {o: QueueOptions{MaxSamples: 10}, answer: down, put: []int{4, 11}, waiting: []int{1}, dropped: map[Reason]Count{DroppedTooLarge: {1, 11}}},
		"no room beside one there": {o: QueueOptions{MaxSamples: 10}, takes: time.Hour, put: []int{4, 10}, waiting: []int{1}, dropped: map[Reason]Count{DroppedFull: {1, 10}}},
	} {
		t.Run(name, func(t *testing.T) {
			d := &double{takes: tt.takes, answer: tt.answer}
			synctest.Test(t, func(t *testing.T) {
				q := NewQueue(d, tt.o)
				for i, samples := range tt.put {
					q.Put(numbered(i+1, samples))
					synctest.Wait()
				}
				var waiting []int
				for _, p := range q.items {
					waiting = append(waiting, p.Seq)
				}
				s := q.Stats()
				if diff := cmp.Diff(tt.waiting, waiting); diff != "" {
					t.Errorf("waiting: -want +got\n%s", diff)
				}
				if diff := cmp.Diff(tt.dropped, s.Dropped); diff != "" {
					t.Errorf("dropped: -want +got\n%s", diff)
				}
				put := Count{int64(len(tt.put)), 0}
				for _, n := range tt.put {
					put.Samples += int64(n)
				}
				if took, _ := shutdown(t, q, time.Second); took > time.Second {
					t.Errorf("shutdown took %v", took)
				}
				s = q.Stats()
				sum := s.DroppedTotal()
				if sum.Profiles+s.Delivered.Profiles != put.Profiles || sum.Samples+s.Delivered.Samples != put.Samples {
					t.Errorf("put %v, then delivered %v, dropped %v", put, s.Delivered, s.Dropped)
				}
			})
		})
	}
}

func TestFlush(t *testing.T) {
	d := &double{takes: time.Second}
	inBubble(t, d, QueueOptions{}, func(t *testing.T, q *Queue, _ *bytes.Buffer) {
		if err := q.Flush(t.Context()); err != nil {
			t.Errorf("empty: %v", err)
		}
		q.Put(numbered(1, 1))
		q.Put(numbered(2, 1))
		time.AfterFunc(time.Second/2, func() { q.Put(numbered(3, 1)) }) // not waited for
		if err := q.Flush(t.Context()); err != nil || time.Since(d.begin) != 2*time.Second {
			t.Errorf("%v after %v", err, time.Since(d.begin))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		if err := q.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(d.begin) != 5*time.Second/2 {
			t.Errorf("%v after %v", err, time.Since(d.begin))
		}
	})
}

func TestShutdownWithNobodyThere(t *testing.T) {
	d := &double{answer: down}
	inBubble(t, d, QueueOptions{MinBackoff: 4 * time.Second}, func(t *testing.T, q *Queue, _ *bytes.Buffer) {
		q.Put(numbered(1, 5))
		q.Put(numbered(2, 5))
		synctest.Wait()
		took, err := shutdown(t, q, 5*time.Second)
		if took > 5*time.Second {
			t.Errorf("took %v", took)
		}
		if len(d.seen()) < 2 {
			t.Error("no attempt was made at the end")
		}
		if err == nil || HintOf(err) != "start somebody" || !strings.Contains(err.Error(), "2 profiles were not delivered in time: post: nobody there") {
			t.Errorf("error %v, hint %q", err, HintOf(err))
		}
		if again := q.Shutdown(t.Context()); !errors.Is(again, err) {
			t.Errorf("second shutdown: %v", again)
		}
		q.Put(numbered(3, 5))
		if diff := cmp.Diff(map[Reason]Count{DroppedAtShutdown: {3, 15}}, q.Stats().Dropped); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
	})
}

func TestShutdownCutsAnAttemptShort(t *testing.T) {
	d := &double{takes: time.Hour}
	inBubble(t, d, QueueOptions{}, func(t *testing.T, q *Queue, _ *bytes.Buffer) {
		d.answer = down // no nil error expected
		q.Put(numbered(1, 5))
		synctest.Wait()
		took, err := shutdown(t, q, 2*time.Second)
		if took != 2*time.Second || !errors.Is(err, context.Canceled) {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// A logger that blocks must not block who puts.
func TestPutDoesNotWaitForTheLog(t *testing.T) {
	r, w := make(chan struct{}), &bytes.Buffer{}
	handler := slog.NewTextHandler(writerFunc(func(b []byte) (int, error) { <-r; return w.Write(b) }), nil)
	q := NewQueue(&double{answer: down}, QueueOptions{Logger: slog.New(handler)})
	for i := range 500 {
		q.Put(numbered(i, 1))
		time.Sleep(10 * time.Microsecond)
	}
	close(r)
	_, _ = shutdown(t, q, time.Millisecond)
	if w.Len() == 0 {
		t.Error("nothing was logged")
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func TestErrorText(t *testing.T) {
	inner := errors.New("inner")
	for want, e := range map[string]*Error{"inner": {Err: inner}, "post: inner": {Op: "post", Err: inner, Hint: "hint"}} {
		if e.Error() != want || !errors.Is(e, inner) {
			t.Errorf("%q, want %q", e.Error(), want)
		}
	}
	if HintOf(inner) != "" || HintOf(fmt.Errorf("outer: %w", &Error{Err: inner, Hint: "x"})) != "x" {
		t.Error("hint")
	}
}
