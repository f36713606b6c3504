package shim

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// Conn is one registered target. One goroutine may receive while another sends
// or closes; Ring has one reader.
type Conn struct {
	Hello Hello
	Peer  Peer

	// Each is nil where the target could not open it: in a chroot without
	// /proc, after setuid, with no descriptors left.
	Mem     *os.File // its /proc/self/mem
	ProcDir *os.File // its /proc/self
	Ring    *Ring

	sock *net.UnixConn
}

// Receive returns the next message; io.EOF once the target closed.
func (c *Conn) Receive() (Message, error) {
	body, files, err := receiveFrame(c.sock)
	closeAll(files...) // only a registration brings files
	if errors.Is(err, syscall.ECONNRESET) {
		err = io.EOF // it closed without having read our answer
	}
	if err != nil {
		return nil, err
	}
	return decodeMessage(body)
}

// Send sends a message of the given type. It does not wait for a target that
// does not read.
func (c *Conn) Send(kind string, fields map[string]any) error {
	message := map[string]any{}
	for key, value := range fields {
		message[key] = value
	}
	message["type"], message["version"] = kind, Version
	body, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("encode %s message: %w", kind, err)
	}
	if len(body) > maxMessage {
		return fmt.Errorf("encode %s message: %w", kind, errTooLong)
	}
	frame := binary.LittleEndian.AppendUint32(nil, uint32(len(body)))
	if err := c.sock.SetWriteDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return err
	}
	_, err = c.sock.Write(append(frame, body...))
	return err
}

// Close closes the connection, its files and the ring, and ends a Receive.
func (c *Conn) Close() error {
	c.closeFiles()
	return c.sock.Close()
}

func (c *Conn) closeFiles() {
	closeAll(c.Mem, c.ProcDir)
	if c.Ring != nil {
		c.Ring.Close()
	}
}

// adopt takes the files over by the names that the registration gives them.
// On an error they all stay the caller's.
func (c *Conn) adopt(names []string, files []*os.File) error {
	if len(names) != len(files) {
		return fmt.Errorf("%d files announced, %d received", len(names), len(files))
	}
	byName := map[string]*os.File{}
	for i, name := range names {
		if byName[name] != nil {
			return fmt.Errorf("file %q sent twice", name)
		}
		byName[name] = files[i]
	}
	for name, f := range byName {
		var err error
		switch name {
		case fileMem, fileProc:
			err = checkProc(f)
		case fileRing:
			c.Ring, err = openRing(f)
		default:
			err = errors.New("unknown")
		}
		if err != nil {
			c.Ring = nil
			return fmt.Errorf("file %q: %w", name, err)
		}
	}
	c.Mem, c.ProcDir = byName[fileMem], byName[fileProc]
	return nil
}

// receiveFrame reads one message and the files that came with its first byte.
func receiveFrame(sock *net.UnixConn) (body []byte, files []*os.File, err error) {
	defer func() {
		if err != nil {
			closeAll(files...)
			files = nil
		}
	}()
	var length [4]byte
	n, files, err := readWithFiles(sock, length[:])
	if err != nil {
		return nil, files, err
	}
	if _, err := io.ReadFull(sock, length[n:]); err != nil {
		return nil, files, unexpected(err)
	}
	size := binary.LittleEndian.Uint32(length[:])
	if size > maxMessage {
		return nil, files, errTooLong
	}
	body = make([]byte, size)
	if _, err := io.ReadFull(sock, body); err != nil {
		return nil, files, unexpected(err)
	}
	return body, files, nil
}

// unexpected marks an end inside a message, which is not a normal one.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
