"""A run without the programs or the recorded cases lists its tests, and counts none as passed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[3]
_TESTS = """
import pytest

def test_plain(): ...

@pytest.mark.kube
def test_on_kube(): ...

@pytest.mark.cases("recorded")
def test_with_cases(): ...

@pytest.mark.parametrize("case", [])
def test_each_case(case): ...
"""

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("workers", [0, 2])
def test_tests_without_their_programs_or_cases_are_listed_and_the_rest_runs(
    tmp_path: Path, workers: int
) -> None:
    status, said = _pytest(tmp_path, workers, MUSTER_KUBE_BIN="/nowhere", MUSTER_CASES="/nowhere")
    assert status == 0, said
    assert "1 passed" in said
    for test in ("test_on_kube", "test_with_cases", "test_each_case"):
        assert f"::{test}" in _line_with("NOT RUN", test, said)
    assert "1 tests not run: no kube-apiserver: /nowhere lacks: etcd" in said
    assert "the reference cases recorded are not beside this checkout" in said
    assert "real API server: 0 tests ran against it" in said


@pytest.mark.parametrize("workers", [0, 2])
def test_tests_with_their_programs_and_cases_run_and_are_counted(
    tmp_path: Path, workers: int
) -> None:
    (tmp_path / "recorded").mkdir()
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in [
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kubectl",
        "kwok",
    ]:
        (programs / name).touch(mode=0o755)
    status, said = _pytest(
        tmp_path, workers, MUSTER_KUBE_BIN=str(programs), MUSTER_CASES=str(tmp_path)
    )
    assert status == 0, said
    assert "3 passed" in said
    assert "real API server: 1 tests ran against it" in said


def _pytest(folder: Path, workers: int, **environment: str) -> tuple[int, str]:
    (folder / "test_few.py").write_text(_TESTS)
    plugins = ["-p", "tests.conftest", "-p", "no:cacheprovider", "-n", str(workers)]
    command = [sys.executable, "-m", "pytest", "-c", "pyproject.toml", *plugins, str(folder)]
    done = subprocess.run(
        command, cwd=_ROOT, env={**os.environ, **environment}, capture_output=True, text=True
    )
    return done.returncode, done.stdout + done.stderr


def _line_with(start: str, word: str, text: str) -> str:
    return next((line for line in text.splitlines() if line.startswith(start) and word in line), "")
