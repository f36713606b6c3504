//go:build linux

package shim

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const traced = `
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.resources import Resource
provider = TracerProvider(resource=Resource.create({"service.name": "shop", "big": "x" * 2000, "n": 7}))
trace.set_tracer_provider(provider)
tracer = trace.get_tracer("t")
`

func TestPlainScript(t *testing.T) {
	python := testPython(t)
	a := startAgent(t)
	out := a.run(python, "-c", "import sys; print('spanflame' in sys.modules, 'sitecustomize' in sys.modules, [p for p in sys.path if '/shim-' in p])")
	if out != "True False []\n" {
		t.Errorf("the application sees %q", out)
	}
	got := a.wait(1)[0]
	if got.PID != got.Peer.PID || got.Implementation != "cpython" || got.HexVersion>>24 != 3 || got.Forked || got.FreeThreaded {
		t.Errorf("hello %+v of peer %+v", got.Hello, got.Peer)
	}
	if !got.hasMem || !got.hasProc || !got.hasRing || got.TID != got.PID || len(got.Args) == 0 {
		t.Errorf("target %+v", got)
	}
	if len(got.otel) != 0 {
		t.Errorf("otel message without OpenTelemetry")
	}
}

func TestProvider(t *testing.T) {
	python := testPython(t)
	a := startAgent(t)
	a.run(python, "-c", traced+`
with tracer.start_as_current_span("first") as span:
    assert span.attributes["pyroscope.profile.id"] == format(span.context.span_id, "016x")
    assert span._spanflame_root == "first"
    with tracer.start_as_current_span("child") as child:
        assert child._spanflame_root is span and "pyroscope.profile.id" not in child.attributes
        with tracer.start_as_current_span("grandchild") as grandchild:
            assert grandchild._spanflame_root is span
        child.update_name("not reported")
    span.update_name("löngest " + "n" * 100)
with tracer.start_as_current_span("second"):
    pass
with tracer.start_as_current_span("huge") as span:
    span.update_name("ö" * 1000000)
`)
	got := a.wait(1)[0]
	if len(got.otel) != 1 || got.otel[0].ContextVar == 0 || got.otel[0].SpanKey == 0 || got.otel[0].RootVar == 0 || got.otel[0].None == 0 {
		t.Errorf("otel %+v", got.otel)
	}
	if len(got.resources) != 1 || got.resources[0]["service.name"] != "shop" || got.resources[0]["n"] != int64(7) || got.resources[0]["big"] != nil {
		t.Errorf("resources %v", got.resources)
	}
	if len(got.names) != 2 || got.names[0].Name != "löngest "+strings.Repeat("n", 100) || got.names[1].Name != strings.Repeat("ö", 512) {
		t.Errorf("names %v", got.names)
	}
	if got.drops != 0 {
		t.Errorf("%d records lost", got.drops)
	}
}

func TestFork(t *testing.T) {
	python := testPython(t)
	a := startAgent(t)
	a.run(python, "-c", traced+`
import os
with tracer.start_as_current_span("old APIs make their context at first use"): pass
if os.fork() == 0:
    if os.fork() == 0:
        with tracer.start_as_current_span("a") as span: span.update_name("b")
        os._exit(0)
    os.wait()
    os._exit(0)
os.wait()
`)
	targets := a.wait(3)
	forked := 0
	for _, got := range targets {
		if got.Forked {
			forked++
		}
		if !got.hasMem || !got.hasRing || len(got.otel) != 1 || len(got.resources) != 1 || got.otel[0] != targets[0].otel[0] {
			t.Errorf("target %+v", got)
		}
	}
	if forked != 2 {
		t.Errorf("%d of %d targets forked", forked, len(targets))
	}
}

// Both are of the same trick: a sitecustomize first on the path.
func TestOpenTelemetryInstrument(t *testing.T) {
	python := testPython(t)
	instrument := filepath.Join(filepath.Dir(python), "opentelemetry-instrument")
	if _, err := os.Stat(instrument); err != nil && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	const script = `
import sys
from opentelemetry import trace
with trace.get_tracer("t").start_as_current_span("s") as span:
    assert span.attributes["pyroscope.profile.id"], span
assert "auto_instrumentation" in sys.modules["sitecustomize"].__file__
assert not [p for p in sys.path if "/shim-" in p], sys.path
`
	t.Run("inside", func(t *testing.T) { // spanflame run -- opentelemetry-instrument python
		a := startAgent(t)
		a.run(instrument, python, "-c", script)
		if last := a.wait(2)[1]; len(last.otel) != 1 || len(last.resources) != 1 {
			t.Errorf("target %+v", last)
		}
	})
	t.Run("outside", func(t *testing.T) { // opentelemetry-instrument spanflame run -- python
		a := startAgent(t)
		a.run(instrument, "env",
			"SPANFLAME_SOCKET="+a.name, "SPANFLAME_TOKEN="+a.token,
			"sh", "-c", `PYTHONPATH=`+a.dir+`:$PYTHONPATH exec "$@"`, "sh", python, "-c", script)
		targets := a.wait(2)
		if last := targets[len(targets)-1]; len(last.otel) != 1 || len(last.resources) != 1 {
			t.Errorf("target %+v", last)
		}
	})
}

// What we import the application may find imported; so it is little, and
// nothing that behaves otherwise once gevent has patched it.
func TestModules(t *testing.T) {
	python := testPython(t)
	a := startAgent(t)
	without := a.command(python, "-c", "import sys; print(*sys.modules)")
	without.Env = Environ(without.Env, "/nowhere", "", "")
	bare, err := without.Output()
	if err != nil {
		t.Fatal(err)
	}
	lists := strings.Split(a.run(python, "-c", "import sys; print(*sys.modules); from spanflame import shim; print(*shim.STDLIB)"), "\n")
	allowed := append(strings.Fields(string(bare)), strings.Fields(lists[1])...)
	allowed = append(allowed, "encodings.ascii") // CPython's, in its development mode, for any extension module
	for _, module := range strings.Fields(lists[0]) {
		if !slices.Contains(allowed, module) && !strings.HasPrefix(module, "spanflame") {
			t.Errorf("imports %s", module)
		}
	}
}
