// Package shim is the agent's half of the conversation with the Python shim
// (python/spanflame): the files it consists of, the socket it registers over
// and the ring it writes events to. docs/shim.md describes the protocol.
//
// Whatever arrives comes from another process and is treated as hostile.
package shim

import (
	"errors"
	"os"
)

// Version is the version of the shim this agent carries. A shim that says
// another one is refused: both halves are released together, so there is no
// compatibility to keep.
const Version = "0.1.0"

// ErrUnsupported is returned where the operating system lacks what the
// conversation needs (abstract sockets, SCM_RIGHTS, memfd).
var ErrUnsupported = errors.New("the Python shim needs Linux")

// Hello is what a target says about itself when it registers.
type Hello struct {
	PID  int `json:"pid"`  // in the target's own pid namespace; see Peer
	PPID int `json:"ppid"` // likewise
	TID  int `json:"tid"`  // native id of the registering thread

	Forked         bool     `json:"forked"` // registered from the fork hook
	Implementation string   `json:"implementation"`
	Version        [3]int   `json:"python"`
	HexVersion     uint32   `json:"hexversion"`
	ReleaseLevel   string   `json:"releaselevel"`
	FreeThreaded   bool     `json:"free_threaded"`
	Platform       string   `json:"platform"`
	Executable     string   `json:"executable"`
	Args           []string `json:"args"` // the interpreter's whole command line, bounded
}

// Peer is who is at the other end, as the kernel says it (SO_PEERCRED), with
// the pid in our namespace.
type Peer struct{ PID, UID, GID int }

// Message is one of the pointer types below.
type Message interface{ message() }

// Otel are addresses of objects in the target, from which the active span of
// a thread is found. The shim keeps the objects alive.
type Otel struct {
	ContextVar uint64 `json:"context_var"` // OpenTelemetry's current context; 0: not in a ContextVar
	SpanKey    uint64 `json:"span_key"`    // key of the span in that context
	RootVar    uint64 `json:"root_var"`    // our ContextVar for roots never made current
	None       uint64 `json:"none"`
}

// OtelMessage comes when the target has loaded the OpenTelemetry SDK.
type OtelMessage struct{ Otel }

// ResourceMessage carries the resource of a tracer provider; the last stands.
// Values are string, bool, int64, float64 or []any of those.
type ResourceMessage struct {
	Attributes map[string]any `json:"attributes"`
}

// ErrorMessage says what failed inside the shim.
type ErrorMessage struct {
	Reason string `json:"reason"`
}

func (*OtelMessage) message()     {}
func (*ResourceMessage) message() {}
func (*ErrorMessage) message()    {}

// Names of the descriptors that come with a registration.
const (
	fileMem  = "mem"  // /proc/self/mem, opened for reading
	fileProc = "proc" // directory /proc/self
	fileRing = "ring"
)

// closeAll closes what is not nil.
func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}
