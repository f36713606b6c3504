"""Threads whose outermost call is no Python function: prints their idents."""

import _thread
import json
import sys
import time

gate = _thread.allocate_lock()
gate.acquire()


def generator():
    yield inner()


def inner():
    gate.acquire()


made = generator()
idents = [_thread.start_new_thread(time.sleep, (10_000,)), _thread.start_new_thread(made.__next__, ())]
time.sleep(0.1)
print(json.dumps(idents), flush=True)
sys.stdin.read()
