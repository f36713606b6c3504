"""A thread 30 calls deep in different functions, in a span if OpenTelemetry is there."""

import contextlib
import json
import sys
import threading

gate = threading.Lock()
gate.acquire()
scope = {"f29": lambda: (ready.set(), gate.acquire())}
for i in range(29):
    source = f"def f{i}():\n    x, y = {i}, []\n    y.append(x)\n    return f{i + 1}()\n"
    exec(compile(source, f"module{i}.py", "exec"), scope)
ready = threading.Event()


def span():
    try:
        from opentelemetry.sdk.trace import TracerProvider
    except ImportError:
        return contextlib.nullcontext()
    return TracerProvider().get_tracer("chain").start_as_current_span("chain")


def run():
    with span():
        scope["f0"]()


thread = threading.Thread(target=run, daemon=True)
thread.start()
ready.wait()
print(json.dumps(thread.ident), flush=True)
sys.stdin.read()
