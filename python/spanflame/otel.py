"""Marks OpenTelemetry spans so that the agent can tell whose they are."""

import os
from _contextvars import ContextVar
from _struct import Struct
from _weakref import ref

from opentelemetry import context as _context
from opentelemetry import trace as _trace
from opentelemetry.sdk import trace as _sdk
from opentelemetry.trace import get_current_span, propagation

from . import ring, shim
from .wire import encode

# The local root that a task started, whether or not it made it current.
_ROOT = ContextVar("spanflame_root", default=None)

_ATTRIBUTE = "pyroscope.profile.id"
_NAME_LIMIT = 1024
_PAIR_LIMIT = 1024  # a resource attribute, encoded
_RESOURCE_LIMIT = 48 << 10  # all of them; a message holds 64 KiB
_span_id = Struct("<Q")


class SpanProcessor(_sdk.SpanProcessor):
    """Sets `pyroscope.profile.id` on local roots and leaves marks for the agent.

    A local root's `_spanflame_root` is its name at start, that of any other
    span is its local root. The agent reads them in our memory. Being asked
    twice about a span (added by hand and by us) is the same as once.
    """

    def on_start(self, span, parent_context=None):
        try:
            if getattr(span, "_spanflame_root", None) is not None:
                return
            parent = span.parent
            if parent is None or parent.is_remote or not parent.is_valid:
                self._start_root(span)
                return
            holder = get_current_span(parent_context)
            # ConcurrentMultiSpanProcessor calls us in a thread of its own, where
            # the current span is another.
            if holder.get_span_context() is parent:
                root = getattr(holder, "_spanflame_root", None)
                if root is not None:
                    span._spanflame_root = holder if isinstance(root, str) else root
        except Exception:
            pass

    def _start_root(self, span):
        span.set_attribute(_ATTRIBUTE, "%016x" % span.get_span_context().span_id)
        # on_end gets a copy of the span, but one with the same attributes object.
        attributes = span._attributes
        span._spanflame_root = attributes._spanflame_name = str(span.name)
        if not hasattr(span._span_processor, "_submit_and_await"):
            attributes._spanflame_outer = _living(_ROOT.get())
            _ROOT.set(span)
        if not _announced:
            announce()

    def on_end(self, span):
        try:
            attributes = span._attributes
            name = getattr(attributes, "_spanflame_name", None)
            if name is None:
                return
            attributes._spanflame_name = None
            current = _ROOT.get()
            context = span.get_span_context()
            if current is not None and current.get_span_context() is context:
                _ROOT.set(_living(attributes._spanflame_outer))
            attributes._spanflame_outer = None
            if span.name != name and shim.current is not None:
                final = str(span.name)[:_NAME_LIMIT].encode("utf-8", "replace")
                payload = _span_id.pack(context.span_id) + final[:_NAME_LIMIT]
                shim.current.write(ring.SPAN_NAME, payload)
        except Exception:
            pass

    def _on_ending(self, span):
        pass

    def shutdown(self):
        pass

    def force_flush(self, timeout_millis=30000):
        return True


PyroscopeSpanProcessor = SpanProcessor


def _living(root):
    """The local root, or the one that was started before it, that has not ended."""
    while root is not None and root._end_time is not None:
        root = getattr(root._attributes, "_spanflame_outer", None)
    return root


def patch():
    """Have every TracerProvider made from now on attached to."""
    provider = _sdk.TracerProvider
    init = provider.__init__
    if getattr(init, "_spanflame", False):
        return

    def __init__(self, *args, **kwargs):
        init(self, *args, **kwargs)
        attach(self)

    for name in ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__"):
        setattr(__init__, name, getattr(init, name))
    __init__.__wrapped__ = init  # what inspect.signature shows
    __init__._spanflame = True
    provider.__init__ = __init__


def attach_to_global():
    provider = getattr(_trace, "_TRACER_PROVIDER", None)
    if isinstance(provider, _sdk.TracerProvider):
        attach(provider)


_provider = None  # weak reference to the last one attached to


def attach(provider):
    """Add our processor, unless it is there, and tell the agent the resource."""
    global _provider
    try:
        settings = shim.current and shim.current.settings()
        if not settings:
            return
        processors = getattr(provider._active_span_processor, "_span_processors", ())
        wanted = settings.get("include_trace_context", True)
        if wanted and not any(isinstance(p, SpanProcessor) for p in processors):
            provider.add_span_processor(SpanProcessor())
        if _provider is None:
            # After the provider's own hook, which changes its resource.
            os.register_at_fork(after_in_child=_forked)
        _provider = ref(provider)
        _send_resource()
        announce()
    except Exception:
        pass


def _forked():
    global _announced
    try:
        _announced = None
        announce()
        _send_resource()
    except Exception:
        pass


def _send_resource():
    provider = _provider() if _provider is not None else None
    if provider is None:
        return
    # Past the accessors: they take a lock, which a fork may have left locked.
    attributes = provider.resource.attributes
    attributes = getattr(attributes, "_dict", attributes)
    bounded, size = {}, 0
    for key in list(attributes)[:128]:
        try:
            pair = encode({key: attributes[key]})
        except (TypeError, AttributeError):
            continue  # not a value that OTLP knows
        if len(pair) <= _PAIR_LIMIT and size + len(pair) <= _RESOURCE_LIMIT:
            bounded[key] = attributes[key]
            size += len(pair)
    shim.current.post("resource", {"attributes": bounded})


_announced = None  # the objects whose addresses the agent has, kept alive


def announce():
    """Tell the agent where the current span is found, once that is known."""
    global _announced
    runtime = _context._RUNTIME_CONTEXT
    if _announced or shim.current is None or runtime is None:  # older APIs make it at first use
        return
    variable = getattr(runtime, "_current_context", None)
    key = propagation._SPAN_KEY
    _announced = (variable, key, _ROOT)
    address = id(variable) if isinstance(variable, ContextVar) else 0
    shim.current.post(
        "otel",
        {"context_var": address, "span_key": id(key), "root_var": id(_ROOT), "none": id(None)},
    )
