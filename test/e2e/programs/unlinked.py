"""Phases, each in its own function, that are to be linked in one way or not at all."""

import asyncio
import contextvars
import sys
import threading

import traced
import truth
from opentelemetry import context, trace
from opentelemetry.trace import use_span

tracer = traced.tracer()
spans = traced.Spans()
links = {}
SHARE = 200_000_000


def _phase():
    return truth.burn(SHARE)


def phase(name, span, root=None):
    """Burn in a function called name, which is to be linked to span."""
    links[name] = traced.link(span, root)
    used = truth.named(_phase, name)()
    if span is not None:
        spans.add(span, [sys._getframe(1).f_code.co_name], used, root)


def fresh(f):
    """Run f in a context of its own, so that phases cannot disturb each other."""
    contextvars.Context().run(f)


def no_span():
    phase("without", None)


def unsampled():
    with tracer.start_as_current_span("drop"):
        phase("in_unsampled", None)
        with tracer.start_as_current_span("drop-child"):
            phase("in_unsampled_child", None)


def record_only():
    with tracer.start_as_current_span("record") as span:
        phase("in_record_only", None)
    spans.add(span, [])


def ended_but_current():
    span = tracer.start_span("ended")
    token = context.attach(trace.set_span_in_context(span))
    phase("before_end", span)
    span.end()
    phase("after_end", None)
    context.detach(token)
    phase("after_detach", None)


def inner_ended():
    """The inner span ended but is still current: not even the outer one is linked."""
    with tracer.start_as_current_span("outer") as outer:
        inner = tracer.start_span("inner")
        with use_span(inner, end_on_exit=False):
            phase("in_inner", inner, outer)
            inner.end()
            phase("inner_is_over", None)
        phase("outer_again", outer)


def never_current():
    root = tracer.start_span("never-current")
    phase("under_never_current", root)
    with tracer.start_as_current_span("other") as other:
        phase("other_is_current", other)
    phase("other_is_over", root)
    with tracer.start_as_current_span("drop"):
        phase("unsampled_blocks", None)
    phase("under_never_current_again", root)
    root.end()
    phase("never_current_ended", None)


def other_thread():
    """A root that was only started says nothing about another thread."""
    root = tracer.start_span("of-the-main-thread")
    thread = threading.Thread(target=phase, args=("in_another_thread", None))
    thread.start()
    thread.join()
    spans.add(root, ["other_thread"])
    root.end()


async def starter(started, done):
    root = tracer.start_span("of-a-task")
    phase("in_starter", root)
    started.set()
    await done.wait()
    phase("in_starter_again", root)
    root.end()


async def bystander(started, done):
    await started.wait()
    phase("in_bystander", None)
    done.set()


async def tasks():
    started, done = asyncio.Event(), asyncio.Event()
    await asyncio.gather(starter(started, done), bystander(started, done))


for f in (no_span, unsampled, record_only, ended_but_current, inner_ended, never_current, other_thread):
    fresh(f)
asyncio.run(tasks())
truth.write(spans=spans.all, links=links)
