"""The product on the oldest Kubernetes that it promises to run on, or on all of them
(MUSTER_KUBE_MINORS=all).

The newest is what every other test of a real API server runs on.
"""

import os
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.flows import OF_THE_SERVER, Flow
from tests.support.kube import ROOT
from tests.support.kube_lab import on_kube
from tests.support.lab import Lab, Setting

from muster.lab.control_plane import ControlPlane, Setup
from muster.lab.hosting import unwrapped
from muster.lab.kube_programs import NotHere, kube_programs
from muster.services.operator.bootstrap import OLDEST_KUBERNETES
from muster.sim.kubelet.nodes import Gpus, NodeGroup

_OLDEST = ".".join(map(str, OLDEST_KUBERNETES))
_ALL = ("1.33", "1.34", "1.35", "1.36")
_CHOSEN = _ALL if os.environ.get("MUSTER_KUBE_MINORS") == "all" else (_OLDEST,)

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("minors")]


@pytest.fixture(
    scope="module", params=[pytest.param(one, marks=pytest.mark.minor(one)) for one in _CHOSEN]
)
def plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    programs = kube_programs(ROOT, request.param)
    assert not isinstance(programs, NotHere)
    with ControlPlane(programs, Setup(controller_manager=True, kwok=True)) as plane:
        assert plane.call("GET", "/version").body["minor"] == request.param.split(".")[1]
        yield plane


def _serves_claims(plane: ControlPlane) -> bool:
    return plane.call("GET", "/apis/resource.k8s.io/v1").status == 200


@pytest.mark.parametrize("flow", OF_THE_SERVER, ids=str)
def test_workloads_run_on_each_minor(plane: ControlPlane, flow: Flow) -> None:
    if flow.name == "devices" and not _serves_claims(plane):
        on_kube(plane, _without_claims, Setting(nodes=_TWO_NODES))
        return

    async def story(lab: Lab) -> None:
        await flow.once(lab)
        await flow.before(lab)
        await flow.work(lab)
        await flow.done(lab)
        if _serves_claims(plane):
            await flow.end(lab)

    on_kube(plane, story, flow.setting(unwrapped, period_s=0.1))


_TWO_NODES = (NodeGroup("gpu", count=2, gpus=Gpus(count=2)),)


async def _without_claims(lab: Lab) -> None:
    """What a minor lacks is found out, shown, and done without."""
    await lab.pod("plain", gpus=1)
    await lab.until_running("plain", 1)
    for name in ("scheduler", "binder"):
        shown: Any = lab.cluster.supervisors[name].debug["informers"]()
        served = {one["kind"]: one["served"] for one in shown}
        assert served["resourceclaims.resource.k8s.io"] is False
        assert served["pods"] is True
        assert lab.cluster.supervisors[name].readiness() == []


def test_the_manifests_are_taken_on_each_minor(plane: ControlPlane) -> None:
    """By the server, which knows its own schemas: fields that it does not know would be refused."""
    for name in ("kai-scheduler", "kai-resource-reservation", "kai-scale-adjust"):
        body = {"metadata": {"name": name}}
        assert plane.call("POST", "/api/v1/namespaces", body).status in (201, 409)
    told = plane.kubectl(
        *("apply", "--server-side", "--dry-run=server", "--validate=strict"),
        *("-k", str(ROOT / "deploy")),
    )
    assert "deployment.apps/muster-operator serverside-applied" in told
    assert told.count("customresourcedefinition") == 6
