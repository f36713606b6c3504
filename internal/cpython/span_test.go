//go:build linux

package cpython

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// inSpan is what testdata/spans.py prints of one thread: its name, and ids in
// hex that are empty where no link is right.
type inSpan struct{ Thread, Trace, Span, Root, RootName string }

func (s *inSpan) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&s.Thread, &s.Trace, &s.Span, &s.Root, &s.RootName})
}

// startSpans runs testdata/spans.py where OpenTelemetry is installed.
func startSpans(t testing.TB, path string) (*python, map[string]inSpan) {
	t.Helper()
	p := startPython(t, path, withOtel(t, path), filepath.Join("testdata", "spans.py"))
	var want map[string]inSpan
	p.read(t, &want)
	r := p.open(t)
	otel, err := r.FindOtel()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.SetOtel(otel); err != nil {
		t.Fatal(err)
	}
	return p, want
}

// seenIn samples a thread twice: the first sample finds the span, the second
// proves it in one reading.
func seenIn(t *testing.T, r *Reader, thread *Thread, name string) inSpan {
	t.Helper()
	var last inSpan
	for range 2 {
		if err := thread.Sample(); err != nil {
			t.Fatal(err)
		}
		if !thread.Proven {
			t.Errorf("%s: span not proven", name)
		}
		last = inSpan{Thread: name}
		if link := thread.Span.Link; !link.IsZero() {
			last.Trace, last.Span, last.Root = fmt.Sprintf("%x", link.Trace[:]), fmt.Sprintf("%x", link.Span[:]), fmt.Sprintf("%x", link.Root[:])
			last.RootName = thread.Span.RootName
		}
	}
	return last
}

// TestParkedSpans compares the spans of threads that hold still with what the
// program knows of them.
func TestParkedSpans(t *testing.T) {
	withInterpreters(t, parkedSpans)
}

func parkedSpans(t *testing.T, path string) {
	p, want := startSpans(t, path)
	all := threads(t, p.reader)
	for key, want := range want {
		ident, _ := strconv.ParseUint(key, 10, 64)
		if all[ident] == nil {
			t.Fatalf("%s is not listed", want.Thread)
		}
		if diff := cmp.Diff(want, seenIn(t, p.reader, all[ident], want.Thread)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", want.Thread, diff)
		}
	}
	for key, want := range want {
		if want.Span == "" {
			continue
		}
		ident, _ := strconv.ParseUint(key, 10, 64)
		thread := all[ident]
		if thread.SpanEnded() {
			t.Errorf("%s: span ended too early", want.Thread)
		}
		fmt.Fprintln(p.in, ident)
		var done bool
		p.read(t, &done)
		if !thread.SpanEnded() {
			t.Errorf("%s: span's end was not seen", want.Thread)
		}
		if got := seenIn(t, p.reader, thread, want.Thread); got.Span != "" {
			t.Errorf("%s: linked to a span that ended", want.Thread)
		}
	}
}

// TestMovingSpans samples threads that are in a new span every few
// microseconds: none may be linked to that of another moment.
func TestMovingSpans(t *testing.T) {
	withInterpreters(t, movingSpans)
}

func movingSpans(t *testing.T, path string) {
	p := startPython(t, path, withOtel(t, path), filepath.Join("testdata", "moving.py"))
	var idents []uint64
	p.read(t, &idents)
	r := p.open(t)
	otel, err := r.FindOtel()
	if err == nil {
		err = r.SetOtel(otel)
	}
	if err != nil {
		t.Fatal(err)
	}
	all := threads(t, r)
	for i, name := range []string{"threads", "tasks"} {
		thread, counts := all[idents[i]], map[string]int{}
		for range 1200 {
			time.Sleep(time.Duration(rand.IntN(200)) * time.Microsecond)
			if err := thread.Sample(); err != nil {
				counts["given up"]++
				continue
			}
			counts[verdictOf(thread)]++
		}
		t.Logf("%s: %v", name, counts)
		if counts["wrong span"]+counts["no span"] > 0 || counts["right span"] < 20 {
			t.Errorf("%s: %v", name, counts)
		}
	}
}

// verdictOf compares a sampled span with the function that it was seen in.
func verdictOf(t *Thread) string {
	for _, f := range t.Frames {
		odd := f.Code.Function == "work_b"
		switch link := t.Span.Link; {
		case !odd && f.Code.Function != "work_a":
		case !t.Proven:
			return "unproven"
		case link.IsZero():
			return "no span"
		case link.Span[7]&1 == 1 != odd:
			return "wrong span"
		default:
			return "right span"
		}
	}
	return "elsewhere"
}
