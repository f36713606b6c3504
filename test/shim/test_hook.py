import importlib
import importlib.util
import sys

import pytest
from spanflame import hook


@pytest.fixture
def watched(tmp_path, monkeypatch):
    (tmp_path / "watched_module.py").write_text("value = 1\n")
    loaded = []
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(hook, "_SDK", "watched_module")
    monkeypatch.setattr(hook, "_loaded", lambda: loaded.append(1))
    finder = hook._Finder()
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    monkeypatch.delitem(sys.modules, "watched_module", raising=False)
    yield loaded
    sys.modules.pop("watched_module", None)


def test_module_looks_as_without_us(watched):
    module = importlib.import_module("watched_module")
    assert watched == [1] and module.value == 1
    loader = module.__spec__.loader
    assert type(loader).__name__ == "SourceFileLoader" and "exec_module" not in vars(loader)
    assert module.__loader__ is loader and loader.get_source("watched_module") == "value = 1\n"


def test_asking_for_the_spec_does_no_harm(watched):
    assert importlib.util.find_spec("watched_module").loader.path
    importlib.import_module("watched_module")
    assert watched == [1]


def test_reload(watched):
    importlib.reload(importlib.import_module("watched_module"))
    assert watched == [1, 1]


def test_another_finder_of_our_kind(watched, monkeypatch):
    class Other:
        busy = False

        def find_spec(self, name, path=None, target=None):
            if self.busy or name != "watched_module":
                return None
            self.busy = True
            try:
                return importlib.util.find_spec(name)
            finally:
                self.busy = False

    monkeypatch.setattr(sys, "meta_path", [sys.meta_path[0], Other(), *sys.meta_path[1:]])
    importlib.import_module("watched_module")
    assert watched == [1]


def test_missing_module(watched, monkeypatch):
    monkeypatch.setattr(hook, "_SDK", "watched_nowhere")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("watched_nowhere")
