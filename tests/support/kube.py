"""Fixtures for tests against a real kube-apiserver (marker `kube`).

`control_plane` is shared by all tests of a run: keep to your own `namespace`, and change
cluster-wide objects only under names of your own. `controlled_plane` is the same with
kube-controller-manager and kwok, for tests that need jobs, garbage collection or running pods.
`fresh_control_plane` belongs to one test, which may kill its parts.
`start_control_plane(Setup(...))` starts one with other settings.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest

from muster.lab.control_plane import ControlPlane, Setup
from muster.lab.kube_programs import NotHere, kube_programs

ROOT = Path(__file__).resolve().parents[2]
StartControlPlane = Callable[[Setup], ControlPlane]

_numbers = count(1)


@pytest.fixture(scope="session")
def kube_folder() -> Path:
    """The folder of the control plane's programs."""
    found = kube_programs(ROOT)
    # Tests with the marker `kube` are not run at all without it: see tests/support/not_run.py.
    assert not isinstance(found, NotHere), f"{found.reason}: mark this test with pytest.mark.kube"
    return found


@pytest.fixture(scope="session")
def control_plane(kube_folder: Path) -> Iterator[ControlPlane]:
    with ControlPlane(kube_folder) as plane:
        yield plane


@pytest.fixture(scope="session")
def controlled_plane(kube_folder: Path) -> Iterator[ControlPlane]:
    with ControlPlane(kube_folder, Setup(controller_manager=True, kwok=True)) as plane:
        yield plane


@pytest.fixture
def start_control_plane(kube_folder: Path) -> Iterator[StartControlPlane]:
    with ExitStack() as running:
        yield lambda setup: running.enter_context(ControlPlane(kube_folder, setup))


@pytest.fixture
def fresh_control_plane(start_control_plane: StartControlPlane) -> ControlPlane:
    return start_control_plane(Setup())


@pytest.fixture
def namespace(control_plane: ControlPlane) -> str:
    """A namespace of the shared control plane that no other test uses."""
    return new_namespace(control_plane)


def new_namespace(plane: ControlPlane) -> str:
    name = f"test-{next(_numbers)}"
    answer = plane.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    assert answer.status == 201, answer
    return name
