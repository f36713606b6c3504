package launch

import "encoding/json"

// message is one JSON value on the control socket. The front sends a Handoff
// and then events; the agent sends ack and flushed.
type message struct {
	Kind    string          `json:"kind"`
	PID     int             `json:"pid,omitempty"`
	Handoff json.RawMessage `json:"handoff,omitempty"`
}

const (
	kindHandoff = "handoff"
	kindAck     = "ack"
	kindFlushed = "flushed"
)

// Descriptors of a new agent, after the standard streams.
const (
	listenerFD = 3
	controlFD  = 4
)
