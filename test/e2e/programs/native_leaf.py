"""CPU spent in C belongs to the Python line that called it."""

import hashlib
import re
import time
import zlib

import truth
from truth import thread_time_ns as now

SHARE = 300_000_000
BLOCK = bytes(range(256)) * 4096
SLOW = re.compile("(a*)*b")
NUMBERS = list(range(200_000, 0, -1))


def hashing(end):
    """Gives the GIL up."""
    while now() < end:
        hashlib.pbkdf2_hmac("sha256", b"x", b"y", 20_000)  # burn


def compressing(end):
    """Gives the GIL up."""
    while now() < end:
        zlib.compress(BLOCK, 9)  # burn


def matching(end):
    """Keeps the GIL."""
    while now() < end:
        SLOW.match("a" * 18)  # burn


def summing(end):
    while now() < end:
        sum(NUMBERS)  # burn


def napping(end):
    for _ in range(10):
        time.sleep(0.05)  # burn


table = {}
for f in (hashing, compressing, matching, summing, napping):
    start, began = now(), time.monotonic_ns()
    f(start + SHARE)
    used, took = now() - start, time.monotonic_ns() - began
    table[f.__name__] = truth.function(f, used) | {"wall": took}
truth.write(functions=table)
