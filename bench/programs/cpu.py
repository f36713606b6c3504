"""One thread that only computes: calls, objects, dictionaries, strings."""

import time

import window


class Item:
    def __init__(self, name, price):
        self.name = name
        self.price = price

    def taxed(self):
        return self.price * 119 // 100


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def basket(size):
    return [Item("item-%d" % (i * 7 % 31), i * 37 % 101) for i in range(size)]


def by_name(items):
    sums = {}
    for item in items:
        sums[item.name] = sums.get(item.name, 0) + item.taxed()
    return sorted(sums.items(), key=lambda pair: (-pair[1], pair[0]))


def render(rows):
    return "\n".join("%-10s %8d" % row for row in rows)


def unit():
    fib(13)
    return render(by_name(basket(120)))


def work(seconds):
    end, units = time.perf_counter() + seconds, 0
    while time.perf_counter() < end:
        unit()
        units += 1
    return units


if __name__ == "__main__":
    window.start_profiler()
    window.measure(work)
