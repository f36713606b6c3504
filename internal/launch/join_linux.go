package launch

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

// handoffTimeout bounds the wait for a front that has just started us.
const handoffTimeout = 10 * time.Second

// Join makes this process the agent that a front started. It gives the process
// a name and makes it ignore what ends others: an agent ends when its work is
// done.
func Join() (*Session, error) {
	signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGPIPE)
	for _, fd := range []int{listenerFD, controlFD} {
		if kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || kind != unix.SOCK_STREAM {
			return nil, errors.New("an agent is started by `spanflame run`, not by hand")
		}
		unix.CloseOnExec(fd)
		if err := unix.SetNonblock(fd, true); err != nil {
			return nil, err
		}
	}
	// It is "exe" by the path that we were started by. Failing is no harm.
	_ = os.WriteFile("/proc/self/comm", []byte("spanflame agent"), 0)

	conn := os.NewFile(controlFD, "control")
	control := make(chan Event, 4) // a front sends two
	s := &Session{Listener: os.NewFile(listenerFD, "listener"), Control: control, conn: conn}
	decoder := json.NewDecoder(conn)
	var first message
	_ = conn.SetReadDeadline(time.Now().Add(handoffTimeout))
	if err := decoder.Decode(&first); err != nil {
		return nil, fmt.Errorf("read the configuration from spanflame run: %w", err)
	}
	if first.Kind != kindHandoff {
		return nil, fmt.Errorf("spanflame run sent %q before the configuration", first.Kind)
	}
	_ = conn.SetReadDeadline(time.Time{})
	s.Handoff = first.Handoff
	go func() { // until the front is gone or Close
		defer close(control)
		for {
			var m message
			if decoder.Decode(&m) != nil {
				return
			}
			control <- Event{EventKind(m.Kind), m.PID}
		}
	}()
	return s, nil
}

// Ack says that the exited command's clocks were read.
func (s *Session) Ack(pid int) { s.send(message{Kind: kindAck, PID: pid}) }

// Flushed says that the command's last profile is delivered. The front ends
// then; from here on nothing is said on standard error, which whoever started
// the front may be reading to its end.
func (s *Session) Flushed() {
	if null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0); err == nil {
		_ = unix.Dup3(null, 2, 0)
		unix.Close(null)
	}
	s.send(message{Kind: kindFlushed})
}

// send fails only if the front is gone, which Control tells.
func (s *Session) send(m message) {
	if data, err := json.Marshal(m); err == nil {
		_ = s.conn.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = s.conn.Write(append(data, '\n'))
	}
}

// Close hangs up.
func (s *Session) Close() error { return s.conn.Close() }
