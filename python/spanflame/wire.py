"""Messages to the agent: a length and a JSON object, over a Unix socket."""

import os
from _socket import (
    AF_UNIX,
    MSG_DONTWAIT,
    MSG_NOSIGNAL,
    SCM_RIGHTS,
    SO_RCVTIMEO,
    SO_SNDTIMEO,
    SOCK_STREAM,
    SOL_SOCKET,
    socket,
)
from _struct import Struct
from time import monotonic

from . import __version__
from .ring import same_file

LIMIT = 64 << 10
_length = Struct("<I")
_timeval = Struct("@ll")


class Connection:
    """A connection to the agent.

    It holds the number of a descriptor rather than a socket object: a daemon
    may close all numbers it sees and open files under them, so each use first
    checks that the number still is ours.
    """

    def __init__(self, name, timeout):
        sock = socket(AF_UNIX, SOCK_STREAM)
        try:
            sock.settimeout(None)  # socket.setdefaulttimeout() would apply to us
            _bound(sock, SO_SNDTIMEO, timeout)
            sock.connect("\0" + name)
            status = os.fstat(sock.fileno())
        except BaseException:
            sock.close()
            raise
        self._file = status.st_dev, status.st_ino
        self._fd = sock.detach()

    def send(self, kind, fields, files=(), flags=0):
        """Send a message, all or nothing; a failure ends the connection."""
        message = {"type": kind, "version": __version__}
        message.update(fields)
        data = encode(message).encode("utf-8")
        if len(data) > LIMIT:
            raise ValueError("message too long")
        data = _length.pack(len(data)) + data
        ancillary = []
        if files:
            ancillary = [(SOL_SOCKET, SCM_RIGHTS, Struct("%di" % len(files)).pack(*files))]
        # SIGPIPE's disposition is the application's.
        if self._use(lambda sock: sock.sendmsg([data], ancillary, MSG_NOSIGNAL | flags)) != len(data):
            raise OSError("short write")

    def post(self, kind, fields):
        """Send without ever waiting."""
        self.send(kind, fields, (), MSG_DONTWAIT)

    def receive(self, timeout):
        """Return the next message."""
        deadline = monotonic() + timeout
        (size,) = _length.unpack(self._use(lambda sock: _read(sock, 4, deadline)))
        if size > LIMIT:
            raise ValueError("message too long")
        return decode(self._use(lambda sock: _read(sock, size, deadline)).decode("utf-8"))

    def is_ours(self):
        """Say whether the application left us our descriptor."""
        return same_file(self._fd, self._file)

    def close(self):
        if self.is_ours():
            os.close(self._fd)
        self._fd = -1

    def _use(self, action):
        if not self.is_ours():
            raise OSError("our descriptor was closed")
        sock = socket(AF_UNIX, SOCK_STREAM, 0, self._fd)
        try:
            sock.settimeout(None)
            return action(sock)
        finally:
            sock.detach()


def _read(sock, size, deadline):
    data = b""
    while len(data) < size:
        _bound(sock, SO_RCVTIMEO, deadline - monotonic())
        chunk = sock.recv(size - len(data))
        if not chunk:
            raise OSError("the agent closed the connection")
        data += chunk
    return data


def _bound(sock, option, seconds):
    # The kernel's timeout rather than Python's, which would make the socket
    # non-blocking; then connect() fails at once while the queue is full.
    microseconds = int(seconds * 1e6)
    if microseconds <= 0:
        raise OSError("timeout")  # to the kernel, 0 means for ever
    sock.setsockopt(SOL_SOCKET, option, _timeval.pack(*divmod(microseconds, 1000000)))


def encode(value):
    """Return value as JSON. The json package would import `re` and others."""
    if isinstance(value, str):
        return _quote(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        # JSON knows neither infinities nor NaN, for which the difference is not 0.
        return float.__repr__(value) if value - value == 0 else "null"
    if isinstance(value, dict):
        items = [_quote(key) + ":" + encode(item) for key, item in value.items()]
        return "{" + ",".join(items) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join([encode(item) for item in value]) + "]"
    raise TypeError("no JSON for " + type(value).__name__)


def _quote(text):
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return '"' + text + '"'
    from _json import encode_basestring_ascii  # seldom needed at start

    return encode_basestring_ascii(text)


class _Scanner:  # what json.JSONDecoder hands to the same C function
    strict = True
    object_hook = object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float


def decode(text):
    """Return the JSON object that text holds."""
    from _json import make_scanner

    value, end = make_scanner(_Scanner)(text, 0)
    if end != len(text) or not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value
