"""Call graphs that change as fast as Python can, and are known completely.

tear.py MODE SECONDS. Edges are caller/callee pairs; no other pair may be seen.
"""

import sys
import time

import truth

now = time.thread_time_ns


def chains(end):
    """Two call chains 30 deep, alternating; all frames have one size."""
    scope, edges = {}, []
    for letter in "ab":
        for i in range(29, -1, -1):
            deeper = f"{letter}{i + 1:02d}(n)" if i < 29 else "n"
            exec(compile(f"def {letter}{i:02d}(n):\n    return {deeper}\n", __file__, "exec"), scope)
            edges.append(["chains", f"{letter}00"] if i == 0 else [f"{letter}{i - 1:02d}", f"{letter}{i:02d}"])
    a, b = scope["a00"], scope["b00"]
    while now() < end:
        a(1)
        b(1)
        a(2)
        b(2)
    return edges


def even(n):
    return n == 0 or odd(n - 1)


def odd(n):
    return n != 0 and even(n - 1)


def alone(n):
    return n and alone(n - 1)


def recursion(end):
    sys.setrecursionlimit(2000)
    while now() < end:
        even(300)
        alone(150)
        even(3)
    return [["recursion", "even"], ["even", "odd"], ["odd", "even"], ["recursion", "alone"], ["alone", "alone"]]


def ga(n):
    if n:
        yield from ga(n - 1)
    else:
        yield la()
        yield la()


def gb(n):
    if n:
        yield from gb(n - 1)
    else:
        yield lb()
        yield lb()


def la():
    return 1


def lb():
    return 2


def generators(end):
    """Two chains of generators, resumed in turn; their frames live in the heap and are made anew."""
    while now() < end:
        x, y = ga(12), gb(12)
        for _ in range(2):
            next(x)
            next(y)
        x.close()
        y.close()
    return [["generators", "ga"], ["ga", "ga"], ["ga", "la"], ["generators", "gb"], ["gb", "gb"], ["gb", "lb"]]


def ra(n):
    if n == 0:
        raise KeyError
    try:
        return ra(n - 1)
    except KeyError:
        if n % 5:
            raise
        recover_a()
        if n < 20:
            raise


def rb(n):
    if n == 0:
        raise ValueError
    try:
        return rb(n - 1)
    finally:
        recover_b()


def recover_a():
    return 1


def recover_b():
    return 2


def exceptions(end):
    while now() < end:
        ra(20)
        try:
            rb(10)
        except ValueError:
            pass
    return [
        ["exceptions", "ra"],
        ["ra", "ra"],
        ["ra", "recover_a"],
        ["exceptions", "rb"],
        ["rb", "rb"],
        ["rb", "recover_b"],
    ]


def main():
    mode, seconds = sys.argv[1], float(sys.argv[2])
    start = now()
    edges = {"chains": chains, "recursion": recursion, "generators": generators, "exceptions": exceptions}[mode](
        start + int(seconds * 1e9)
    )
    edges += [["<module>", "main"], ["main", mode]]
    truth.write(edges=edges, functions={mode: {"cpu": now() - start}})


main()
