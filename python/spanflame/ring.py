"""Events for the agent, in memory that it shares with us.

Writing costs no system call and takes no lock: a signal handler, the garbage
collector or a fork may interrupt a writer anywhere. A slot is reserved by
`next()` of an `itertools.count`, which is atomic; the reader believes a slot
only if both its sequence numbers and its CRC agree. The layout is described
in docs/shim.md and read by internal/shim/ring.go.
"""

import mmap
import os
import sys
from _struct import Struct
from _thread import get_ident
from binascii import crc32
from itertools import count
from time import monotonic_ns

SPAN_NAME = 1

FORMAT = 1
SLOTS = 4096
_HEADER = 4096
_SLOT = 128
_CHUNK = 84  # payload bytes in a slot
_LIMIT = 4096  # payload bytes in a record
_MORE = 1  # flag: the record goes on in a later slot

# Slots left free when we call the ring full: each of as many threads may have
# reserved one since another looked.
_SPARE = 64

_DROPS = 64  # offset of our count of dropped records
_POSITION = 128  # offset of the reader's: slots it is done with

_header = Struct("<8sIII")
_u64 = Struct("<Q")
_head = Struct("<QI")  # sequence number, CRC of the body
_body = Struct("<BBHQQI%ds" % _CHUNK)  # type, flags, length, time, thread, back, payload


class Ring:
    """A ring of our own; `fd` is for the agent and closed by `handed_over`."""

    def __init__(self):
        self.fd = _open(_HEADER + SLOTS * _SLOT)
        try:
            self._map, self._map_fd = _map(self.fd, _HEADER + SLOTS * _SLOT)
        except BaseException:
            os.close(self.fd)
            raise
        status = os.fstat(self.fd)
        self._file = status.st_dev, status.st_ino
        self._sequence = count(1)
        self._written = self._dropped = 0
        _header.pack_into(self._map, 0, b"SPFLRING", FORMAT, _SLOT, SLOTS)

    def handed_over(self):
        os.close(self.fd)
        self.fd = -1

    def write(self, kind, payload):
        """Write a record, or drop and count it if the reader is behind."""
        payload = payload[:_LIMIT]
        size = len(payload)
        slots = size // _CHUNK + 1
        position = _u64.unpack_from(self._map, _POSITION)[0]
        if self._written + slots - position > SLOTS - _SPARE:
            self._dropped += 1
            _u64.pack_into(self._map, _DROPS, self._dropped)
            return
        now = monotonic_ns()
        thread = get_ident()
        first = 0
        for start in range(0, slots * _CHUNK, _CHUNK):
            chunk = payload[start : start + _CHUNK]
            sequence = next(self._sequence)
            first = first or sequence
            flags = _MORE if start + _CHUNK < slots * _CHUNK else 0
            body = _body.pack(kind, flags, len(chunk), now, thread, sequence - first, chunk)
            at = _HEADER + (sequence - 1) % SLOTS * _SLOT
            slot = _head.pack(sequence, crc32(body)) + body + _u64.pack(sequence)
            self._map[at : at + _SLOT] = slot
            self._written = sequence

    def abandon(self):
        """Let go of a ring that is our parent's, after a fork."""
        # Before 3.13 a map keeps a descriptor and closes it in the end. If the
        # application closed that number, it may now be one of its own: then
        # the map is better kept for ever.
        if self._map_fd < 0 or same_file(self._map_fd, self._file):
            self._map.close()
        else:
            _leaked.append(self._map)


_leaked = []


def same_file(fd, identity):
    """Say whether fd is still the file (st_dev, st_ino) that we opened."""
    try:
        status = os.fstat(fd)
    except OSError:
        return False
    return (status.st_dev, status.st_ino) == identity


def _open(size):
    try:
        fd = os.memfd_create("spanflame", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    except (AttributeError, OSError):
        path = "/dev/shm/.spanflame-%d-%d" % (os.getpid(), monotonic_ns())
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        os.unlink(path)
    try:
        os.ftruncate(fd, size)
        _seal(fd)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _seal(fd):
    import fcntl

    try:  # numbers: the module has names for them from 3.8 on, if it was built with them
        fcntl.fcntl(fd, 1033, 0x1 | 0x2 | 0x4)  # F_ADD_SEALS: SEAL, SHRINK, GROW
    except OSError:
        pass  # the fallback file takes no seals; the agent never maps what we share


def _map(fd, size):
    """Map fd; return the map and the descriptor that it keeps (-1: none)."""
    if sys.version_info >= (3, 13):
        return mmap.mmap(fd, size, trackfd=False), -1
    kept = os.dup(fd)  # the lowest free number, which mmap's own dup takes next
    os.close(kept)
    return mmap.mmap(fd, size), kept
