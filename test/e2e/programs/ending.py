"""Ends in the way it is told to, after a while in which it can be sampled."""

import os
import signal
import sys
import time

import truth

how = sys.argv[1]
pause = float(sys.argv[2]) if len(sys.argv) > 2 else 0.1
truth.burn(50_000_000)
truth.write()
print("ready", os.getpid(), flush=True)
end = time.monotonic() + pause
while time.monotonic() < end:
    truth.burn(5_000_000)
    time.sleep(0.005)
if how.isdigit():
    truth.write()
    sys.exit(int(how))
if how == "raise":
    raise RuntimeError("on purpose")
if how == "_exit":
    os._exit(9)
signal.signal(getattr(signal, how), signal.SIG_DFL) if how != "SIGKILL" else None
os.kill(os.getpid(), getattr(signal, how))
time.sleep(10)
