"""Waits for the OpenTelemetry SDK to be imported, by whatever code."""

import sys
from _thread import get_ident

_SDK = "opentelemetry.sdk.trace"


class _Finder:
    """A finder that finds nothing itself, but has the SDK's module patched."""

    def __init__(self):
        self._busy = set()  # threads in find_spec: others' finders may ask us again

    def find_spec(self, name, path=None, target=None):
        if name != _SDK or get_ident() in self._busy:
            return None
        self._busy.add(get_ident())
        try:
            spec = self._ask_others(name, path, target)
        finally:
            self._busy.discard(get_ident())
        try:
            _watch(spec.loader)
        except Exception:
            pass
        return spec

    def _ask_others(self, name, path, target):
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find and finder is not self else None
            if spec is not None:
                return spec
        return None


def _watch(loader):
    # An attribute of this one loader, gone when it has served: spec and loader
    # stay what they are for whoever inspects them.
    execute = loader.exec_module

    def exec_module(module):
        del loader.exec_module
        execute(module)
        _loaded()

    loader.exec_module = exec_module


def _loaded():
    try:
        from . import otel

        otel.patch()
    except Exception:
        pass


def install():
    """Have the SDK patched when it is imported, or now if it was."""
    # It is never removed: another thread may be walking the list. It costs an
    # import a tenth of a microsecond.
    sys.meta_path.insert(0, _Finder())
    if _SDK in sys.modules:  # and maybe a provider: opentelemetry-instrument came first
        from . import otel

        otel.patch()
        otel.attach_to_global()
