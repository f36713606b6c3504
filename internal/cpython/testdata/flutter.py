"""Call graphs that change as fast as Python can, and are known completely.

flutter.py MODE. Prints the thread's ident and the graph's edges, [caller, callee].
"""

import json
import sys
import threading


def chains():
    """Two call chains 30 deep that cost the same, alternating; all frames have one size."""
    scope, edges = {}, []
    for letter in "ab":
        for i in range(29, -1, -1):
            deeper = f"{letter}{i + 1:02d}(n)" if i < 29 else "n"
            exec(compile(f"def {letter}{i:02d}(n):\n    return {deeper}\n", __file__, "exec"), scope)
            edges.append(["loop", f"{letter}00"] if i == 0 else [f"{letter}{i - 1:02d}", f"{letter}{i:02d}"])
    a, b = scope["a00"], scope["b00"]

    def step():
        a(1)
        b(1)

    return step, [[f if f != "loop" else step.__qualname__, g] for f, g in edges]


def even(n):
    return n == 0 or odd(n - 1)


def odd(n):
    return n != 0 and even(n - 1)


def alone(n):
    return n and alone(n - 1)


def recursion():
    def step():
        even(300)
        alone(150)
        even(3)

    name = step.__qualname__
    return step, [[name, "even"], ["even", "odd"], ["odd", "even"], [name, "alone"], ["alone", "alone"]]


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


def generators():
    """Two chains of generators, resumed in turn; their frames live in the heap and are made anew."""

    def step():
        x, y = ga(12), gb(12)
        for _ in range(2):
            next(x)
            next(y)
        x.close()
        y.close()

    name = step.__qualname__
    return step, [[name, "ga"], ["ga", "ga"], ["ga", "la"], [name, "gb"], ["gb", "gb"], ["gb", "lb"]]


async def ca(n):
    return await ca(n - 1) if n else la()


async def cb(n):
    return await cb(n - 1) if n else lb()


async def ticks():
    for _ in range(2):
        yield await ca(3)


async def consume():
    async for _ in ticks():
        await cb(3)


def coroutines():
    def step():
        try:
            consume().send(None)
        except StopIteration:
            pass

    edges = [[step.__qualname__, "consume"], ["consume", "ticks"], ["ticks", "ca"], ["ca", "ca"], ["ca", "la"]]
    return step, edges + [["consume", "cb"], ["cb", "cb"], ["cb", "lb"]]


def ka(x):
    return la()


def kb(x):
    return lb()


def entries():
    """Python calls C calls Python."""
    items = [3, 1, 2]

    def step():
        sorted(items, key=ka)
        list(map(kb, items))
        max(items, key=lambda x: sorted(items, key=kb)[0])

    name = step.__qualname__
    inner = "entries.<locals>.step.<locals>.<lambda>"
    return step, [[name, "ka"], ["ka", "la"], [name, "kb"], ["kb", "lb"], [name, inner], [inner, "kb"]]


def ra(n):
    if n == 0:
        raise KeyError
    try:
        return ra(n - 1)
    except KeyError:
        if n % 5:
            raise
        la()
        if n < 20:
            raise


def rb(n):
    if n == 0:
        raise ValueError
    try:
        return rb(n - 1)
    finally:
        lb()


def exceptions():
    def step():
        ra(20)
        try:
            rb(10)
        except ValueError:
            pass

    name = step.__qualname__
    return step, [[name, "ra"], ["ra", "ra"], ["ra", "la"], [name, "rb"], ["rb", "rb"], ["rb", "lb"]]


class A:
    def __init__(self):
        la()

    def __del__(self):
        lb()


class B(A):
    def __init__(self):
        super().__init__()
        lb()


def drop():
    return A() and 0


def hold():
    held = B()
    return held is None


def instances():
    """Constructors, and destructors that run while a call ends."""

    def step():
        A()
        drop()
        hold()

    name = step.__qualname__
    edges = [[name, "A.__init__"], [name, "A.__del__"], ["A.__init__", "la"], ["A.__del__", "lb"]]
    edges += [[name, "drop"], ["drop", "A.__init__"], ["drop", "A.__del__"]]
    edges += [
        [name, "hold"],
        ["hold", "B.__init__"],
        ["hold", "A.__del__"],
        ["B.__init__", "A.__init__"],
        ["B.__init__", "lb"],
    ]
    return step, edges


def loop(step):
    while True:
        step()


def main():
    step, edges = globals()[sys.argv[1]]()
    thread = threading.Thread(target=loop, args=(step,), daemon=True)
    thread.start()
    base = [["Thread._bootstrap", "Thread._bootstrap_inner"], ["Thread._bootstrap_inner", "Thread.run"]]
    edges += base + [["Thread.run", "loop"], ["loop", step.__qualname__]]
    print(json.dumps([thread.ident, edges]), flush=True)
    sys.stdin.read()


main()
