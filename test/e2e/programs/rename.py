"""1000 requests whose span gets its final name late; then the thread goes on without a span."""

import traced
import truth

tracer = traced.tracer()
spans = traced.Spans()


def request(i):
    with tracer.start_as_current_span("unnamed") as root:
        used = truth.burn(1_500_000)
        if i % 3:
            root.update_name(f"GET /route/{i % 200}")
        with tracer.start_as_current_span("child") as child:
            inner = truth.burn(1_500_000)
            child.update_name("renamed child")
        if i % 5 == 0:
            root.update_name(f"POST /late/{i % 200}")
    spans.add(root, ["request"], used)
    spans.add(child, ["request"], inner, root)


def afterwards():
    truth.burn(300_000_000)


for i in range(1000):
    request(i)
afterwards()
truth.write(spans=spans.all, links={"afterwards": None})
