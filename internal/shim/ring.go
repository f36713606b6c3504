package shim

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strings"

	"github.com/spanflame/spanflame/profile"
)

// The layout of the ring (docs/shim.md; written by python/spanflame/ring.py).
const (
	ringMagic    = "SPFLRING"
	ringFormat   = 1
	ringHeader   = 4096
	ringMaxSlots = 1 << 16

	dropsOffset    = 64  // written by the target
	positionOffset = 128 // written by us

	slotSize     = 128
	slotChunk    = 84 // payload bytes
	flagMore     = 1  // the record goes on in a later slot
	recordLimit  = 4096
	partialLimit = 64 // unfinished records kept

	batchSlots = 32 // read at once: one page

	// A slot whose writer never came back (an exception from a signal handler
	// in between) is passed over after as many drains, if later ones are there.
	holePatience = 100
)

// RecordType says what a record holds.
type RecordType uint8

// TypeSpanName is the final name of a local root span, if it changed.
const TypeSpanName RecordType = 1

// Record is one event of the target.
type Record struct {
	Type    RecordType
	Time    int64  // the target's CLOCK_MONOTONIC, ns
	Thread  uint64 // Python's ident
	Payload []byte // valid during the call only
}

// SpanName is the final name of a local root span.
type SpanName struct {
	Span profile.SpanID
	Name string
}

// SpanName decodes a TypeSpanName record.
func (r Record) SpanName() (SpanName, error) {
	if r.Type != TypeSpanName || len(r.Payload) < 8 {
		return SpanName{}, errors.New("decode span name: not such a record")
	}
	var name SpanName
	// Ids are big-endian in OpenTelemetry, the ring's integers are not.
	binary.BigEndian.PutUint64(name.Span[:], binary.LittleEndian.Uint64(r.Payload))
	// The shim cuts long names between any two bytes.
	name.Name = strings.ToValidUTF8(string(r.Payload[8:]), "")
	return name, nil
}

// Ring is the reading end of a target's ring. It has one reader.
type Ring struct {
	memory  io.ReaderAt
	publish func(position []byte) // tells the writer what is free again
	close   func()

	slots   uint64
	next    uint64 // sequence number of the slot to read; they start at 1
	drops   uint64 // the target's count when last looked at
	hole    int    // drains for which next was missing and a later slot there
	partial map[uint64]*partialRecord
	batch   [batchSlots * slotSize]byte
	word    [8]byte
}

type partialRecord struct {
	payload []byte
	next    uint64 // slots back to the first, of the fragment to come
}

// openRing takes f over once it has proved to be a ring.
func openRing(f *os.File) (*Ring, error) {
	size, err := checkShared(f)
	if err != nil {
		return nil, err
	}
	ring, err := newRing(f, size)
	if err != nil {
		return nil, err
	}
	ring.publish = func(position []byte) {
		// Should it fail, the target finds its ring full and counts drops.
		_, _ = f.WriteAt(position, positionOffset)
	}
	ring.close = func() { f.Close() }
	return ring, nil
}

// newRing checks the header against the size that the kernel tells.
func newRing(memory io.ReaderAt, size int64) (*Ring, error) {
	var header [20]byte
	if _, err := memory.ReadAt(header[:], 0); err != nil {
		return nil, fmt.Errorf("read ring header: %w", err)
	}
	word := func(at int) uint32 { return binary.LittleEndian.Uint32(header[at:]) }
	slots := uint64(word(16))
	switch {
	case !bytes.HasPrefix(header[:], []byte(ringMagic)):
		return nil, errors.New("no ring: wrong magic")
	case word(8) != ringFormat, word(12) != slotSize:
		return nil, fmt.Errorf("ring format %d with slots of %d bytes, want %d and %d", word(8), word(12), ringFormat, slotSize)
	case slots == 0 || slots > ringMaxSlots || size != int64(ringHeader+slots*slotSize):
		return nil, fmt.Errorf("ring of %d slots in %d bytes", slots, size)
	}
	return &Ring{
		memory:  memory,
		publish: func([]byte) {},
		close:   func() {},
		slots:   slots,
		next:    1,
		partial: map[uint64]*partialRecord{},
	}, nil
}

// Drain hands every complete record to each and returns how many records were
// lost since the last call: dropped by the target, or spoiled. It reads the
// ring round once at most, so that a writer cannot hold it.
func (r *Ring) Drain(each func(Record)) (drops uint64) {
	start := r.next
	for range r.slots/batchSlots + 1 {
		more, lost := r.drainBatch(each)
		drops += lost
		if !more {
			break
		}
	}
	if r.next == start {
		return drops
	}
	binary.LittleEndian.PutUint64(r.word[:], r.next-1)
	r.publish(r.word[:])
	if _, err := r.memory.ReadAt(r.word[:], dropsOffset); err == nil {
		if count := binary.LittleEndian.Uint64(r.word[:]); count > r.drops {
			drops += count - r.drops
			r.drops = count
		}
	}
	return drops
}

// Close releases the ring.
func (r *Ring) Close() { r.close() }

// drainBatch consumes slots up to the first that is not there, and says
// whether all of a batch were.
func (r *Ring) drainBatch(each func(Record)) (all bool, lost uint64) {
	count := r.readBatch()
	for i := range count {
		s, ok := parseSlot(r.batch[i*slotSize:][:slotSize])
		if !ok || s.sequence < r.next {
			skip := r.passHole(i, count)
			r.next += skip
			return false, lost + skip
		}
		// A later number: the writers overtook us (more threads than spare slots).
		lost += s.sequence - r.next
		r.next = s.sequence + 1
		r.hole = 0
		if !r.consume(s, each) {
			lost++
		}
	}
	return count == batchSlots, lost
}

// readBatch reads the slots from next on and returns how many it got.
func (r *Ring) readBatch() int {
	first := (r.next - 1) % r.slots
	run := min(batchSlots, r.slots-first)
	got := r.readSlots(0, first, run)
	if got == run && run < batchSlots {
		got += r.readSlots(run, 0, min(batchSlots-run, first))
	}
	return int(got)
}

func (r *Ring) readSlots(at, slot, count uint64) uint64 {
	n, _ := r.memory.ReadAt(r.batch[at*slotSize:][:count*slotSize], int64(ringHeader+slot*slotSize))
	return uint64(n / slotSize)
}

// passHole returns how many slots to give up, given that the i-th of the batch
// is missing.
func (r *Ring) passHole(i, count int) uint64 {
	for later := i + 1; later < count; later++ {
		s, ok := parseSlot(r.batch[later*slotSize:][:slotSize])
		if !ok || s.sequence != r.next+uint64(later-i) {
			continue
		}
		if r.hole++; r.hole < holePatience {
			return 0
		}
		r.hole = 0
		return uint64(later - i)
	}
	return 0
}

// slot is one slot of the ring, read whole.
type slot struct {
	Record
	sequence uint64
	back     uint64 // slots back to the record's first
	more     bool
}

// parseSlot decodes a slot; not ok is one that is empty or being written.
func parseSlot(raw []byte) (s slot, ok bool) {
	const body, tail = 12, slotSize - 8
	s.sequence = binary.LittleEndian.Uint64(raw)
	if s.sequence == 0 || s.sequence != binary.LittleEndian.Uint64(raw[tail:]) {
		return s, false
	}
	if crc32.ChecksumIEEE(raw[body:tail]) != binary.LittleEndian.Uint32(raw[8:]) {
		return s, false
	}
	s.Type = RecordType(raw[12])
	s.more = raw[13]&flagMore != 0
	length := binary.LittleEndian.Uint16(raw[14:])
	s.Time = int64(binary.LittleEndian.Uint64(raw[16:]))
	s.Thread = binary.LittleEndian.Uint64(raw[24:])
	s.back = uint64(binary.LittleEndian.Uint32(raw[32:]))
	if length > slotChunk {
		return s, false
	}
	s.Payload = raw[36:][:length]
	return s, true
}

// consume hands on a record that is complete and keeps a fragment of one that
// is not; false means that a record is lost.
func (r *Ring) consume(s slot, each func(Record)) bool {
	if s.back == 0 && !s.more {
		each(s.Record)
		return true
	}
	first := s.sequence - s.back
	p := r.partial[first]
	if s.back == 0 {
		p = &partialRecord{}
		r.partial[first] = p
	} else if p == nil {
		return true // its first fragment was lost, and counted
	}
	if s.back < p.next || len(p.payload)+len(s.Payload) > recordLimit {
		delete(r.partial, first)
		return false
	}
	p.next = s.back + 1
	p.payload = append(p.payload, s.Payload...)
	if !s.more {
		delete(r.partial, first)
		s.Payload = p.payload
		each(s.Record)
		return true
	}
	return r.forgetStale()
}

// forgetStale gives up a record whose rest cannot come any more.
func (r *Ring) forgetStale() bool {
	if len(r.partial) <= partialLimit {
		return true
	}
	oldest := r.next
	for first := range r.partial {
		oldest = min(oldest, first)
	}
	delete(r.partial, oldest)
	return false
}
