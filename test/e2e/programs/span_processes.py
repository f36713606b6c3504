"""A parent and a forked child, each with a span of its own; the child first runs in the parent's."""

import os

import traced
import truth

tracer = traced.tracer()


def _work():
    return truth.burn(500_000_000)


def report(name, inherited=None):
    spans, links = traced.Spans(), {}
    with tracer.start_as_current_span("span-" + name) as span:
        root = inherited or span
        links[name] = traced.link(span, root)
        spans.add(span, [name, "report"], truth.named(_work, name)(), root)
        pid = os.fork() if name == "in_parent" else -1
        if pid == 0:
            report("in_child", span)
            os._exit(0)
        if pid > 0:
            os.waitpid(pid, 0)
    if inherited:
        spans.add(inherited, ["report"])
    truth.write(spans=spans.all, links=links)


report("in_parent")
