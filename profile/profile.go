// Package profile is spanflame's neutral data model: what was sampled, before
// any wire format. It is pure: no I/O, no clock, no log.
//
// A [Builder] merges samples of one process as they come; [Builder.Build]
// gives a [Profile], which encoders read and never change.
package profile

import "encoding/hex"

// ValueType names one value of a sample and its period, in the vocabulary of
// OTLP profiles and pprof.
type ValueType struct {
	Type string // such as "cpu"
	Unit string // UCUM-like pprof unit, such as "nanoseconds"

	PeriodType string // such as "cpu"
	PeriodUnit string // such as "nanoseconds"
	// Period is the mean distance between two samples in PeriodUnit, at least
	// 1: back ends refuse a profile without one.
	Period int64
}

// Frame is one call on a stack. Two equal Frames are the same frame.
type Frame struct {
	// Function is the qualified name, such as "Shop.checkout".
	Function string
	// File is the path as the runtime reports it; empty for a synthetic frame.
	File string
	// Line is the line that was executing, 0 when unknown.
	Line int32
	// StartLine is the first line of the function, 0 when unknown.
	StartLine int32
	// Type is the value of the attribute profile.frame.type of the
	// OpenTelemetry semantic conventions, such as "cpython"; empty for a
	// synthetic frame such as "[cpu not observed]".
	Type string
}

// TraceID and SpanID are W3C trace-context ids; zero means none.
type (
	TraceID [16]byte
	SpanID  [8]byte
)

// String returns 32 lower-case hexadecimal digits.
func (t TraceID) String() string { return hex.EncodeToString(t[:]) }

// IsZero reports whether the id is absent.
func (t TraceID) IsZero() bool { return t == TraceID{} }

// String returns 16 lower-case hexadecimal digits.
func (s SpanID) String() string { return hex.EncodeToString(s[:]) }

// IsZero reports whether the id is absent.
func (s SpanID) IsZero() bool { return s == SpanID{} }

// Link says which span was current. The zero Link is "no span".
type Link struct {
	Trace TraceID
	Span  SpanID
	// Root is the local root span: the ancestor (or the span itself) whose
	// parent is none or remote. Zero when it is not known.
	Root SpanID
}

// IsZero reports whether the link names no span.
func (l Link) IsZero() bool { return l == Link{} }

// Label is one attribute of a sample. Str is used when it is not empty,
// otherwise Num.
type Label struct {
	Key string
	Str string
	Num int64
}

// Label keys that encoders know by name. They are OpenTelemetry attribute
// names where the semantic conventions have one.
const (
	LabelThreadID       = "thread.id"        // Num: threading.get_ident of Python
	LabelThreadName     = "thread.name"      // Str
	LabelNativeThreadID = "thread.native_id" // Num: the kernel's thread id
)

// Attribute is one attribute of the resource: a string, bool, int64 or
// float64 value, or a slice of one of them.
type Attribute struct {
	Key   string
	Value any
}

// Sample is what one (stack, link, labels) cost. Indexes refer to the tables of
// the Profile that holds it.
type Sample struct {
	Stack  int // index into Profile.Stacks
	Link   int // index into Profile.Links
	Labels int // index into Profile.LabelSets
	// Values has one entry for each of Profile.Types. A zero value means the
	// sample says nothing of that type.
	Values []int64
}

// Profile is one window of one process.
type Profile struct {
	// Resource describes the process that was sampled.
	Resource []Attribute
	// PID is the process id in the agent's pid namespace, 0 when unknown.
	PID int
	// Seq counts the profiles of one process from 1.
	Seq int
	// Start is the begin of the window in Unix nanoseconds.
	Start int64
	// Duration of the window in nanoseconds.
	Duration int64

	Types  []ValueType
	Frames []Frame
	// Stacks holds indexes into Frames, leaf first.
	Stacks [][]int
	// Links[0] is the zero Link.
	Links []Link
	// SpanNames maps a local root's id to its final name.
	SpanNames map[SpanID]string
	// LabelSets[0] is empty.
	LabelSets [][]Label
	Samples   []Sample
}

// Total returns the sum of the values of the named type, and false when the
// profile has no such type.
func (p *Profile) Total(typ string) (int64, bool) {
	for i, t := range p.Types {
		if t.Type != typ {
			continue
		}
		var sum int64
		for _, s := range p.Samples {
			sum += s.Values[i]
		}
		return sum, true
	}
	return 0, false
}
