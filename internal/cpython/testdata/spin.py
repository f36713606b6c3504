"""A thread that only runs Python, one that sleeps, and main, which waits for its input to end."""

import json
import sys
import threading
import time


def spin():
    while True:
        leaf(20)


def leaf(n):
    for i in range(n):
        i += 1


def sleep():
    time.sleep(10_000)


spinner = threading.Thread(target=spin, daemon=True)
sleeper = threading.Thread(target=sleep, daemon=True)
spinner.start()
sleeper.start()
print(json.dumps([spinner.ident, sleeper.ident]), flush=True)
sys.stdin.read()
