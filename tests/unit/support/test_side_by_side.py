"""Tests that share what is slow to make run in one process, and the long ones begin first."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support import side_by_side

_ROOT = Path(__file__).resolve().parents[3]

_TESTS = """
import pytest

@pytest.fixture(scope="module")
def wheel(): ...

@pytest.fixture
def control_plane(): ...

@pytest.fixture
def kube_folder(): ...

@pytest.fixture
def start_control_plane(kube_folder): ...

def test_quick(): ...

@pytest.mark.slow
def test_slow(): ...

def test_of_the_wheel(wheel): ...

@pytest.mark.kube
def test_on_one_of_its_own(start_control_plane): ...

@pytest.mark.kube
def test_on_the_shared_one(control_plane): ...

@pytest.mark.kube
def test_on_one_that_it_asks_for(request): ...

@pytest.mark.kube
@pytest.mark.xdist_group("minors")
def test_on_an_older_one(): ...
"""


class _Collected:
    """A plugin that keeps what pytest collected."""

    def __init__(self) -> None:
        self.groups: dict[str, str | None] = {}
        self.order: list[str] = []

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            self.groups[item.name] = group = side_by_side.group_of(item)
            if group:
                item.add_marker(pytest.mark.xdist_group(group))
        self.order = [item.name for item in sorted(items, key=side_by_side.turn)]


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> _Collected:
    folder = tmp_path_factory.mktemp("few")
    (folder / "test_few.py").write_text(_TESTS)
    (folder / "pytest.ini").write_text(
        "[pytest]\nasyncio_default_fixture_loop_scope = function\n"
        "markers =\n  kube: k\n  slow: s\n  xdist_group: x\n"
    )
    found = _Collected()
    words = ["--collect-only", "-q", "-p", "no:cacheprovider", "--import-mode", "importlib"]
    assert pytest.main([*words, "--rootdir", str(folder), str(folder)], [found]) == 0
    return found


def test_tests_stay_with_those_that_share_a_plane_or_a_fixture_of_their_module(
    collected: _Collected,
) -> None:
    assert collected.groups == {
        "test_quick": None,
        "test_slow": None,
        "test_of_the_wheel": "test_few.py",
        "test_on_one_of_its_own": None,
        "test_on_the_shared_one": "plain",
        "test_on_one_that_it_asks_for": "plain",
        "test_on_an_older_one": None,
    }


def test_long_groups_come_first_and_what_takes_milliseconds_last(collected: _Collected) -> None:
    assert collected.order == [
        "test_on_the_shared_one",
        "test_on_one_that_it_asks_for",
        "test_on_an_older_one",
        "test_on_one_of_its_own",
        "test_slow",
        "test_quick",
        "test_of_the_wheel",
    ]


def test_there_are_two_processes_more_than_cores(
    monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert side_by_side.pytest_xdist_auto_num_workers(pytestconfig) == 4


_PROCESSES = """
import os
import pathlib
import pytest

@pytest.fixture(scope="module")
def wheel(): ...

@pytest.mark.parametrize("number", range(8))
def test_of_the_wheel(wheel, number):
    pathlib.Path(__file__).with_name(f"process-{os.getpid()}").touch()
    assert number != 5
"""


@pytest.mark.slow
def test_a_group_has_one_process_and_who_failed_there_is_found_again(tmp_path: Path) -> None:
    (tmp_path / "test_few.py").write_text(_PROCESSES)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    status, said = _run(tmp_path, "-n", "3", "--dist", "loadgroup", "--no-loadscope-reorder")
    assert status == 1, said
    assert len(list(tmp_path.glob("process-*"))) == 1
    assert "FAILED test_few.py::test_of_the_wheel[5] " in said

    status, said = _run(tmp_path, "--last-failed", "--last-failed-no-failures", "none")
    assert status == 1, said
    assert "1 failed" in said
    assert "passed" not in said


def _run(folder: Path, *words: str) -> tuple[int, str]:
    own = ("-q", "-p", "tests.support.side_by_side")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *own, *words, str(folder)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(_ROOT)},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("nodeid", "name"),
    [
        ("test_few.py::test_one@plain", "test_few.py::test_one"),
        ("test_few.py::test_one", "test_few.py::test_one"),
        ("test_few.py::test_one[a@b]", "test_few.py::test_one[a@b]"),
        ("test_few.py::test_one[a@b]@plain", "test_few.py::test_one[a@b]"),
    ],
)
def test_the_name_of_a_test_is_the_one_that_it_has_alone(nodeid: str, name: str) -> None:
    assert side_by_side.name_alone(nodeid) == name
