"""Becomes itself again by exec, twice; the last one tells about the whole process."""

import os
import sys
import threading

import truth


def stage(n):
    return truth.burn(200_000_000)


def become(n):
    os.execv(sys.executable, [sys.executable, sys.argv[0], str(n)])


n = int(sys.argv[1])
truth.named(stage, f"stage_{n}")(n)
if n == 0:
    become(1)
if n == 1:  # from another thread, which goes on as the first one
    threading.Thread(target=become, args=(2,)).start()
    threading.Event().wait()
truth.write()
