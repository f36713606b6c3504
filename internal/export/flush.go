package export

import (
	"context"
	"time"
)

// Flush waits until nothing that was put before the call waits any more, or
// ctx ends; then it returns the error of ctx.
func (q *Queue) Flush(ctx context.Context) error {
	const step = 5 * time.Millisecond
	ticker := time.NewTicker(step)
	defer ticker.Stop()
	for q.Stats().Waiting.Profiles > 0 {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
