"""Runs one program under one column, and measures it."""

import contextlib
import http.server
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from typing import NamedTuple

HERE = pathlib.Path(__file__).parent
PROGRAMS = {"cpu": "CPU-bound", "web": "web, traced", "threads": "10 threads, 30 deep"}


class Failed(Exception):
    pass


class Run(NamedTuple):
    units: float
    seconds: float
    cpu: float  # of the target, from the begin of the window to its end
    rest: float  # of all other processes in that time, and of the target's own teardown

    @property
    def throughput(self):
        return self.units / self.seconds

    @property
    def cpu_per_unit(self):
        return self.cpu / self.units


class Sink(http.server.ThreadingHTTPServer):
    """Takes every upload and forgets it."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), SinkHandler)
        self.bytes = 0
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_port}"


class SinkHandler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.server.bytes += len(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args):
        pass


class Runner:
    def __init__(self, python, seconds):
        self.python, self.seconds = python, seconds
        self.sink = Sink()
        become_subreaper()

    def run(self, program, column):
        with tempfile.TemporaryDirectory(prefix="spanflame-bench.") as out:
            uploaded = self.sink.bytes
            result = self._run(program, column, out)
            # A profiler that has given up would look free.
            if column.profiles and not any(p.stat().st_size for p in pathlib.Path(out).glob(column.profiles)):
                raise Failed(f"{column.name} wrote no profile of {program}")
            if column.uploads and self.sink.bytes == uploaded:
                raise Failed(f"{column.name} sent no profile of {program}")
            return result

    def _run(self, program, column, out):
        def fill(text):
            return text.format(out=out, sink=self.sink.address)

        command = [*map(fill, column.prefix), self.python, str(HERE / "programs" / f"{program}.py")]
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("OTEL_", "SPANFLAME_", "PYTHON"))}
        environment |= {
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0",  # collisions differ from run to run otherwise
            "BENCH_SECONDS": str(self.seconds),
            "BENCH_MARKS": f"{out}/marks",
        }
        environment |= {k: fill(v) for k, v in column.environment.items()}
        marks = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        marks.bind(f"{out}/marks")
        with marks, open(f"{out}/log", "w+b") as log:
            first = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
            try:
                return self._follow(first, marks, program)
            except BaseException as e:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(first.pid, signal.SIGKILL)
                if not isinstance(e, Failed):
                    raise
                log.seek(0)
                said = log.read().decode(errors="replace").strip()
                raise Failed(f"{program} under {column.name}: {e}\n{said}") from None

    def _follow(self, first, marks, program):
        """Takes the program's marks until everything that was started has ended."""
        load = None
        if program == "web":
            port = str(self._next(marks, first)["port"])
            load = subprocess.Popen([sys.executable, str(HERE / "load.py"), port])
        target = self._next(marks, first)["begin"]
        before = sum(cpu_clock(pid) for pid in tree(first.pid) if pid != target)
        result = self._next(marks, first)
        used, status = reap(first.pid, load.pid if load else None)
        first.returncode = status  # reaped behind Popen's back
        if load:
            load.returncode = 0
        if status != 0:
            raise Failed(f"exit status {status}")
        return Run(result["units"], result["seconds"], result["cpu"], used - before - result["total_cpu"])

    def _next(self, marks, first):
        marks.settimeout(0.5)
        end = time.monotonic() + self.seconds + 30
        while time.monotonic() < end:
            # Asked first: what it said before it ended is still to be read.
            ended = os.waitid(os.P_PID, first.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            with contextlib.suppress(TimeoutError):
                return json.loads(marks.recv(4096))
            if ended:
                raise Failed("it ended without a result")
        raise Failed("it takes too long")


def others():
    """CPU seconds that the machine has used, steal included, without what this run did."""
    with open("/proc/stat") as f:
        user, nice, system, _, _, irq, softirq, steal = map(int, f.readline().split()[1:9])
    busy = (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
    ours = os.times()
    return busy - ours.user - ours.system - ours.children_user - ours.children_system


def become_subreaper():
    """What a profiler leaves running becomes our child, so that its CPU is counted too."""
    import ctypes

    PR_SET_CHILD_SUBREAPER = 36
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def reap(first, load, patience=30):
    """Waits for all children; returns their CPU, without the load's, and the exit status of the first."""
    used, status = 0.0, None
    end = time.monotonic() + patience
    while time.monotonic() < end:
        try:
            pid, raw, usage = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return used, status
        if pid == 0:
            time.sleep(0.005)
            continue
        if pid == first:
            status = os.waitstatus_to_exitcode(raw)
        if pid != load:
            used += usage.ru_utime + usage.ru_stime
    raise Failed(f"something it started still runs after {patience} s")


def tree(pid):
    """The process and its descendants."""
    yield pid
    with contextlib.suppress(OSError):
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from tree(int(child))


def cpu_clock(pid):
    """CPU seconds of any process, to the nanosecond: CPUCLOCK_SCHED of clock_gettime(2)."""
    try:
        return time.clock_gettime(~pid << 3 | 2)
    except OSError:
        return 0.0
