"""Nested spans with known self time; roots below remote parents."""

import traced
import truth
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

tracer = traced.tracer()
spans = traced.Spans()
links = {}


def _self_time(ns):
    return truth.burn(ns)


def self_time(span, root, ns):
    """Burn under a name that tells the span."""
    name = "in_" + span.name.replace("-", "_")
    links[name] = traced.link(span, root)
    return truth.named(_self_time, name)(ns)


def first_child(root):
    with tracer.start_as_current_span("child-300") as span:
        spans.add(span, ["first_child"], self_time(span, root, 300_000_000), root)


def second_child(root):
    with tracer.start_as_current_span("child-200") as span:
        spans.add(span, ["second_child"], self_time(span, root, 200_000_000), root)


def third_child(root):
    with tracer.start_as_current_span("child-100") as span:
        with tracer.start_as_current_span("grandchild-250") as inner:
            spans.add(inner, ["third_child"], self_time(inner, root, 250_000_000), root)
        spans.add(span, ["third_child"], self_time(span, root, 100_000_000), root)


def parent():
    with tracer.start_as_current_span("root-400") as root:
        used = self_time(root, root, 200_000_000)
        first_child(root)
        second_child(root)
        third_child(root)
        used += self_time(root, root, 200_000_000)
        spans.add(root, ["parent", "first_child", "second_child", "third_child", "remote"], used)
        remote(root)
        links["back_in_root"] = traced.link(root)
        spans.add(root, ["parent"], back_in_root())


def back_in_root():
    return truth.burn(200_000_000)


def remote(outer):
    """A local root inside another: its parent is in another process."""
    context = SpanContext(0xABCDEF0123456789ABCDEF0123456789, 0x1122334455667788, True, TraceFlags(1))
    far = trace.set_span_in_context(NonRecordingSpan(context))
    with tracer.start_as_current_span("from-remote", context=far) as root:
        links["in_remote"] = traced.link(root)
        spans.add(root, ["remote"], in_remote())
        with tracer.start_as_current_span("below-remote") as child:
            links["below_remote"] = traced.link(child, root)
            spans.add(child, ["remote"], below_remote(), root)


def in_remote():
    return truth.burn(250_000_000)


def below_remote():
    return truth.burn(250_000_000)


parent()
truth.write(spans=spans.all, links=links)
