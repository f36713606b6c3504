"""Two threads at once, one with twice the CPU of the other."""

import sys
import time

import truth

cpu = truth.Tally()


def double(ns):
    while ns > 0:
        ns -= truth.burn(20_000_000)


def single(ns):
    while ns > 0:
        ns -= truth.burn(10_000_000)
        time.sleep(0.01)


unit = int(float(sys.argv[1]) * 1e9)
started = [
    truth.Thread(target=double, args=(2 * unit,), name="double"),
    truth.Thread(target=single, args=(unit,), name="single"),
]
for thread in started:
    thread.start()
for thread in started:
    thread.join()
truth.write(threads=truth.threads(started))
