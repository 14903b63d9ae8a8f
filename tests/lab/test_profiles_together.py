"""Schedulers of all profiles on one cluster, each with a node pool of its own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.lab import Lab, Setting, in_lab

from muster.api import kinds
from muster.api.kinds import Kind
from muster.api.names import Names
from muster.api.profiles import ProfileName
from muster.client.kinds import plainly
from muster.lab.hosting import HostedService
from muster.runtime.supervisor import Supervisor
from muster.services.scheduler import roles, wiring
from muster.services.scheduler.options import Options, SchedulerServiceConfig
from muster.sim.kubelet.nodes import NodeGroup

_DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
_DEFINITION: Kind[dict[str, Any]] = Kind(
    dict,
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    False,
)
_POD = plainly(kinds.POD)
_POOL = Names().node_pool_label
_OTHERS = (ProfileName.VOLCANO, ProfileName.KUBE_BATCH, ProfileName.KUBE_BATCH_02)
_GROUPS = {
    ProfileName.VOLCANO: plainly(kinds.VOLCANO_POD_GROUP),
    ProfileName.KUBE_BATCH: plainly(kinds.KUBE_BATCH_POD_GROUP),
    ProfileName.KUBE_BATCH_02: plainly(kinds.KUBE_BATCH_POD_GROUP),
}
_QUEUES = (plainly(kinds.VOLCANO_QUEUE), plainly(kinds.KUBE_BATCH_QUEUE))
_SETTING = Setting(
    nodes=(
        NodeGroup("kai", count=2, cpu="4"),
        *(NodeGroup(_pool, count=2, cpu="4", labels={_POOL: _pool}) for _pool in ("a", "b", "c")),
    )
)
_CPU = {"requests": {"cpu": "2", "memory": "1Gi"}}


async def _here(work: Callable[[], Any]) -> Any:
    return work()


async def _start(lab: Lab, profile: ProfileName, pool: str) -> None:
    # Two of kube-batch on one cluster have names of their own.
    known = Names(scheduler=profile.value)
    options = Options(names=known, profile=profile, shard=pool, watches_claims=False)
    config = SchedulerServiceConfig(options, offload=_here)

    def build(supervisor: Supervisor) -> None:
        wiring.build(supervisor, config)

    name = f"{profile}-scheduler"
    await lab.cluster.start(HostedService(name, build, roles.rights(known, (pool,))))


async def _gang(lab: Lab, profile: ProfileName, pool: str, pods: int) -> None:
    labels = {_POOL: pool}
    spec: dict[str, Any] = {"minMember": pods}
    if profile is not ProfileName.KUBE_BATCH_02:
        spec["queue"] = "default"
    await lab.create(
        _GROUPS[profile], {"metadata": {"name": f"gang-{pool}", "labels": labels}, "spec": spec}
    )
    for number in range(pods):
        notes = {"scheduling.k8s.io/group-name": f"gang-{pool}"}
        metadata = {"name": f"gang-{pool}-{number}", "annotations": notes, "labels": labels}
        container = {"name": "main", "image": "work", "resources": _CPU}
        pod = {"schedulerName": profile.value, "containers": [container]}
        await lab.create(_POD, {"metadata": metadata, "spec": pod})


async def _story(lab: Lab) -> None:
    for folder in ("volcano-crds", "kube-batch-crds"):
        for path in sorted((_DEPLOY / folder).glob("*.yaml")):
            await lab.cluster.writer.create(_DEFINITION, yaml.safe_load(path.read_text()), "")
    pools = dict(zip(_OTHERS, ("a", "b", "c"), strict=True))
    for queue, pool in zip(_QUEUES, ("a", "b"), strict=True):
        body = {"metadata": {"name": "default", "labels": {_POOL: pool}}, "spec": {"weight": 1}}
        await lab.create(queue, body)
    for profile, pool in pools.items():
        await _start(lab, profile, pool)
    await lab.queue("team", -1)
    # Each asks for more than its own nodes have, with room on those of the others.
    for profile, pool in pools.items():
        await _gang(lab, profile, pool, pods=4)
    container = {"name": "main", "image": "work", "resources": _CPU}
    await lab.job("native", pods=4, gpus=0, queue="team", spec={"containers": [container]})
    for pool in ("a", "b", "c"):
        await lab.until_running(f"gang-{pool}", 4, within_s=60.0)
    await lab.until_running("native", 4, within_s=60.0)
    for pool in ("a", "b", "c"):
        nodes = set((await lab.running(f"gang-{pool}")).values())
        assert nodes == {f"{pool}-0", f"{pool}-1"}
    assert set((await lab.running("native")).values()) == {"kai-0", "kai-1"}


@pytest.mark.row(114)
def test_schedulers_of_every_profile_serve_one_cluster_side_by_side() -> None:
    in_lab(_story, _SETTING)
