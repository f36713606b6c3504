//go:build linux

package cpython

import (
	"path/filepath"
	"testing"
	"time"
)

// chain starts testdata/chain.py and samples its thread until all is known.
func chain(t testing.TB, path string) *Thread {
	p := startPython(t, path, withOtel(t, path), filepath.Join("testdata", "chain.py"))
	var ident uint64
	p.read(t, &ident)
	r := p.open(t)
	otel, err := r.FindOtel()
	if err == nil {
		err = r.SetOtel(otel)
	}
	if err != nil {
		t.Logf("without a span: %v", err)
	}
	time.Sleep(10 * time.Millisecond) // it is in its last call
	thread := threads(t, r)[ident]
	for range 50 {
		if err := thread.Sample(); err != nil {
			t.Fatal(err)
		}
	}
	if len(thread.Frames) < 30 || !thread.Proven || thread.Span.Link.IsZero() == r.HasOtel() {
		t.Fatalf("%d frames, proven %t, span %v", len(thread.Frames), thread.Proven, thread.Span)
	}
	return thread
}

// TestSampleAllocates nothing, once everything is known.
func TestSampleAllocates(t *testing.T) {
	withInterpreters(t, sampleAllocates)
}

func sampleAllocates(t *testing.T, path string) {
	thread := chain(t, path)
	n := testing.AllocsPerRun(200, func() {
		if err := thread.Sample(); err != nil {
			t.Fatal(err)
		}
	})
	if n > 0 {
		t.Errorf("%v allocations for a sample", n)
	}
}

func BenchmarkSample(b *testing.B) {
	thread := chain(b, interpreter(b, 11))
	b.ReportAllocs()
	for b.Loop() {
		if err := thread.Sample(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGeneration(b *testing.B) {
	r := chain(b, interpreter(b, 11)).r
	for b.Loop() {
		if _, err := r.Generation(); err != nil {
			b.Fatal(err)
		}
	}
}
