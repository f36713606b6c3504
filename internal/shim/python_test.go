//go:build linux

package shim

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// target is what a fake agent, with the real server, saw of one connection.
type target struct {
	Hello
	Peer      Peer
	hasMem    bool
	hasProc   bool
	hasRing   bool
	otel      []Otel
	resources []map[string]any
	names     []SpanName
	drops     uint64
}

// agent records every target until it is closed.
type agent struct {
	t           *testing.T
	name, token string
	dir         string
	config      map[string]any
	stop        context.CancelFunc
	done        chan error

	mu      sync.Mutex
	targets []*target
}

func startAgent(t *testing.T) *agent {
	t.Helper()
	dir, err := Install()
	if err != nil {
		t.Fatal(err)
	}
	name, token, ln, err := NewEndpoint()
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{t: t, name: name, token: token, dir: dir, done: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	a.stop = cancel
	server := NewServer(ln, token, func(Hello, Peer) (map[string]any, error) { return a.config, nil }, slog.New(slog.DiscardHandler))
	go func() { a.done <- server.Serve(ctx, a.handle) }()
	t.Cleanup(a.close)
	return a
}

func (a *agent) close() {
	a.stop()
	select {
	case err := <-a.done:
		if err != nil {
			a.t.Errorf("serve: %v", err)
		}
		a.done <- nil
	case <-time.After(10 * time.Second):
		a.t.Error("serve did not end")
	}
}

func (a *agent) handle(conn *Conn) {
	seen := &target{
		Hello: conn.Hello, Peer: conn.Peer,
		hasMem: conn.Mem != nil, hasProc: conn.ProcDir != nil, hasRing: conn.Ring != nil,
	}
	for {
		message, err := conn.Receive()
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
				a.t.Errorf("receive: %v", err)
			}
			break
		}
		switch message := message.(type) {
		case *OtelMessage:
			seen.otel = append(seen.otel, message.Otel)
		case *ResourceMessage:
			seen.resources = append(seen.resources, message.Attributes)
		}
	}
	if conn.Ring != nil {
		seen.drops = conn.Ring.Drain(func(record Record) {
			name, err := record.SpanName()
			if err != nil {
				a.t.Errorf("span name: %v", err)
			}
			seen.names = append(seen.names, name)
		})
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.targets = append(a.targets, seen)
}

// wait returns the targets once count of them have come and gone.
func (a *agent) wait(count int) []*target {
	a.t.Helper()
	for range 1000 {
		a.mu.Lock()
		targets := a.targets
		a.mu.Unlock()
		if len(targets) >= count {
			return targets
		}
		time.Sleep(10 * time.Millisecond)
	}
	a.t.Fatalf("waited for %d targets, got %d", count, len(a.targets))
	return nil
}

// run runs a command with the shim on its path and returns what it printed.
func (a *agent) run(args ...string) string {
	a.t.Helper()
	cmd := a.command(args...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		a.t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (a *agent) command(args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	a.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = Environ(append(os.Environ(), "PYTHONDEVMODE=1", "OTEL_TRACES_EXPORTER=none", "OTEL_METRICS_EXPORTER=none", "OTEL_LOGS_EXPORTER=none"), a.dir, a.name, a.token)
	return cmd
}

// testPython is a Python with OpenTelemetry (scripts/testenv makes one).
func testPython(t *testing.T) string {
	t.Helper()
	python := os.Getenv("SPANFLAME_TEST_PYTHON")
	if python == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("SPANFLAME_TEST_PYTHON is not set")
		}
		t.Skip("SPANFLAME_TEST_PYTHON is not set: run scripts/testenv")
	}
	return python
}
