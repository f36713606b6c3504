"""Each function burns on one line that is neither its first nor its last."""

import functools

import truth
from truth import thread_time_ns as now

SHARE = 250_000_000
NUMBERS = list(range(300))


def plain(end):
    before = 1
    while now() < end: before = sum([n * 3 for n in NUMBERS]) + sum(NUMBERS) * len(NUMBERS)  # burn  # fmt: skip
    return before


class Shop:
    def checkout(self, end):
        total = 0

        while now() < end: total += sum(NUMBERS)  # burn  # fmt: skip

        return total

    @staticmethod
    def refund(end):
        total = 0
        while now() < end: total += max(NUMBERS)  # burn  # fmt: skip
        return total

    class Cart:
        def total(self, end):
            if end:
                pass
            while now() < end: sorted(NUMBERS)  # burn  # fmt: skip
            return 0


def outer():
    def inner(end):
        x = 0
        while now() < end: x = sum(NUMBERS)  # burn  # fmt: skip
        return x

    return inner


def decorate(f):
    @functools.wraps(f)
    def wrapper(*args):
        return f(*args)

    return wrapper


@decorate
def decorated(end):
    x = 0
    while now() < end: x = sum(NUMBERS)  # burn  # fmt: skip
    return x


def far_apart(end):
    x = (
        # A long way down, past what one byte of a line table holds.
        #
        #
        #
        #
        #
        #
        #
        #
        #
        #
        #
        0
    )
    while now() < end: x = sum(NUMBERS)  # burn  # fmt: skip
    return x


def produce(end):
    x = 0
    yield x
    while now() < end: x = sum(NUMBERS)  # burn  # fmt: skip
    yield x


def main():
    table = {}
    for name, f, call in [
        ("plain", plain, plain),
        ("Shop.checkout", Shop.checkout, Shop().checkout),
        ("Shop.refund", Shop.refund, Shop.refund),
        ("Shop.Cart.total", Shop.Cart.total, Shop.Cart().total),
        ("outer.<locals>.inner", outer(), outer()),
        ("decorated", decorated.__wrapped__, decorated),
        ("far_apart", far_apart, far_apart),
        ("produce", produce, lambda end: list(produce(end))),
    ]:
        start = now()
        call(start + SHARE)
        table[name] = truth.function(f, now() - start)
    truth.write(functions=table)


main()
