"""Work handed to other threads, with and without the caller's context."""

import asyncio
import contextvars
from concurrent.futures import ThreadPoolExecutor

import anyio
import anyio._backends._asyncio  # anyio would import it within a span
import traced
import truth
from opentelemetry import trace

tracer = traced.tracer()
spans = traced.Spans()
links = {}


def work():
    return truth.burn(150_000_000)


def job(name, span):
    """A worker that first asks OpenTelemetry itself which span it is in."""

    def run():
        current = trace.get_current_span()
        valid = current.get_span_context().is_valid
        links[name] = traced.link(current) if valid else None
        used = renamed()
        if valid:
            spans.add(current, [name, "submit"], used)

    renamed = truth.named(work, name)
    return run


async def submit():
    loop = asyncio.get_running_loop()
    pool = ThreadPoolExecutor(2)
    for name, send in [
        ("in_to_thread", lambda f: asyncio.to_thread(f)),
        ("in_executor", lambda f: loop.run_in_executor(None, f)),
        ("in_copied", lambda f: loop.run_in_executor(pool, contextvars.copy_context().run, f)),
        ("in_anyio", lambda f: anyio.to_thread.run_sync(f)),
        ("in_pool", lambda f: asyncio.wrap_future(pool.submit(f))),
    ]:
        with tracer.start_as_current_span("submit-" + name) as span:
            spans.add(span, ["submit"])
            await send(job(name, span))
    pool.shutdown()


asyncio.run(submit())
truth.write(spans=spans.all, links=links)
