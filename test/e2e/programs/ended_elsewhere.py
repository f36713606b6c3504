"""A makes a span current, B ends it, A goes on computing without touching its context."""

import threading

import traced
import truth
from opentelemetry import context, trace

tracer = traced.tracer()
spans = traced.Spans()
handed, ended = threading.Event(), threading.Event()


def before():
    return truth.burn(300_000_000)


def after():
    return truth.burn(500_000_000)


def ender(span):
    handed.wait()
    span.end()
    ended.set()


span = tracer.start_span("handed-over")
thread = threading.Thread(target=ender, args=(span,))
thread.start()
context.attach(trace.set_span_in_context(span))
spans.add(span, ["before", "<module>"], before())
handed.set()
while not ended.is_set():
    pass
after()
truth.write(spans=spans.all, links={"before": traced.link(span), "after": None})
