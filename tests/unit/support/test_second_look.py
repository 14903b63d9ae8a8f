"""What failed once is tried again only where chance may have decided."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.second_look import MOST

_ROOT = Path(__file__).resolve().parents[3]
_TESTS = """
import pathlib
import pytest

def fails_the_first_time(name):
    seen = pathlib.Path(__file__).with_name(name)
    first = not seen.exists()
    seen.touch()
    assert not first

@pytest.mark.processes
@pytest.mark.parametrize("number", range({real}))
def test_of_a_real_program(number):
    fails_the_first_time(f"real-{{number}}")

@pytest.mark.parametrize("number", range({certain}))
def test_of_a_rule(number):
    fails_the_first_time(f"certain-{{number}}")

def test_that_passes():
    pass
"""

pytestmark = pytest.mark.slow


def test_a_test_of_a_real_program_that_failed_by_chance_passes_alone(tmp_path: Path) -> None:
    _write(tmp_path, real=1, certain=0)
    assert _run(tmp_path, "-n", "2")[0] == 1
    status, said = _look_again(tmp_path)
    assert status == 0, said
    assert "1 passed" in said
    assert "2 passed" not in said


def test_a_test_of_a_rule_that_failed_has_failed(tmp_path: Path) -> None:
    _write(tmp_path, real=1, certain=1)
    assert _run(tmp_path)[0] == 1
    status, said = _look_again(tmp_path)
    assert status == 1
    assert "test_of_a_rule[0]" in said
    assert "do the same each time" in said


def test_many_failures_are_no_chance(tmp_path: Path) -> None:
    _write(tmp_path, real=MOST + 1, certain=0)
    assert _run(tmp_path)[0] == 1
    status, said = _look_again(tmp_path)
    assert status == 1
    assert f"{MOST + 1} tests failed, which is no chance" in said


def test_a_run_that_ended_before_any_test_has_no_second_look(tmp_path: Path) -> None:
    _write(tmp_path, real=1, certain=0)
    assert _look_again(tmp_path)[0] != 0


def _write(folder: Path, real: int, certain: int) -> None:
    (folder / "test_few.py").write_text(_TESTS.format(real=real, certain=certain))


def _look_again(folder: Path) -> tuple[int, str]:
    """As `make test` does."""
    return _run(folder, "--last-failed", "--last-failed-no-failures", "none", "--second-look")


def _run(folder: Path, *options: str) -> tuple[int, str]:
    cache = ["-o", f"cache_dir={folder / 'cache'}"]
    pytest_here = [sys.executable, "-m", "pytest", "-c", "pyproject.toml", "-p", "tests.conftest"]
    command = [*pytest_here, *cache, *options, str(folder)]
    environment = {name: text for name, text in os.environ.items() if "PYTEST" not in name}
    done = subprocess.run(command, cwd=_ROOT, env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr
