"""A tracer provider and the true ids of the spans made with it."""

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult


class ByName(Sampler):
    """Drops spans named drop…, only records those named record…, samples the rest."""

    def should_sample(self, parent_context, trace_id, name, kind=None, attributes=None, links=None, trace_state=None):
        decision = Decision.RECORD_AND_SAMPLE
        if name.startswith("drop"):
            decision = Decision.DROP
        elif name.startswith("record"):
            decision = Decision.RECORD_ONLY
        return SamplingResult(decision, attributes, trace_state)

    def get_description(self):
        return "ByName"


def tracer():
    provider = TracerProvider(sampler=ByName())
    trace.set_tracer_provider(provider)
    return trace.get_tracer("e2e")


class Spans:
    """The spans a program made; `all` goes into its truth."""

    def __init__(self):
        self.all = {}

    def add(self, span, functions, cpu=0, root=None, name=None):
        """Note a span, the functions that run in it, its own CPU and its local root (None: itself)."""
        context = span.get_span_context()
        root_context = (root or span).get_span_context()
        root_id = "%016x" % root_context.span_id
        entry = self.all.setdefault(
            "%016x" % context.span_id,
            {"trace": "%032x" % context.trace_id, "root": root_id, "functions": [], "cpu": 0},
        )
        entry["functions"] += [f for f in functions if f not in entry["functions"]]
        entry["cpu"] += cpu
        entry["name"] = name or getattr(span, "name", "")
        entry["attribute"] = str((getattr(span, "attributes", None) or {}).get("pyroscope.profile.id", ""))
        return entry


def link(span, root=None):
    """How samples taken under span are to be labelled; None: not at all."""
    if span is None:
        return None
    context, root_context = span.get_span_context(), (root or span).get_span_context()
    return {
        "trace": "%032x" % context.trace_id,
        "span": "%016x" % context.span_id,
        "root": "%016x" % root_context.span_id,
        "name": (root or span).name,
    }
