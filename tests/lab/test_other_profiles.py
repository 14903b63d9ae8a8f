"""A scheduler of another profile reads the objects of that project and writes their status."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.lab import EVENT, POD, Lab, Setting, in_lab

from muster.api import kinds
from muster.api.kinds import Kind
from muster.api.names import Names
from muster.client.kinds import plainly
from muster.lab.hosting import HostedService
from muster.runtime.supervisor import Supervisor
from muster.services.scheduler import roles, wiring
from muster.services.scheduler.options import Options, ProfileName, SchedulerServiceConfig
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
_ALONE = ("podgrouper", "podgroups", "queues", "admission", "scaleadjuster", "reservation")
_SETTING = Setting(
    nodes=(NodeGroup("node", count=2, cpu="4"),), without=(*_ALONE, "scheduler", "binder")
)
_KINDS = {
    ProfileName.VOLCANO: (kinds.VOLCANO_POD_GROUP, kinds.VOLCANO_QUEUE, "volcano-crds"),
    ProfileName.KUBE_BATCH: (kinds.KUBE_BATCH_POD_GROUP, kinds.KUBE_BATCH_QUEUE, "kube-batch-crds"),
}


async def _scheduler(lab: Lab, profile: ProfileName) -> None:
    for path in sorted((_DEPLOY / _KINDS[profile][2]).glob("*.yaml")):
        body = yaml.safe_load(path.read_text())
        await lab.cluster.writer.create(_DEFINITION, body, "")
    known = Names(scheduler=profile.value)
    options = Options(names=known, profile=profile, watches_claims=False)
    config = SchedulerServiceConfig(options, offload=_here)

    def build(supervisor: Supervisor) -> None:
        wiring.build(supervisor, config)

    await lab.cluster.start(HostedService("scheduler", build, roles.rights(known)))


async def _here(work: Callable[[], Any]) -> Any:
    return work()


async def _group(lab: Lab, profile: ProfileName, name: str, pods: int, **spec: Any) -> None:
    group = plainly(_KINDS[profile][0])
    body = {"metadata": {"name": name}, "spec": {"minMember": pods, "queue": "default", **spec}}
    await lab.create(group, body)
    for number in range(pods):
        await lab.create(
            POD,
            {
                "metadata": {
                    "name": f"{name}-{number}",
                    "annotations": {"scheduling.k8s.io/group-name": name},
                },
                "spec": {
                    "schedulerName": profile.value,
                    "containers": [
                        {
                            "name": "main",
                            "image": "work",
                            "resources": {"requests": {"cpu": "2", "memory": "1Gi"}},
                        }
                    ],
                },
            },
        )


def _story(profile: ProfileName) -> Callable[[Lab], Awaitable[None]]:
    async def story(lab: Lab) -> None:
        group, queue = (plainly(kind) for kind in _KINDS[profile][:2])
        await _scheduler(lab, profile)
        await lab.create(queue, {"metadata": {"name": "default"}, "spec": {"weight": 1}})
        await _group(lab, profile, "fits", 4)
        await lab.until_running("fits", 4, within_s=60.0)
        await _group(lab, profile, "waits", 2)

        async def phases() -> bool:
            fits, waits = await lab.get(group, "fits"), await lab.get(group, "waits")
            done = fits.get("status", {})
            return (
                done.get("phase") == "Running"
                and done.get("running") == 4
                and waits.get("status", {}).get("phase") in ("Pending", "Inqueue")
                and bool(waits["status"].get("conditions"))
            )

        await lab.until(phases, within_s=60.0)
        (condition,) = (await lab.get(group, "waits"))["status"]["conditions"]
        assert (condition["type"], condition["status"]) == ("Unschedulable", "True")
        assert condition["reason"] == "NotEnoughResources"
        assert await lab.running("waits") == {}
        reasons = {one["reason"] for one in await lab.all(EVENT)}
        assert "Unschedulable" in reasons

    return story


@pytest.mark.parametrize("profile", list(_KINDS))
@pytest.mark.row(50, 51, 161)
def test_a_scheduler_of_another_profile_binds_gangs_and_writes_their_phases(
    profile: ProfileName,
) -> None:
    in_lab(_story(profile), replace(_SETTING))
