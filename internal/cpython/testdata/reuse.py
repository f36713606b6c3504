"""Makes code objects without end, each at the address of one that was freed.

reuse.py ROUNDS: how long each works. outerN calls innerN; both are of file N. With OpenTelemetry the span changes at
each call, so that stack and span have to be read twice.
"""

import json
import sys
import threading
import types

ROUNDS = int(sys.argv[1])


def outer(inner):
    return inner() + inner()


def inner():
    n = 0
    for _ in range(ROUNDS):
        n += 1
    return n


def contexts():
    try:
        from opentelemetry import context, trace
        from opentelemetry.sdk.trace import TracerProvider
    except ImportError:
        return lambda i: None
    tracer = TracerProvider().get_tracer("reuse")
    prepared = [trace.set_span_in_context(tracer.start_span(str(i)), context.Context()) for i in range(2)]
    return lambda i: context.attach(prepared[i % 2])


def renamed(function, name, i):
    code = function.__code__.replace(co_name=name, co_qualname=name, co_filename=str(i))
    return types.FunctionType(code, {"ROUNDS": ROUNDS, "range": range})


def loop():
    attach, i = contexts(), 0
    ready.set()
    while True:
        i += 1
        attach(i)
        renamed(outer, f"outer{i}", i)(renamed(inner, f"inner{i}", i))


ready = threading.Event()
thread = threading.Thread(target=loop, daemon=True)
thread.start()
ready.wait()
print(json.dumps(thread.ident), flush=True)
sys.stdin.read()
