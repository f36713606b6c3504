//go:build linux

package shim

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Programs that are hard on whoever lives in their process. Each must end as
// it would without us; what the agent gets of it is in want.
var hardPrograms = []struct {
	name    string
	script  string
	targets int // at least
	check   func(*testing.T, []*target)
}{
	{"forks from threads", traced + `
import os, threading
def forks():
    for _ in range(25):
        pid = os.fork()
        if pid == 0:
            with tracer.start_as_current_span("a"): pass
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
threads = [threading.Thread(target=forks) for _ in range(8)]
for t in threads: t.start()
for t in threads: t.join()
`, 201, func(t *testing.T, targets []*target) {
		pids := map[int]bool{}
		for _, got := range targets {
			pids[got.PID] = true
			if !got.hasMem || !got.hasRing || got.Forked && len(got.otel) != 1 {
				t.Fatalf("target %+v", got)
			}
		}
		if len(pids) != 201 {
			t.Errorf("%d processes", len(pids))
		}
	}},
	{"exec", `
import os, sys
if len(sys.argv) < 2: os.execv(sys.executable, [sys.executable, "-c", "import os; names = [os.readlink('/proc/self/fd/%d' % fd) for fd in range(3, 100) if os.path.exists('/proc/self/fd/%d' % fd)]; assert sum('memfd:spanflame' in n for n in names) <= 1, names"])
`, 2, func(t *testing.T, targets []*target) {
		if targets[0].PID != targets[1].PID || targets[1].Forked {
			t.Errorf("targets %+v %+v", targets[0], targets[1])
		}
	}},
	{"multiprocessing", `
import multiprocessing
if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(abs, [-1, -2]) == [1, 2]
`, 3, nil},
	{"subprocess with preexec_fn", `
import subprocess, sys
subprocess.run([sys.executable, "-c", "pass"], preexec_fn=lambda: None, check=True)
`, 3, nil},
	// A daemon closes what it did not open, and opens its own files under our numbers.
	{"closed descriptors", `
import os, sys, tempfile
os.closerange(3, 256)
paths = [tempfile.mkstemp() for _ in range(12)]
` + traced + `
with tracer.start_as_current_span("a") as span: span.update_name("b")
pid = os.fork()
if pid == 0:
    with tracer.start_as_current_span("a") as span: span.update_name("c")
    for fd, path in paths: os.fstat(fd)
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
for fd, path in paths:
    assert os.fstat(fd).st_size == 0 and os.stat(path).st_ino == os.fstat(fd).st_ino
    os.unlink(path)
`, 3, func(t *testing.T, targets []*target) {
		// At start, when OpenTelemetry found the socket closed, and the child.
		var names []string
		for _, got := range targets {
			for _, name := range got.names {
				names = append(names, name.Name)
			}
		}
		if slices.Sort(names); !slices.Equal(names, []string{"b", "c"}) {
			t.Errorf("names %v", names)
		}
	}},
	{"no descriptors left", `
import os, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
held = []
try:
    while True: held.append(os.dup(0))
except OSError: pass
for _ in range(3):
    pid = os.fork()
    if pid == 0: os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
`, 1, nil},
	{"few descriptors left", `
import os, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
held = []
try:
    while True: held.append(os.dup(0))
except OSError: pass
os.close(held.pop())
os.close(held.pop())
pid = os.fork()
if pid == 0: os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
`, 2, func(t *testing.T, targets []*target) {
		// The socket, its connection's end, and what fits.
		for _, got := range targets {
			if got.Forked && got.hasMem && got.hasProc && got.hasRing {
				t.Errorf("a child with hardly a descriptor sent all: %+v", got)
			}
		}
	}},
	{"no memory left", `
import os, resource
resource.setrlimit(resource.RLIMIT_AS, (4096, 4096))
pid = os.fork()
if pid == 0: os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
`, 1, nil},
	{"SIGPIPE", `
import signal
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
` + traced, 1, nil},
	{"default timeout", `
import socket, os
socket.setdefaulttimeout(0.0)
pid = os.fork()
if pid == 0: os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
`, 2, nil},
	{"gevent", `
from gevent import monkey; monkey.patch_all()
import gevent, os
` + traced + `
def work(i):
    with tracer.start_as_current_span("g") as span:
        gevent.sleep(0.01)
        span.update_name("g%d" % i)
gevent.joinall([gevent.spawn(work, i) for i in range(20)])
pid = os.fork()
if pid == 0: os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
`, 2, func(t *testing.T, targets []*target) {
		for _, got := range targets {
			if !got.Forked && len(got.names) != 20 {
				t.Errorf("names %v", got.names)
			}
		}
	}},
	{"record only", `
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import Sampler, SamplingResult, Decision
class RecordOnly(Sampler):
    def should_sample(self, *args, **kwargs): return SamplingResult(Decision.RECORD_ONLY)
    def get_description(self): return "r"
with TracerProvider(sampler=RecordOnly()).get_tracer("t").start_as_current_span("a") as span:
    assert span.attributes["pyroscope.profile.id"] and span._spanflame_root == "a"
`, 1, nil},
	{"by hand and by us", traced + `
from spanflame.otel import SpanProcessor, PyroscopeSpanProcessor
assert PyroscopeSpanProcessor is SpanProcessor
provider.add_span_processor(SpanProcessor())
with tracer.start_as_current_span("a") as span: span.update_name("b")
`, 1, func(t *testing.T, targets []*target) {
		if len(targets[0].names) != 1 {
			t.Errorf("names %v", targets[0].names)
		}
	}},
	{"other providers", `
import opentelemetry.sdk.trace as sdk, inspect
from opentelemetry import trace
class Mine(sdk.TracerProvider):
    def __init__(self): super().__init__(shutdown_on_exit=False, active_span_processor=sdk.ConcurrentMultiSpanProcessor(2))
assert "sampler" in inspect.signature(sdk.TracerProvider).parameters
a, b = Mine(), Mine()
tracer = a.get_tracer("t")
with tracer.start_as_current_span("root") as root:
    assert root.attributes["pyroscope.profile.id"]
    with tracer.start_as_current_span("child", context=trace.set_span_in_context(root)) as child:
        assert child._spanflame_root is root
    root.update_name("x")
from spanflame.otel import _ROOT
assert _ROOT.get() is None
a.shutdown(); assert b.force_flush()
`, 1, func(t *testing.T, targets []*target) {
		if len(targets[0].resources) != 2 || len(targets[0].otel) != 1 || len(targets[0].names) != 1 {
			t.Errorf("target %+v", targets[0])
		}
	}},
	{"never current", traced + `
from spanflame.otel import _ROOT
import contextvars, threading
span = tracer.start_span("a")
assert _ROOT.get() is span
contextvars.Context().run(lambda: [_ROOT.get()] == [None] or 1/0)
remote = trace.NonRecordingSpan(trace.SpanContext(1, 2, is_remote=True, trace_flags=trace.TraceFlags(1)))
inner = tracer.start_span("b", context=trace.set_span_in_context(remote))
assert inner._spanflame_root == "b" and _ROOT.get() is inner
contextvars.Context().run(inner.end)
assert _ROOT.get() is inner
span.end()
assert _ROOT.get() is inner
`, 1, nil},
}

func TestHardPrograms(t *testing.T) {
	python := testPython(t)
	for _, program := range hardPrograms {
		t.Run(program.name, func(t *testing.T) {
			if program.name == "gevent" && exec.Command(python, "-c", "import gevent").Run() != nil && os.Getenv("CI") == "" {
				t.Skip("no gevent")
			}
			a := startAgent(t)
			// OpenTelemetry 1.12 and fork with threads on 3.12 warn by themselves.
			if out := a.run(python, "-W", "ignore::DeprecationWarning", "-c", program.script); strings.TrimSpace(out) != "" {
				t.Errorf("printed %s", out)
			}
			targets := a.wait(program.targets)
			if program.check != nil {
				program.check(t, targets)
			}
		})
	}
}

func TestAgentGone(t *testing.T) {
	python := testPython(t)
	a := startAgent(t)
	cmd := a.command(python, "-W", "ignore::DeprecationWarning", "-c", traced+`
import os, sys
print("ready", flush=True)
sys.stdin.readline()
with tracer.start_as_current_span("a") as span: span.update_name("b")
TracerProvider()
pid = os.fork()
if pid == 0:
    TracerProvider()
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
`)
	stdin, _ := cmd.StdinPipe()
	stdout, _ := cmd.StdoutPipe()
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := stdout.Read(make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	a.close()
	if _, err := stdin.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || stderr.Len() > 0 {
		t.Errorf("%v\n%s", err, stderr.String())
	}
}

func TestNoAgent(t *testing.T) {
	python := testPython(t)
	a := startAgent(t)
	a.close()
	a.run(python, "-c", traced)
}

// Without a place to register the application has the agent's word only.
func TestIsolated(t *testing.T) {
	python := testPython(t)
	a := startAgent(t)
	for _, flag := range []string{"-I", "-S", "-E"} {
		a.run(python, flag, "-c", "import sys; assert 'spanflame' not in sys.modules")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.targets) > 0 {
		t.Errorf("%d targets", len(a.targets))
	}
}

func TestSetuid(t *testing.T) {
	python := testPython(t)
	a := startAgent(t)
	if a.command(python, "-c", "import os; os.setuid(65534); import colorsys").Run() != nil {
		t.Skip("needs root, and a Python that others may read")
	}
	a.wait(1)
	// Registered as root; the fork cannot open its own memory any more.
	a.run(python, "-c", traced+`
import os
os.setuid(65534)
with tracer.start_as_current_span("a") as span: span.update_name("b")
pid = os.fork()
if pid == 0: os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
`)
	for _, got := range a.wait(3)[1:] {
		if got.Forked && (got.Peer.UID != 65534 || got.hasMem || !got.hasRing) {
			t.Errorf("child %+v", got)
		}
		if !got.Forked && (got.Peer.UID != 0 || !got.hasMem || len(got.names) != 1) {
			t.Errorf("parent %+v", got)
		}
	}
}
