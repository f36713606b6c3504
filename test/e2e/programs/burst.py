"""An event loop with two spans that burn in short bursts and sleep in between."""

import asyncio
import sys
import time

import traced
import truth

tracer = traced.tracer()
spans = traced.Spans()
cpu = truth.Tally()


def burst_long(ns):
    return truth.burn(ns)


def burst_short(ns):
    return truth.burn(ns)


async def work(name, burst, ns, pause, until):
    with tracer.start_as_current_span(name) as span:
        while time.monotonic() < until:
            used = burst(ns)
            cpu.add(burst.__name__, used)
            spans.add(span, ["work", burst.__name__], used)
            await asyncio.sleep(pause)


async def main(ms, pause_ms, seconds):
    until = time.monotonic() + seconds
    await asyncio.gather(
        work("long", burst_long, int(ms * 1e6), pause_ms / 1e3, until),
        work("short", burst_short, int(ms * 0.5e6), pause_ms / 1e3, until),
    )


asyncio.run(main(*map(float, sys.argv[1:4])))
truth.write(functions={k: {"cpu": v} for k, v in cpu.items()}, spans=spans.all)
