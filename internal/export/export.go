// Package export delivers profiles. An [Exporter] makes one attempt at one
// destination; a [Queue] before it waits, retries and counts. Each destination
// is a sub-package.
package export

import (
	"context"
	"errors"
	"time"

	"github.com/spanflame/spanflame/profile"
)

// Exporter sends profiles to one destination.
type Exporter interface {
	// Name is short, constant and lower case, such as "otlp". It shows in logs
	// and metrics.
	Name() string

	// Export makes one attempt to deliver p, and returns when p is delivered
	// (nil), when it is not, or when ctx ends. It bounds its own time: a
	// destination that does not answer must not hold it until ctx ends. It is
	// called from one goroutine at a time, may be called with the same profile
	// again, and neither changes p nor keeps any part of it.
	//
	// An *Error says more than that the attempt failed: whether to try again,
	// when, and what the user can do. Any other error is final for p. No error
	// text holds what is secret: values of headers, passwords in URLs.
	Export(ctx context.Context, p *profile.Profile) error

	// Shutdown frees what the exporter holds, such as connections. It is called
	// once, after the last Export has returned.
	Shutdown(ctx context.Context) error
}

// Error is a failed attempt to deliver a profile.
type Error struct {
	// Op is what was being done, such as "post profile". It begins the text if
	// it is not empty.
	Op string
	// Err is what went wrong. It is never nil.
	Err error

	// Retryable: the same profile may be taken later.
	Retryable bool
	// After is the time that the destination asked to be left alone for, 0 if
	// it did not say.
	After time.Duration
	// Partial: the destination took a part of the profile and refused the rest
	// for good. Never together with Retryable.
	Partial bool
	// Accepted: the destination took the whole profile; Err is its warning.
	Accepted bool

	// Hint says what the user can do, as a phrase that follows the error. May be
	// empty.
	Hint string
}

func (e *Error) Error() string {
	if e.Op == "" {
		return e.Err.Error()
	}
	return e.Op + ": " + e.Err.Error()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// HintOf returns the hint for the user that err carries, or "".
func HintOf(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Hint
	}
	return ""
}
