//go:build linux

package shim

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// TestHold serves shims for SPANFLAME_TEST_HOLD and prints the environment to
// use, for measurements and for trying things by hand.
func TestHold(t *testing.T) {
	hold, err := time.ParseDuration(os.Getenv("SPANFLAME_TEST_HOLD"))
	if err != nil {
		t.Skip("SPANFLAME_TEST_HOLD is not a duration")
	}
	a := startAgent(t)
	fmt.Printf("export SPANFLAME_SOCKET=%s SPANFLAME_TOKEN=%s PYTHONPATH=%s\n", a.name, a.token, a.dir)
	time.Sleep(hold)
}
