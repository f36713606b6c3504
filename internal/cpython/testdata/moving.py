"""New spans all the time, in threads and in the tasks of a loop: under work_a
their ids are even, under work_b odd. Prints the idents of the two threads.
"""

import asyncio
import contextvars
import itertools
import json
import sys
import threading

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

parity = contextvars.ContextVar("parity")


class Ids(RandomIdGenerator):
    def __init__(self):
        self.count = itertools.count(1)

    def generate_span_id(self):
        return next(self.count) << 24 | parity.get()


span = TracerProvider(id_generator=Ids(), shutdown_on_exit=False).get_tracer("moving").start_as_current_span


def burn():
    for _ in range(1000):
        pass


def work_a():
    burn()
    burn()


def work_b():
    burn()
    burn()


def step(odd):
    parity.set(odd)
    with span("step"):
        for _ in range(3):
            (work_b if odd else work_a)()


def thread():
    ready.release()
    for i in itertools.count():
        step(i % 2)


async def task(odd):
    while True:
        parity.set(odd)
        with span("task"):
            for _ in range(3):
                (work_b if odd else work_a)()
                await asyncio.sleep(0)


async def tasks():
    ready.release()
    await asyncio.gather(*(task(i % 2) for i in range(6)))


sys.setswitchinterval(1e-4)
ready = threading.Semaphore(0)
threads = [threading.Thread(target=thread, daemon=True)]
threads.append(threading.Thread(target=lambda: asyncio.run(tasks()), daemon=True))
for started in threads:
    started.start()
    ready.acquire()
print(json.dumps([started.ident for started in threads]), flush=True)
sys.stdin.read()
