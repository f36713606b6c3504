"""A small traced shop, which ends by itself after DEMO_SECONDS.

It listens on a free port of the loopback interface and writes the port's number
to the file SHOP_PORT. Its spans go to the file SHOP_SPANS (see spans.py).
"""

import asyncio
import atexit
import os
import pathlib
import socket
import time

import uvicorn
from fastapi import Depends, FastAPI, Request
from opentelemetry import trace
from opentelemetry.instrumentation.asgi import OpenTelemetryMiddleware
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from spans import SpanFile

spans = SpanFile(os.environ["SHOP_SPANS"])
atexit.register(spans.close)  # first to be registered, so the last to run
provider = TracerProvider(resource=Resource({"service.name": "shop"}))
provider.add_span_processor(spans)
trace.set_tracer_provider(provider)
tracer = trace.get_tracer("shop")


def name_span(request: Request):
    """Renames the request's span after its route, once the route is known."""
    route = request.scope["route"]
    trace.get_current_span().update_name(f"{request.method} {route.path}")


app = FastAPI(dependencies=[Depends(name_span)])
app.add_middleware(OpenTelemetryMiddleware, exclude_spans=["receive", "send"])


# The checkout burns CPU in a known function, then waits for the bank.


@app.post("/checkout/{basket}")
async def checkout(basket: int):
    with tracer.start_as_current_span("price basket"):
        total = price_basket(basket)
    with tracer.start_as_current_span("charge card"):
        await asyncio.sleep(0.02)
    return {"total": total}


def price_basket(basket):
    total = 0
    for item in range(60_000):
        total = (total * 31 + item * basket) % 1_000_003
    return total


# The catalogue waits for a slow upstream and hardly computes.


@app.get("/products")
async def products():
    with tracer.start_as_current_span("fetch products"):
        await asyncio.sleep(0.05)
    return [{"id": n, "name": f"product {n}"} for n in range(20)]


# Recommendations are computed by concurrent tasks, each in a span of its own,
# that take turns on the event loop's thread.


@app.get("/recommendations")
async def recommendations():
    scores = await asyncio.gather(score("by price", rounds=1), score("by taste", rounds=3))
    return {"best": max(scores)}


async def score(how, rounds):
    with tracer.start_as_current_span(f"score {how}"):
        best = 0
        for _ in range(rounds):
            best = max(best, compare_products())
            await asyncio.sleep(0)
        return best


def compare_products():
    return sum(a * b % 7 for a in range(100) for b in range(100))


# A report is made by a thread: FastAPI runs plain functions in a pool.


@app.get("/report")
def report():
    with tracer.start_as_current_span("read orders"):
        time.sleep(0.03)
    with tracer.start_as_current_span("sum orders"):
        return {"sum": sum_orders()}


def sum_orders():
    total = 0.0
    for order in range(40_000):
        total += order**0.5
    return total


async def main():
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    port_file = pathlib.Path(os.environ["SHOP_PORT"])
    temporary = port_file.with_suffix(".new")
    temporary.write_text(str(listener.getsockname()[1]))
    temporary.rename(port_file)

    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=2)
    server = uvicorn.Server(config)

    async def end():
        await asyncio.sleep(float(os.environ.get("DEMO_SECONDS", "20")))
        server.should_exit = True

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(end())
        tasks.create_task(server.serve(sockets=[listener]))


if __name__ == "__main__":
    asyncio.run(main())
