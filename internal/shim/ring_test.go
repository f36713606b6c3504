package shim

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// testRing is a ring in plain memory with a writer that does what ring.py does.
type testRing struct {
	memory   []byte
	slots    uint64
	sequence uint64
}

func newTestRing(slots uint64) *testRing {
	w := &testRing{memory: make([]byte, ringHeader+slots*slotSize), slots: slots}
	copy(w.memory, ringMagic)
	for i, word := range []uint32{ringFormat, slotSize, uint32(slots)} {
		binary.LittleEndian.PutUint32(w.memory[8+4*i:], word)
	}
	return w
}

func (w *testRing) reader(t testing.TB) *Ring {
	ring, err := newRing(bytes.NewReader(w.memory), int64(len(w.memory)))
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

// skip reserves a slot and never writes it.
func (w *testRing) skip() { w.sequence++ }

func (w *testRing) write(payload string) {
	for back := uint32(0); ; back++ {
		chunk := payload[:min(len(payload), slotChunk)]
		payload = payload[len(chunk):]
		w.fragment(chunk, back, payload != "")
		if payload == "" {
			return
		}
	}
}

func (w *testRing) fragment(chunk string, back uint32, more bool) {
	raw := w.memory[ringHeader+w.sequence%w.slots*slotSize:][:slotSize]
	w.sequence++
	clear(raw)
	binary.LittleEndian.PutUint64(raw, w.sequence)
	raw[12] = byte(TypeSpanName)
	if more {
		raw[13] = flagMore
	}
	binary.LittleEndian.PutUint16(raw[14:], uint16(len(chunk)))
	binary.LittleEndian.PutUint64(raw[16:], 123)
	binary.LittleEndian.PutUint64(raw[24:], 456)
	binary.LittleEndian.PutUint32(raw[32:], back)
	copy(raw[36:], chunk)
	binary.LittleEndian.PutUint32(raw[8:], crc32.ChecksumIEEE(raw[12:120]))
	binary.LittleEndian.PutUint64(raw[120:], w.sequence)
}

func drain(ring *Ring) (payloads []string, drops uint64) {
	drops = ring.Drain(func(record Record) { payloads = append(payloads, string(record.Payload)) })
	return payloads, drops
}

func wantDrain(t *testing.T, ring *Ring, wantDrops uint64, want ...string) {
	t.Helper()
	got, drops := drain(ring)
	if diff := cmp.Diff(want, got); diff != "" || drops != wantDrops {
		t.Errorf("%d drops, want %d; records (-want +got):\n%s", drops, wantDrops, diff)
	}
}

func TestRingKeepsUp(t *testing.T) {
	w := newTestRing(64)
	ring := w.reader(t)
	wantDrain(t, ring, 0)
	for range 100 { // many times round
		w.write("a")
		w.write(strings.Repeat("b", 200))
		w.write("")
		wantDrain(t, ring, 0, "a", strings.Repeat("b", 200), "")
	}
	wantDrain(t, ring, 0)
}

func TestRingInterleavedFragments(t *testing.T) {
	w := newTestRing(64)
	ring := w.reader(t)
	w.fragment("one ", 0, true)
	w.write("between")
	wantDrain(t, ring, 0, "between")
	w.fragment("two ", 0, true)
	w.fragment("half", 3, false)
	w.fragment("half", 2, false)
	wantDrain(t, ring, 0, "one half", "two half")
}

func TestRingOverrun(t *testing.T) {
	w := newTestRing(64)
	ring := w.reader(t)
	for range 100 {
		w.write("x")
	}
	payloads, drops := drain(ring)
	if len(payloads) != 36 || drops != 64 {
		t.Errorf("%d records and %d drops of 100", len(payloads), drops)
	}
	w.write("y")
	wantDrain(t, ring, 0, "y")
}

func TestRingCountsTargetsDrops(t *testing.T) {
	w := newTestRing(64)
	ring := w.reader(t)
	binary.LittleEndian.PutUint64(w.memory[dropsOffset:], 5)
	w.write("x")
	wantDrain(t, ring, 5, "x")
	w.write("y")
	wantDrain(t, ring, 0, "y")
}

func TestRingPassesHole(t *testing.T) {
	w := newTestRing(64)
	ring := w.reader(t)
	w.write("a")
	w.skip()
	w.write("b")
	wantDrain(t, ring, 0, "a")
	for range holePatience - 2 {
		wantDrain(t, ring, 0)
	}
	drain(ring) // gives the slot up
	wantDrain(t, ring, 0, "b")
}

func TestRingTornSlotWaits(t *testing.T) {
	w := newTestRing(64)
	ring := w.reader(t)
	w.write("a")
	at := ringHeader + 40
	w.memory[at] ^= 1
	wantDrain(t, ring, 0)
	w.memory[at] ^= 1
	wantDrain(t, ring, 0, "a")
}

func TestRingHeader(t *testing.T) {
	for name, spoil := range map[string]func([]byte) []byte{
		"magic":     func(b []byte) []byte { b[0] = 'X'; return b },
		"format":    func(b []byte) []byte { b[8]++; return b },
		"slot size": func(b []byte) []byte { b[12]++; return b },
		"no slots":  func(b []byte) []byte { return append(b[:16], make([]byte, ringHeader-16)...) },
		"too many":  func(b []byte) []byte { b[16]++; return b },
		"huge":      func(b []byte) []byte { b[19] = 0xff; return b },
		"empty":     func([]byte) []byte { return nil },
	} {
		memory := spoil(newTestRing(64).memory)
		if _, err := newRing(bytes.NewReader(memory), int64(len(memory))); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestDrainAllocatesNothing(t *testing.T) {
	w := newTestRing(4096)
	ring := w.reader(t)
	allocs := testing.AllocsPerRun(100, func() {
		w.write("payload")
		ring.Drain(func(Record) {})
	})
	if allocs > 0 {
		t.Errorf("%v allocations per drain", allocs)
	}
}

func FuzzRing(f *testing.F) {
	w := newTestRing(4)
	w.write("a")
	w.write(strings.Repeat("b", 150))
	f.Add(w.memory[ringHeader:])
	w.skip()
	w.write("c")
	f.Add(w.memory[ringHeader:])
	f.Fuzz(func(t *testing.T, slots []byte) {
		// The fuzzer cannot guess checksums: make them right.
		w := newTestRing(uint64(len(slots)/slotSize) + 1)
		copy(w.memory[ringHeader:], slots)
		for at := ringHeader; at < len(w.memory); at += slotSize {
			raw := w.memory[at:][:slotSize]
			copy(raw[120:], raw[:8])
			binary.LittleEndian.PutUint32(raw[8:], crc32.ChecksumIEEE(raw[12:120]))
		}
		ring := w.reader(t)
		for range 3 {
			ring.Drain(func(record Record) {
				if len(record.Payload) > recordLimit {
					t.Errorf("record of %d bytes", len(record.Payload))
				}
				_, _ = record.SpanName()
			})
			if len(ring.partial) > partialLimit+1 {
				t.Errorf("%d partial records", len(ring.partial))
			}
		}
	})
}
