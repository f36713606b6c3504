# Starts spanflame's shim, then stands aside as if it had never been imported.
# Any Python may find this file on its path, so it keeps to syntax that they
# all parse (2.7, PyPy) and does nothing but stand aside where we support none.
import os
import sys


def _start():
    if sys.version_info < (3, 9) or sys.implementation.name != "cpython":
        return
    if not os.environ.get("SPANFLAME_SOCKET"):
        return
    cache = sys.dont_write_bytecode
    try:
        # Compiling us costs three times what starting us does. The setting is
        # about the application's directories; this one is ours.
        sys.dont_write_bytecode = cache and sys.pycache_prefix is not None
        from spanflame import shim

        shim.start()
    except Exception:
        pass  # a profiler that fails is not the application's concern
    finally:
        sys.dont_write_bytecode = cache


def _stand_aside():
    # sys.path becomes what it would be without us, and so does the outcome of
    # `import sitecustomize`: the next one on the path, with its own errors,
    # or an ImportError, which `site` takes for "there is none".
    here = __file__.rpartition("/")[0]
    sys.path[:] = [entry for entry in sys.path if entry != here]
    sys.path_importer_cache.pop(here, None)
    return sys.modules.pop(__name__)  # kept alive by the caller: Python 2 clears a dead module


_start()
_self = _stand_aside()
import sitecustomize  # noqa: E402,F401
