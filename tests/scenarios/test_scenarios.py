"""Every YAML file of this folder is a test: its name is the sentence it shows."""

from pathlib import Path

import pytest

from muster.testing.run_scenario import problems
from muster.testing.scenario import read_scenario

_HERE = Path(__file__).parent
_FILES = sorted(_HERE.glob("*/*.yaml"))


@pytest.mark.parametrize("file", _FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_scenario(file: Path) -> None:
    assert problems(read_scenario(file)) == []
