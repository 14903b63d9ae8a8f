"""The two worlds that stories are told in: the laptop cluster, and a real control plane."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.kube_lab import on_kube
from tests.support.lab import InWorld, in_lab

from muster.lab.control_plane import GANG_API, ControlPlane, Setup


@pytest.fixture(scope="session")
def product_plane(kube_folder: Path) -> Iterator[ControlPlane]:
    """A control plane of the product's own: its webhooks concern the whole cluster."""
    with ControlPlane(kube_folder, Setup(controller_manager=True, kwok=True)) as plane:
        yield plane


@pytest.fixture(scope="session")
def gang_plane(kube_folder: Path) -> Iterator[ControlPlane]:
    """Kubernetes with its gangs and all that belongs to them switched on."""
    more = ("WorkloadWithJob", "WorkloadAwarePreemption", "DRAWorkloadResourceClaims")
    gates = {**GANG_API.feature_gates, **dict.fromkeys(more, True)}
    given = ",".join(f"{name}=true" for name in gates)
    setup = replace(
        GANG_API,
        feature_gates=gates,
        controller_manager=True,
        kwok=True,
        more_flags={"kube-controller-manager": [f"--feature-gates={given}"]},
    )
    with ControlPlane(kube_folder, setup) as plane:
        yield plane


@pytest.fixture(params=["embedded", pytest.param("kube", marks=pytest.mark.kube)])
def in_world(request: pytest.FixtureRequest) -> InWorld:
    """Tells a story in each world; at its end the cluster is checked."""
    if request.param == "embedded":
        return in_lab
    plane: ControlPlane = request.getfixturevalue("product_plane")
    return lambda scenario, setting=None: on_kube(plane, scenario, setting)
