// Package cpython reads a running CPython interpreter from outside: its
// threads, their stacks and the OpenTelemetry span each of them is in.
//
// The interpreter keeps running while it is read. A pointer therefore proves
// nothing: an answer is believed only if the bytes that led to it were read
// together with it and fit each other (docs/sampling.md). What is read is
// hostile: every loop, size and depth is bounded.
package cpython

import (
	"errors"
	"fmt"

	"github.com/spanflame/spanflame/internal/proc"
)

var (
	// ErrNotPython means that a process has no CPython in it.
	ErrNotPython = errors.New("no CPython in the process")
	// ErrUnsupported means a CPython whose memory layout is not known here.
	ErrUnsupported = errors.New("not supported")
	// ErrTorn means that an answer did not hold together after several tries:
	// the thread changed faster than it could be read.
	ErrTorn = errors.New("stack did not hold still")
	// ErrThreadGone means that the thread's state is no longer in use.
	ErrThreadGone = errors.New("python thread is gone")

	errChunkGone = errors.New("a part of the data stack is gone")
	errMalformed = errors.New("malformed structure")
)

// Memory is the memory of one process.
type Memory interface {
	// Read fills the ranges in order and returns how many were filled before
	// the first that could not be: see [proc.Memory.Read].
	Read(ranges []proc.Range) (int, error)
	// ReadAt fills buf; it fails with [proc.ErrGone] when the process's program
	// has ended or been replaced.
	ReadAt(buf []byte, addr uint64) error
}

// Version is a CPython release: major, minor, micro. The last is -1 when it is
// not known.
type Version [3]int

// String returns the version as CPython prints it.
func (v Version) String() string {
	if v[2] < 0 {
		return fmt.Sprintf("%d.%d", v[0], v[1])
	}
	return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2])
}

// versionFromHex decodes PY_VERSION_HEX.
func versionFromHex(hex uint64) Version {
	return Version{int(hex >> 24 & 0xff), int(hex >> 16 & 0xff), int(hex >> 8 & 0xff)}
}

// Image is where the parts of an interpreter are that never move.
type Image struct {
	Path     string // the executable or library that holds the interpreter
	Version  Version
	Runtime  uint64 // _PyRuntime
	None     uint64 // _Py_NoneStruct
	CodeType uint64 // PyCode_Type
	StrType  uint64 // PyUnicode_Type
}

// Reader reads one interpreter. It is not safe for concurrent use.
type Reader struct {
	Image  Image
	mem    Memory
	layout *layout

	codes    map[uint64]*Code
	nodes    map[uint64]nodeKind // HAMT node types by address
	types    map[uint64]*typeInfo
	edges    map[edge]int // evidence for each
	spans    *spanFinder  // nil while OpenTelemetry is not known in the process
	recycles bool         // code objects were seen to take the place of others
	sample   uint64       // counts samples
	round    uint64       // counts comparisons of codes, to have each once in each
	known    int          // about the size of codes and edges

	small  batch // a few objects in one call
	batch  batch // a thread's state, stack and span
	stamps batch // what proves the code on that stack, while the former is still looked at
}

// NewReader returns a Reader for the interpreter at image: [ErrUnsupported],
// also where memory does not look as that version's should.
func NewReader(mem Memory, image Image) (*Reader, error) {
	r, err := newReader(mem, image)
	if err != nil {
		return nil, err
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	return r, nil
}

// newReader returns a Reader for memory that is as it should be.
func newReader(mem Memory, image Image) (*Reader, error) {
	layout, err := layoutOf(image.Version)
	if err != nil {
		return nil, err
	}
	return &Reader{
		Image:  image,
		mem:    mem,
		layout: layout,
		codes:  map[uint64]*Code{},
		edges:  map[edge]int{},
		nodes:  map[uint64]nodeKind{},
		types:  map[uint64]*typeInfo{},
	}, nil
}
