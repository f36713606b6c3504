"""Eight threads, each in a span of its own, with different shares of CPU."""

import sys
import time

import traced
import truth

tracer = traced.tracer()
spans = traced.Spans()


def worker(name, ns):
    with tracer.start_as_current_span("span-" + name) as span:
        used = 0
        while used < ns:
            used += truth.burn(10_000_000)
            time.sleep(0.001)
    spans.add(span, [name], used)


unit = float(sys.argv[1])
started = []
for i in range(8):
    name = f"worker_{i:02d}"
    ns = int(unit * (1 + i % 4) * 1e9)
    started.append(truth.Thread(target=truth.named(worker, name), args=(name, ns), name="thread-" + name))
for thread in started:
    thread.start()
for thread in started:
    thread.join()
truth.write(spans=spans.all, threads=truth.threads(started))
