import pathlib
import sys

import pytest

PYTHON = pathlib.Path(__file__).parents[2] / "python"
sys.path.insert(0, str(PYTHON))


@pytest.fixture
def installed(tmp_path):
    """The directory that the agent puts on PYTHONPATH."""
    directory = tmp_path / "spanflame-path"
    directory.mkdir()
    for part in [*(PYTHON / "path").iterdir(), PYTHON / "spanflame"]:
        (directory / part.name).symlink_to(part)
    return directory
