"""Ten threads, thirty calls deep, which wake 500 times a second for a little work.

Nearly every thread has run between two samples, so no profiler can skip one.
"""

import threading
import time

import window

THREADS, DEPTH, PAUSE = 10, 30, 0.002


def descend(depth, stop, wakeups, number):
    if depth > 1:
        return descend(depth - 1, stop, wakeups, number)
    while not stop.is_set():
        time.sleep(PAUSE)
        wakeups[number] += burn()


def burn():
    x = 1
    for i in range(300):
        x = x * 31 % 1000003 + i
    return 1 if x else 0


def work(seconds):
    before = sum(wakeups)
    time.sleep(seconds)
    return sum(wakeups) - before


if __name__ == "__main__":
    window.start_profiler()
    stop, wakeups = threading.Event(), [0] * THREADS
    threads = [threading.Thread(target=descend, args=(DEPTH, stop, wakeups, n)) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    window.measure(work)
    stop.set()
    for thread in threads:
        thread.join()
