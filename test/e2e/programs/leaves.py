"""Tiny functions called in a loop, with self-time shares that can be computed.

A leaf's true share of the loop lies between two figures: its body alone (the
same statements run inline), and the body with the whole cost of a call, which
caller and leaf pay together. Both are measured by the thread's own CPU clock,
in turns with the loop, so that a busy neighbour slows all of them alike.
"""

import sys

import truth
from truth import thread_time_ns as now

BODY = "x = x * 31 % 1000003 + 7; "
SIZES = {"tiny": 2, "small": 8, "large": 24}
CALLS, INLINE = 2000, 500


def make(name, body):
    scope = {}
    exec(compile(body, __file__, "exec"), scope)
    return scope[name]


leaves = {name: make(name, f"def {name}(x):\n    {BODY * n}return x\n") for name, n in SIZES.items()}
inline = {
    name: make("inline", f"def inline(x):\n    for _ in range({INLINE}):\n        {BODY * n}x = x\n")
    for name, n in SIZES.items()
}
inline["nothing"] = make("inline", f"def inline(x):\n    for _ in range({INLINE}):\n        x = x\n")


def empty(x):
    return x


def loop_empty(x):
    for _ in range(INLINE):
        x = empty(x)


inline["empty"] = loop_empty


def caller(x, tiny, small, large):
    for _ in range(CALLS):
        x = tiny(x)
        x = small(x)
        x = large(x)


def main():
    spent = truth.Tally()
    end = now() + int(float(sys.argv[1]) * 1e9)
    turns = 0
    while now() < end:
        start = now()
        caller(1, **leaves)
        spent.add("caller", now() - start)
        for name, f in inline.items():
            start = now()
            f(1)
            spent.add(name, now() - start)
        turns += 1
    total = spent["caller"] / CALLS
    once = {name: (spent[name] - spent["nothing"]) / INLINE for name in inline}
    truth.write(
        functions={"caller": {"cpu": spent["caller"]}},
        edges=[["<module>", "main"], ["main", "inline"], ["main", "loop_empty"], ["loop_empty", "empty"]]
        + [["main", "caller"]]
        + [["caller", name] for name in leaves],
        shares={name: [once[name] / total, (once[name] + once["empty"]) / total] for name in leaves},
    )


main()
