"""Spans in an interpreter where no shim can have loaded."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import traced  # noqa: E402
import truth  # noqa: E402

tracer = traced.tracer()
spans = traced.Spans()


def inside():
    return truth.burn(500_000_000)


with tracer.start_as_current_span("isolated") as span:
    used = inside()
    spans.add(span, ["<module>"], used)
truth.write(spans=spans.all, links={"inside": traced.link(span)}, shim="spanflame" in sys.modules)
