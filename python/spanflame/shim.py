"""Registers this process, and each child that it forks, with the agent."""

import os
import sys
from _thread import get_native_id

from . import hook
from .ring import Ring
from .wire import Connection

# Everything that starting us may import. Nothing here changes its behaviour
# when gevent or eventlet patch the standard library. A test holds us to it.
STDLIB = frozenset(
    "_contextvars _json _socket _struct _thread _weakref binascii fcntl itertools mmap os sys time".split()
)

_CONNECT_TIMEOUT = 0.1  # the kernel answers at once, unless the agent's queue is full
_ANSWER_TIMEOUT = 0.5


class Shim:
    def __init__(self, address, token):
        self._address = address
        self._token = token
        self._connection = None
        self._ring = None
        self._settings = None

    def start(self):
        self._register(_CONNECT_TIMEOUT, forked=False)

    def settings(self):
        """Return the agent's answer to our registration, or None if it refused.

        It is read only when it is needed, so that starting waits for nobody;
        then it has long been there.
        """
        connection = self._reach()
        if self._settings is None and connection is not None:
            try:
                self._settings = connection.receive(_ANSWER_TIMEOUT)
            except Exception:
                self._settings = {}
            if self._settings.get("type") != "configure":
                self._forget()
        return self._settings if self._connection is not None else None

    def fork(self):
        """Register again: we are a new process, with memory of our own."""
        try:
            self._forget()
            self._register(_CONNECT_TIMEOUT, forked=True)
        except Exception:
            pass

    def post(self, kind, fields):
        connection = self._reach()
        if connection is not None:
            try:
                connection.post(kind, fields)
            except OSError:
                self._connection = None
                connection.close()

    def write(self, kind, payload):
        ring = self._ring
        if ring is not None:
            ring.write(kind, payload)

    def _reach(self):
        """Return the connection, made anew if a daemon closed all descriptors."""
        if self._connection is not None and not self._connection.is_ours():
            self._forget()
            self._register(_CONNECT_TIMEOUT, forked=False)
        return self._connection

    def _register(self, timeout, forked):
        files = {}
        connection = ring = None
        try:
            connection = Connection(self._address, timeout)
            # Each may fail: no /proc in a chroot, no permission after setuid,
            # no descriptors left. The agent makes do with what it gets.
            _attempt(files, "mem", lambda: os.open("/proc/self/mem", os.O_RDONLY))
            _attempt(files, "proc", lambda: os.open("/proc/self", os.O_RDONLY | os.O_DIRECTORY))
            ring = _attempt({}, "", Ring)
            if ring is not None:
                files["ring"] = ring.fd
            fields = _facts(forked)
            fields["token"] = self._token
            fields["files"] = list(files)
            connection.send("register", fields, list(files.values()))
            self._connection, self._ring = connection, ring
            return connection
        except BaseException:
            if connection is not None:
                connection.close()
            raise
        finally:
            files.pop("ring", None)
            if ring is not None:
                ring.handed_over()
            for fd in files.values():
                os.close(fd)

    def _forget(self):
        connection, self._connection = self._connection, None
        ring, self._ring = self._ring, None
        if connection is not None:
            connection.close()
        if ring is not None:
            ring.abandon()


def _attempt(into, key, make):
    try:
        into[key] = make()
        return into[key]
    except Exception:
        return None


def _facts(forked):
    args = getattr(sys, "orig_argv", None) or [sys.executable or ""] + getattr(sys, "argv", [])
    return {
        "pid": os.getpid(),
        "ppid": os.getppid(),
        "tid": get_native_id(),
        "forked": forked,
        "implementation": sys.implementation.name,
        "python": list(sys.version_info[:3]),
        "hexversion": sys.hexversion,
        "releaselevel": sys.version_info.releaselevel,
        "free_threaded": "t" in getattr(sys, "abiflags", ""),
        "platform": sys.platform,
        "executable": (sys.executable or "")[:1024],
        "args": [str(arg)[:256] for arg in args[:32]],
    }


current = None  # the process's Shim, once it has registered


def start():
    """Register with the agent that the environment names, once."""
    global current
    address = os.environ.get("SPANFLAME_SOCKET")
    if current is not None or not address or not sys.platform.startswith("linux"):
        return
    shim = Shim(address, os.environ.get("SPANFLAME_TOKEN", ""))
    shim.start()
    current = shim
    os.register_at_fork(after_in_child=shim.fork)
    hook.install()


def pre_instrument():
    """Entry point for opentelemetry-instrument, whose sitecustomize hides ours."""
    try:
        start()
        here = __file__.rpartition("/spanflame/")[0]
        sys.path[:] = [entry for entry in sys.path if entry != here]
    except Exception:
        pass
