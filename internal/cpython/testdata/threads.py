"""Starts or ends threads as it is told: prints their idents and names."""

import json
import sys
import threading
import time

running = []


def wait(until):
    until.acquire()


def churn():
    while True:
        thread = threading.Thread(target=time.sleep, args=(0.0002,))
        thread.start()
        thread.join()


print(json.dumps(threading.get_ident()), flush=True)
for line in sys.stdin:
    if line == "end\n":
        thread, gate = running.pop()
        gate.release()
        thread.join()
    elif line == "churn\n":
        for _ in range(8):
            threading.Thread(target=churn, daemon=True).start()
    else:
        gate = threading.Lock()
        gate.acquire()
        thread = threading.Thread(target=wait, args=(gate,), name=line.strip(), daemon=True)
        thread.start()
        running.append((thread, gate))
    print(json.dumps({t.ident: [t.name, t.native_id] for t in threading.enumerate()}), flush=True)
