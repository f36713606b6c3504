"""What a program knows about itself, written down for the test that ran it.

Each process writes $TRUTH/PID.json. CPU is measured by the thread's own clock,
so a loaded machine changes nothing. Only the standard library is used here.
"""

import inspect
import json
import os
import sys
import threading
import time
from time import thread_time_ns


def burn(ns):
    """Use ns of this thread's CPU and return what was really used."""
    start = thread_time_ns()
    end = start + ns
    x = 1
    while thread_time_ns() < end:
        for i in range(400):
            x = x * 31 % 1000003 + i
    return thread_time_ns() - start


class Tally(dict):
    """Sums of nanoseconds by name."""

    def add(self, name, ns):
        self[name] = self.get(name, 0) + ns


def function(f, cpu=None, mark="# burn"):
    """Describe a function: where it starts and which line of it burns."""
    lines, first = inspect.getsourcelines(f)
    marked = [first + i for i, line in enumerate(lines) if mark in line]
    return {"first": f.__code__.co_firstlineno, "line": marked[0] if marked else 0, "cpu": cpu or 0}


def named(f, name):
    """Copy a function under another name, so that stacks tell the copies apart."""
    code = f.__code__.replace(co_name=name, co_qualname=name)
    copy = type(f)(code, f.__globals__, name, f.__defaults__, f.__closure__)
    copy.__kwdefaults__ = f.__kwdefaults__
    return copy


def born_ns():
    """When the process was created, on the boot clock; the kernel tells it in 10 ms steps."""
    with open("/proc/self/stat") as f:
        ticks = int(f.read().rpartition(")")[2].split()[19])
    return ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def age_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) - born_ns()


class Thread(threading.Thread):
    """A thread that notes its own lifetime and CPU; `record` has them after join."""

    def run(self):
        start = time.monotonic_ns()
        try:
            super().run()
        finally:
            self.record = {
                "ident": self.ident,
                "native": self.native_id,
                "wall": time.monotonic_ns() - start,
                "cpu": thread_time_ns(),
            }


def threads(started):
    """What joined Threads recorded, by name."""
    return {t.name: t.record for t in started}


def write(**facts):
    main = threading.main_thread()
    facts.update(
        pid=os.getpid(),
        ppid=os.getppid(),
        file=os.path.abspath(sys.argv[0]) if sys.argv[0] else "",
        main_ident=main.ident,
        born=born_ns(),
        wall=age_ns(),
        cpu=time.process_time_ns(),
    )
    directory = os.environ.get("TRUTH")
    if not directory:
        json.dump(facts, sys.stdout, indent=1)
        return
    path = os.path.join(directory, f"{os.getpid()}.json")
    with open(path + ".part", "w") as f:
        json.dump(facts, f)
    os.replace(path + ".part", path)
