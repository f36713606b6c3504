"""Counts the signals it gets until a file appears, then ends with code 5."""

import os
import signal
import sys
import time

import truth

NAMES = ["SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGWINCH"]
counts = dict.fromkeys(NAMES, 0)


def count(number, frame):
    counts[signal.Signals(number).name] += 1


for name in NAMES:
    signal.signal(getattr(signal, name), count)
stop = sys.argv[1]
print("ready", os.getpid(), flush=True)
limit = time.monotonic() + 60
while not os.path.exists(stop) and time.monotonic() < limit:
    time.sleep(0.02)
time.sleep(0.2)  # a second delivery, were there one, would come now
truth.write(
    signals=counts,
    tty=[os.isatty(fd) for fd in range(3)],
    foreground=os.tcgetpgrp(0) == os.getpgrp() if os.isatty(0) else False,
)
sys.exit(5)
