"""Makes child processes in one of the ways there are; each burns in its own function."""

import multiprocessing
import os
import subprocess
import sys
import time

import truth


def child(name, ns):
    """Burn under a name of this process's own, and tell."""
    begin = time.process_time_ns()
    worker = truth.named(burn_here, name)
    used = worker(ns)
    truth.write(functions={name: {"cpu": used}}, role=name, begin=begin)


def burn_here(ns):
    return truth.burn(ns)


def by_fork(jobs):
    pids = []
    for job in jobs:
        pid = os.fork()
        if pid == 0:
            child(*job)
            os._exit(0)
        pids.append(pid)
    for pid in pids:
        os.waitpid(pid, 0)


def by_subprocess(jobs):
    started = [subprocess.Popen([sys.executable, sys.argv[0], "child", name, str(ns)]) for name, ns in jobs]
    for process in started:
        process.wait()


def by_multiprocessing(method, jobs):
    context = multiprocessing.get_context(method)
    started = [context.Process(target=child, args=job) for job in jobs]
    for process in started:
        process.start()
    for process in started:
        process.join()


def main():
    mode = sys.argv[1]
    if mode == "child":
        child(sys.argv[2], int(sys.argv[3]))
        return
    jobs = [("first_child", 600_000_000), ("second_child", 1_200_000_000)]
    parent = truth.named(burn_here, "parent_before")
    used = parent(300_000_000)
    if mode == "fork":
        by_fork(jobs)
    elif mode == "subprocess":
        by_subprocess(jobs)
    else:
        by_multiprocessing(mode, jobs)
    truth.write(functions={"parent_before": {"cpu": used}}, role="parent_before", begin=0)


if __name__ == "__main__":
    main()
