"""The measured window of a program, and the profilers that live inside it.

A program imports this first: what is registered with atexit first runs last,
and the report has to come after what a profiler does when the program ends.
"""

import atexit
import json
import os
import socket
import time

SECONDS = float(os.environ.get("BENCH_SECONDS", "2"))
SETTLE = 0.3  # for a profiler to attach and for a server's customers to come

_marks = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
_result = {}


def say(**mark):
    """Tells the runner; without one, the terminal."""
    line = json.dumps(mark)
    path = os.environ.get("BENCH_MARKS")
    if path:
        _marks.sendto(line.encode(), path)
    else:
        print(line)


@atexit.register
def _report():
    if _result:
        total = time.process_time()
        say(units=_result["units"], seconds=_result["seconds"], cpu=total - _result["begin"], total_cpu=total)


def start_profiler():
    """Starts the in-process profiler that BENCH_PROFILER names, as its manual says."""
    profiler = os.environ.get("BENCH_PROFILER")
    if profiler == "otel":
        from opentelemetry import trace
        from opentelemetry.sdk.extension.profiling.bootstrap import auto_start
        from opentelemetry.sdk.trace import TracerProvider

        # Without a provider its last export fails. Where there is one, this
        # changes nothing.
        if not isinstance(trace.get_tracer_provider(), TracerProvider):
            trace.set_tracer_provider(TracerProvider())
        auto_start()
    elif profiler == "pyroscope":
        import pyroscope

        pyroscope.configure(
            application_name="bench", server_address=os.environ["BENCH_PYROSCOPE_ADDRESS"], sample_rate=100
        )
        atexit.register(pyroscope.shutdown)


def measure(work):
    """Calls work(seconds), which returns how many units it did.

    CPU counts from the begin of the window to the end of the program: what a
    profiler has put off until it exports is part of its price.
    """
    time.sleep(SETTLE)
    say(begin=os.getpid())
    _result["begin"], begin = time.process_time(), time.perf_counter()
    units = work(SECONDS)
    _result["seconds"], _result["units"] = time.perf_counter() - begin, units
