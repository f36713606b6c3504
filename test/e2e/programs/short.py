"""Lives for a given time since its process was made, busy all along."""

import sys
import time

import truth


def brief(until):
    begin = time.thread_time_ns()
    while truth.age_ns() < until:
        truth.burn(1_000_000)
    return time.thread_time_ns() - begin


used = brief(int(float(sys.argv[1]) * 1e9))
truth.write(functions={"brief": {"cpu": used}})
