"""A thread that Python does not know burns CPU next to the main thread."""

import ctypes
import time

import truth

libc = ctypes.CDLL(None)
libc.pthread_join.argtypes = [ctypes.c_ulong, ctypes.c_void_p]
buffer = ctypes.create_string_buffer(b"x" * (12 << 20))
begin, own = time.process_time_ns(), time.thread_time_ns()
for _ in range(4):
    handle = ctypes.c_ulong()
    # strfry walks the whole string once, in the new thread.
    libc.pthread_create(ctypes.byref(handle), None, libc.strfry, buffer)
    libc.pthread_join(handle, None)
native = time.process_time_ns() - begin - (time.thread_time_ns() - own)
truth.burn(300_000_000)
truth.write(native=native)
