"""A scheduler of another profile reads the objects of that project and writes their status."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.lab import EVENT, POD, Lab, Setting, in_lab

from muster.api import kinds
from muster.api.kinds import Kind
from muster.api.names import Names
from muster.api.profiles import ProfileName
from muster.client.kinds import plain_kind, plainly
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
    body = {"metadata": {"name": name}, "spec": {"minMember": pods, "queue": "team", **spec}}
    await lab.create(group, body)
    await _pods(lab, profile, name, pods, {})


async def _pods(
    lab: Lab, profile: ProfileName, name: str, pods: int, notes: Mapping[str, str]
) -> None:
    for number in range(pods):
        await lab.create(
            POD,
            {
                "metadata": {
                    "name": f"{name}-{number}",
                    "annotations": {"scheduling.k8s.io/group-name": name, **notes},
                    "labels": {"role": "worker", "part": str(number)},
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
        await lab.create(queue, {"metadata": {"name": "team"}, "spec": {"weight": 1}})
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


_NEW_GROUP = plainly(kinds.VOLCANO_POD_GROUP)
_OLD_GROUP = plain_kind("scheduling.volcano.sh", "v1alpha1", "PodGroup", "podgroups")
_OLD_QUEUE = plain_kind("scheduling.volcano.sh", "v1alpha1", "Queue", "queues", namespaced=False)
_WHOLE_SPEC = {
    "minMember": 2,
    "minTaskMember": {"worker": 2},
    "queue": "default",
    "minResources": {"cpu": "4", "memory": "2Gi", "example.com/card": "0"},
    "networkTopology": {"mode": "soft", "highestTierAllowed": 2},
    "subGroupPolicy": [
        {
            "name": "part",
            "subGroupSize": 1,
            "minSubGroups": 1,
            "matchLabelKeys": ["part"],
            "labelSelector": {"matchLabels": {"role": "worker"}},
        }
    ],
}
_NOTES = {"volcano.sh/sla-waiting-time": "1h", "team.example.com/note": "kept"}


async def _old_story(lab: Lab) -> None:
    await _scheduler(lab, ProfileName.VOLCANO)
    queue = {"weight": 3, "capability": {"cpu": "100"}, "reclaimable": False}
    await lab.create(_OLD_QUEUE, {"metadata": {"name": "default"}, "spec": queue})
    metadata = {"name": "old", "annotations": _NOTES, "labels": {"app": "old"}}
    await lab.create(_OLD_GROUP, {"metadata": metadata, "spec": _WHOLE_SPEC})
    await _pods(lab, ProfileName.VOLCANO, "old", 2, {"volcano.sh/task-spec": "worker"})
    await lab.until_running("old", 2, within_s=60.0)

    async def is_written() -> bool:
        found = await lab.get(_OLD_GROUP, "old")
        return bool(found.get("status", {}).get("running") == 2)

    await lab.until(is_written, within_s=60.0)
    old, new = await lab.get(_OLD_GROUP, "old"), await lab.get(_NEW_GROUP, "old")
    assert (old["apiVersion"], new["apiVersion"]) == (
        "scheduling.volcano.sh/v1alpha1",
        "scheduling.volcano.sh/v1beta1",
    )
    assert old["spec"] == new["spec"] == _WHOLE_SPEC
    assert old["status"] == new["status"]
    assert old["status"]["phase"] == "Running"
    for found in (old, new):
        assert found["metadata"]["annotations"] == _NOTES
        assert found["metadata"]["labels"] == {"app": "old"}
    assert (await lab.get(_OLD_QUEUE, "default"))["spec"].items() >= queue.items()


@pytest.mark.row(153)
def test_a_group_of_the_old_version_is_scheduled_and_nothing_of_it_is_lost() -> None:
    """What it is written in and what its status is written in are two versions of one object."""
    in_lab(_old_story, replace(_SETTING))
