"""Our sitecustomize leaves a process as if it had not been there."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from conftest import PYTHON

LOOK = "import sys; print([p for p in sys.path if 'spanflame-path' in p], 'sitecustomize' in sys.modules, 'spanflame' in sys.modules)"


def run(python, *path, code=LOOK, **env):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path)), **env}
    return subprocess.run([python, "-c", code], env=env, capture_output=True, text=True, timeout=60)


def write_next(tmp_path, source):
    directory = tmp_path / "next"
    directory.mkdir()
    (directory / "sitecustomize.py").write_text(source)
    return directory


def test_without_an_agent(installed):
    result = run(sys.executable, installed)
    assert (result.stdout, result.stderr) == ("[] False False\n", "")


def test_with_an_agent_that_is_gone(installed):
    result = run(sys.executable, installed, SPANFLAME_SOCKET="spanflame-nobody", SPANFLAME_TOKEN="x")
    assert (result.stdout, result.stderr) == ("[] False True\n", "")


def test_chains_to_the_next(installed, tmp_path):
    following = write_next(tmp_path, "import sys; sys.chained = __name__, __file__")
    code = "import sys; print(sys.chained[0], sys.modules['sitecustomize'].__file__ == sys.chained[1])"
    result = run(sys.executable, installed, following, code=code)
    assert (result.stdout, result.stderr) == ("sitecustomize True\n", "")


@pytest.mark.parametrize("source", ["1/0", "import nowhere", "import sys; sys.exit(3)"])
def test_errors_of_the_next_are_what_they_would_be(installed, tmp_path, source):
    following = write_next(tmp_path, source)
    bare = run(sys.executable, following)
    ours = run(sys.executable, installed, following)
    assert (ours.returncode, ours.stdout.replace("True\n", "False\n")) == (bare.returncode, bare.stdout)
    assert ours.stderr.splitlines()[-1:] == bare.stderr.splitlines()[-1:]


@pytest.mark.parametrize("name", ["python2.7", "python3.8", "pypy3", "pypy"])
def test_other_pythons(installed, name):
    pyenv = pathlib.Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    candidates = [*map(str, pyenv.glob(f"versions/*/bin/{name}")), shutil.which(name)]
    python = next(
        (p for p in candidates if p and not subprocess.run([p, "-c", ""], capture_output=True).returncode), None
    )
    if python is None:
        pytest.skip(f"no {name}")
    result = run(python, installed, SPANFLAME_SOCKET="x", SPANFLAME_TOKEN="y")
    assert "False" in result.stdout and "True" not in result.stdout and result.stderr == ""


def test_parses_where_no_old_python_is():
    import ast

    source = (PYTHON / "path" / "sitecustomize.py").read_text()
    ast.parse(source, feature_version=(3, 4))
    assert not any(isinstance(node, ast.JoinedStr) for node in ast.walk(ast.parse(source)))
