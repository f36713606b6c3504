package shim

import "os"

// Conn is one registered target.
type Conn struct {
	Hello   Hello
	Peer    Peer
	Mem     *os.File // nil where the target could not open its own memory
	ProcDir *os.File // nil likewise
	Ring    *Ring    // nil likewise
}

// Receive returns the next message; io.EOF once the target closed.
func (c *Conn) Receive() (Message, error) { return nil, ErrUnsupported }

// Send sends a message of the given type.
func (c *Conn) Send(kind string, fields map[string]any) error { return ErrUnsupported }

// Close closes the connection, its files and the ring.
func (c *Conn) Close() error { return nil }
