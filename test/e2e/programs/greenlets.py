"""gevent greenlets on one thread, each in a span of its own."""

from gevent import monkey

monkey.patch_all()

import sys  # noqa: E402

import gevent  # noqa: E402
import traced  # noqa: E402
import truth  # noqa: E402

tracer = traced.tracer()
spans = traced.Spans()


def worker(name, ns, rounds):
    with tracer.start_as_current_span("span-" + name) as span:
        entry = spans.add(span, [name])
        for i in range(rounds):
            entry["cpu"] += truth.burn(ns)
            gevent.sleep(0.001 * (i % 2))


count, rounds, ms = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
jobs = []
for i in range(count):
    name = f"worker_{i:02d}"
    jobs.append(gevent.spawn(truth.named(worker, name), name, int(ms * (1 + i % 4) * 1e6), rounds))
gevent.joinall(jobs, raise_error=True)
truth.write(spans=spans.all)
