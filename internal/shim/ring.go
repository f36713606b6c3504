package shim

import "github.com/spanflame/spanflame/profile"

// RecordType says what a record holds.
type RecordType uint8

// TypeSpanName is the only record so far.
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
func (r Record) SpanName() (SpanName, error) { return SpanName{}, ErrUnsupported }

// Ring is the reading end of a target's ring.
type Ring struct{}

// Drain hands every complete record to each and returns how many were lost
// since the last call.
func (r *Ring) Drain(each func(Record)) (drops uint64) { return 0 }

// Close releases the ring.
func (r *Ring) Close() {}
