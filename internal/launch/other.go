//go:build !linux

package launch

import (
	"errors"
	"os"
)

// ErrUnsupported is returned where processes cannot be profiled from outside.
var ErrUnsupported = errors.New("spanflame run needs Linux; elsewhere start the command without it")

// Run is not available here.
func Run(c Command, _ Agent, _ func(string)) (int, error) {
	return 0, &Error{c.Args[0], ErrUnsupported}
}

// Exec is not available here.
func Exec(c Command) error { return &Error{c.Args[0], ErrUnsupported} }

// Join is not available here.
func Join() (*Session, error) { return nil, ErrUnsupported }

// Ack is not available here.
func (s *Session) Ack(int) {}

// Flushed is not available here.
func (s *Session) Flushed() {}

// Close is not available here.
func (s *Session) Close() error { return s.conn.Close() }

func executable(file string) error {
	info, err := os.Stat(file)
	if err == nil && info.Mode().Perm()&0o111 == 0 {
		err = os.ErrPermission
	}
	return err
}
