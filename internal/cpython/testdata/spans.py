"""Threads parked in spans of the OpenTelemetry SDK, of all shapes.

Prints {ident: [name, trace id, span id, root's span id, root's name]}, the ids
in hex and "" where no link is right, and then ends the spans of the threads
whose idents it reads. The processor marks spans as spanflame's shim does.
"""

import asyncio
import contextvars
import ctypes
import json
import sys
import threading

from opentelemetry import context, trace
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF


class Marks(SpanProcessor):
    def on_start(self, span, parent_context=None):
        parent = trace.get_current_span(parent_context)
        if span.parent is None or span.parent.is_remote:
            span._spanflame_root = str(span.name)
        else:
            root = parent._spanflame_root
            span._spanflame_root = parent if isinstance(root, str) else root


class Small(IdGenerator):
    def generate_trace_id(self):
        return 0xABC

    def generate_span_id(self):
        return 1


def tracer_of(ids=None, **options):
    provider = TracerProvider(id_generator=ids or RandomIdGenerator(), shutdown_on_exit=False, **options)
    provider.add_span_processor(Marks())
    return provider.get_tracer("spans")


tracer = tracer_of()
span = tracer.start_as_current_span
gate = threading.Lock()
gate.acquire()
expected, ends, ready = {}, {}, threading.Semaphore(0)


def park(current=None, root=None):
    ids = ["", "", "", ""]
    if current is not None:
        at, top = current.get_span_context(), (root or current)
        ids = [f"{at.trace_id:032x}", f"{at.span_id:016x}", f"{top.get_span_context().span_id:016x}", top.name]
        ends[threading.get_ident()] = current
    expected[threading.get_ident()] = [threading.current_thread().name, *ids]
    ready.release()
    gate.acquire()


def none():
    park()


def nested():
    with span("root") as root, span("middle"), span("inner") as inner:
        park(inner, root)


def inner_ended():
    with span("root"):
        with span("inner", end_on_exit=False) as inner:
            inner.end()
            park()


def back_in_root():
    with span("root") as root:
        with span("inner"):
            pass
        park(root)


def unsampled():
    with tracer_of(sampler=ALWAYS_OFF).start_as_current_span("unsampled"):
        park()


def remote_parent():
    parent = trace.SpanContext(0x1234, 0x5678, is_remote=True, trace_flags=trace.TraceFlags(1))
    with span("server", context=trace.set_span_in_context(trace.NonRecordingSpan(parent))) as server:
        with span("inner") as inner:
            park(inner, server)


def remote_only():
    parent = trace.SpanContext(0x1234, 0x5678, is_remote=True, trace_flags=trace.TraceFlags(1))
    with trace.use_span(trace.NonRecordingSpan(parent)):
        park()


def small_ids():
    with tracer_of(Small()).start_as_current_span("small") as small:
        park(small)


def renamed():
    with span("before") as root:
        root.update_name("nach ü 名 \U0001f600")
        park(root)


class Name(str):
    pass


def subclass():
    with span(Name("subclass")) as root:
        park(root)


def subclass_wide():
    with span(Name("名 \U0001f600")) as root:
        park(root)


def attributes():
    with span("attributes") as root:
        for i in range(60):
            root.set_attribute(f"key{i}", i)
        park(root)


def own_dict():
    with span("dict") as root:
        vars(root)["extra"] = 1
        park(root)


def wide_dict():
    with span("wide") as root:
        for i in range(200):
            setattr(root, f"extra{i}", i)
        park(root)


def variables(n):
    def run():
        kept = [contextvars.ContextVar(f"v{i}") for i in range(n)]
        with span(f"variables{n}") as root:
            for var in kept:
                var.set(n)
            park(root)

    run.__name__ = f"variables{n}"
    return run


def collide():
    """ContextVars with the hash of OpenTelemetry's: a collision node."""
    var = context._RUNTIME_CONTEXT._current_context
    others = [contextvars.ContextVar(f"other{i}") for i in range(2)]
    with span("collide") as root:
        for other in others:
            # No program can choose a ContextVar's hash, which is at var_hash.
            word = ctypes.c_ssize_t.from_address(id(other) + 56)
            assert word.value == hash(other)
            word.value = hash(var)
            other.set(1)
        park(root)


def task():
    """A task that works among others that wait in spans of their own."""

    async def wait():
        with span("waiting"):
            await asyncio.sleep(10_000)

    async def work():
        await asyncio.sleep(0.01)
        with span("task") as root:
            with span("step") as step:
                park(step, root)

    async def everything():
        await asyncio.gather(*(wait() for _ in range(5)), work(), *(wait() for _ in range(5)))

    asyncio.run(everything())


def idle_loop():
    """An event loop whose tasks all wait in spans."""

    async def wait():
        with span("waiting"):
            await asyncio.sleep(10_000)

    async def everything():
        waiting = [asyncio.create_task(wait()) for _ in range(3)]
        asyncio.get_running_loop().call_soon(asyncio.get_running_loop().call_soon, park)
        await asyncio.gather(*waiting)

    asyncio.run(everything())


def generator():
    def produce():
        with span("generator") as root:
            yield root

    made = produce()
    park(next(made))


def main():
    targets = [none, nested, inner_ended, back_in_root, unsampled, remote_parent, remote_only, small_ids, renamed]
    targets += [subclass, subclass_wide, attributes, own_dict, wide_dict, collide, task, idle_loop, generator]
    targets += [variables(n) for n in (1, 12, 40, 300)]
    for target in targets:
        threading.Thread(target=target, name=target.__name__, daemon=True).start()
    for _ in targets:
        ready.acquire()
    print(json.dumps(expected), flush=True)
    for line in sys.stdin:
        ends[int(line)].end()
        print(json.dumps(True), flush=True)


main()
