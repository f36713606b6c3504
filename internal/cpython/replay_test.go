package cpython

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestReplay needs no Python: it reads memory that was recorded.
func TestReplay(t *testing.T) {
	for _, minor := range dumpMinors {
		t.Run(fmt.Sprintf("3.%d", minor), func(t *testing.T) { replay(t, openDump(t, minor, 64<<20)) })
	}
}

func replay(t *testing.T, d *dump) {
	t.Helper()
	linked, deepest := 0, 0
	for _, s := range d.Truth {
		deepest = max(deepest, len(s.Stack))
		if s.Link != "" {
			linked++
		}
	}
	if len(d.Truth) < 16 || linked < 10 || deepest < 8 {
		t.Errorf("a poor recording: %d threads, %d in spans, %d frames", len(d.Truth), linked, deepest)
	}
	sameSession(t, d)
}

func sameSession(t *testing.T, d *dump) {
	t.Helper()
	got, err := session(d, d.Image)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(d.Truth, got); diff != "" {
		t.Errorf("-recorded +replayed:\n%s", diff)
	}
}
