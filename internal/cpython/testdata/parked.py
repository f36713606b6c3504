"""Threads parked in all kinds of frames, and their stacks as Python sees them.

Prints {ident: [thread name, [[qualname, file, line, first line], ...]]}, leaf
first, and then waits for its input to end.
"""

import functools
import json
import sys
import threading

gate = threading.Lock()
gate.acquire()
parked = []
sys.setrecursionlimit(20_000)


def park(*_):
    parked.append(threading.get_ident())
    gate.acquire()
    gate.release()
    return 0


def plain():
    park()


def generator(n):
    if n:
        yield from generator(n - 1)
    for _ in range(1):
        yield park()


def generators():
    return sum(x for x in generator(20))


async def inner():
    return park()


async def coroutine(n):
    return await (coroutine(n - 1) if n else inner())


def run(awaitable):
    try:
        awaitable.send(None)
    except StopIteration:
        pass


def coroutines():
    run(coroutine(15))


async def ticks(n):
    for i in range(n):
        yield i
        await inner()


async def consume():
    async for _ in ticks(3):
        pass


def async_generators():
    run(consume())


def sorted_key():
    return sorted([3, 1, 2], key=lambda x: park() if x == 1 else x)


def mapped():
    return list(map(park, [1]))


class Dying:
    def __del__(self):
        park()


def destructor():
    Dying()


def holder(*_):
    held = Dying()
    return held is None


def dying_locals():
    holder()


def dying_locals_of_callback():
    return list(map(holder, [1]))


def raising():
    held = Dying()
    raise KeyError(held is None)


def dying_by_exception():
    try:
        raising()
    except KeyError as e:
        e.__traceback__ = None


class Base:
    def __init__(self, stop):
        if stop:
            park()


class Derived(Base):
    def __init__(self, stop):
        super().__init__(stop)


def construct(stop):
    Derived(stop)


def constructor():
    for _ in range(100):
        construct(False)  # 3.13 then runs __init__ without going through C
    construct(True)


def calling_generator():
    yield sorted([3, 1, 2], key=lambda x: park() if x == 1 else x)


def callback_in_generator():
    return list(calling_generator())


class Property:
    @property
    def value(self):
        return park()

    def __getattr__(self, name):
        return self.value

    class Nested:
        def __lt__(self, other):
            return bool(Property().anything)


def reduced():
    return functools.reduce(lambda a, b: max(a, b, key=lambda _: Property.Nested() < Property.Nested()), [1, 2, 3])


def deep(n):
    return deep(n - 1) if n else park()


def deep_recursion():
    deep(10_000)


def wide(n, *args, a=1, b=2, **more):
    c, d, e = args[:3]
    return wide(n - 1, c, d, e, *args, a=b, b=a, f=n, **{}) if n else park()


def wide_frames():
    wide(300, *range(30))


def comprehension():
    return [[park() for _ in range(1)] for _ in range(1)]


def executed():
    exec("def made(f):\n\n    return f()\nmade(park)", {"park": park})
    exec(compile("\n\npark()", "a; strange\nfile \U0001f600", "exec"), {"park": park})


def executed_twice():
    exec(compile("\n\npark()", "a; strange\nfile \U0001f600", "exec"), {"park": park})


def evaluated():
    return eval("(lambda: park())()")


def größe():
    park()


def 名前():
    park()


def 𐎠𐎡():
    park()


def renamed(qualname):
    def f():
        park()

    f.__code__ = f.__code__.replace(co_qualname=qualname)
    return f


def catching():
    try:
        raise KeyError
    except KeyError:
        try:
            1 / 0  # noqa: B018
        finally:
            park()


def decorated():
    @functools.wraps(plain)
    @functools.lru_cache
    def cached():
        with gate_like() as g:
            g()

    cached()


class gate_like:
    def __enter__(self):
        return park

    def __exit__(self, *_):
        pass


def stack(frame):
    frames = []
    while frame:
        code = frame.f_code
        frames.append([code.co_qualname, code.co_filename, frame.f_lineno, code.co_firstlineno])
        frame = frame.f_back
    return frames


def main():
    targets = [plain, generators, coroutines, async_generators, sorted_key, mapped, destructor, reduced]
    targets += [deep_recursion, wide_frames, comprehension, executed, executed_twice, evaluated]
    targets += [dying_locals, dying_locals_of_callback, dying_by_exception, callback_in_generator, constructor]
    targets += [größe, 名前, 𐎠𐎡, catching, decorated]
    targets += [renamed(name) for name in ("x" * 10_000, "ü" * 4096, "\U0001f600" * 5000, "nul\0", "\ud800", "")]
    threads = [threading.Thread(target=f, name=f"{i}-{f.__name__}", daemon=True) for i, f in enumerate(targets)]
    for thread in threads:
        thread.start()
    while len(parked) < len(threads) or not all(is_parked(t.ident) for t in threads):
        pass
    frames = sys._current_frames()
    print(json.dumps({t.ident: [t.name, stack(frames[t.ident])] for t in threads}), flush=True)
    sys.stdin.read()


def is_parked(ident):
    """Whether a thread is in the line after the one that says so."""
    frame = sys._current_frames()[ident]
    return frame.f_code is park.__code__ and frame.f_lineno == park.__code__.co_firstlineno + 2


main()
