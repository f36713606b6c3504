"""Concurrent tasks on one loop, each in a span and a worker function of its own.

tasks.py LOOP HOW TASKS ROUNDS MS STEP_MS: task i burns MS + STEP_MS * (i % 4)
per round, then lets the others go on.
"""

import asyncio
import sys
import threading

import traced
import truth

tracer = traced.tracer()
spans = traced.Spans()


async def worker(name, ns, rounds):
    with tracer.start_as_current_span("span-" + name) as span:
        entry = spans.add(span, [name])
        for _ in range(rounds):
            entry["cpu"] += truth.burn(ns)
            await asyncio.sleep(0)


def coroutines(tasks, rounds, ms, step):
    for i in range(tasks):
        name = f"worker_{i:02d}"
        yield truth.named(worker, name)(name, int((ms + step * (i % 4)) * 1e6), rounds)


async def gather(jobs):
    await asyncio.gather(*jobs)


async def taskgroup(jobs):
    async with asyncio.TaskGroup() as group:
        for job in jobs:
            group.create_task(job)


def new_loop(kind):
    if kind == "uvloop":
        import uvloop

        return uvloop.new_event_loop()
    return asyncio.new_event_loop()


def main():
    loop, how = sys.argv[1:3]
    tasks, rounds = int(sys.argv[3]), int(sys.argv[4])
    jobs = list(coroutines(tasks, rounds, float(sys.argv[5]), float(sys.argv[6])))
    if how == "runner":
        with asyncio.Runner(loop_factory=lambda: new_loop(loop)) as runner:
            runner.run(gather(jobs))
    elif how == "thread":
        thread = threading.Thread(target=lambda: new_loop(loop).run_until_complete(gather(jobs)), name="loop")
        thread.start()
        thread.join()
    else:
        if loop == "uvloop":
            import uvloop

            uvloop.install()
        asyncio.run({"gather": gather, "taskgroup": taskgroup}[how](jobs))
    truth.write(spans=spans.all)


main()
