package shim

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
)

// NewEndpoint listens on an abstract socket with a random name, which leaves
// nothing on disk; name and token go into a target's environment (Environ).
func NewEndpoint() (name, token string, ln *net.UnixListener, err error) {
	name = "spanflame-" + randomHex()
	ln, err = net.ListenUnix("unix", &net.UnixAddr{Name: "@" + name, Net: "unix"})
	if err != nil {
		return "", "", nil, fmt.Errorf("listen for shims: %w", err)
	}
	return name, randomHex(), ln, nil
}

// ListenerFile returns a file through which another process can serve ln:
// pass it in exec.Cmd.ExtraFiles and open it there with FileListener. The
// caller closes both.
func ListenerFile(ln *net.UnixListener) (*os.File, error) { return ln.File() }

// FileListener is the other half of ListenerFile. It does not take f over.
func FileListener(f *os.File) (*net.UnixListener, error) {
	ln, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("open the handed-over listener: %w", err)
	}
	if unixListener, ok := ln.(*net.UnixListener); ok {
		return unixListener, nil
	}
	ln.Close()
	return nil, errors.New("open the handed-over listener: not a Unix socket")
}

func randomHex() string {
	var b [16]byte
	rand.Read(b[:]) // never fails (Go 1.24)
	return hex.EncodeToString(b[:])
}
