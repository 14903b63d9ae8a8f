"""GPU requests from the annotation to the container, and those that no cluster can serve."""

from dataclasses import replace
from typing import Any

import pytest
from tests.support.lab import (
    BIND_REQUEST,
    CONFIG_MAP,
    DEVICE_CLASS,
    POD,
    POD_GROUP,
    RESOURCE_CLAIM,
    InWorld,
    Lab,
    Setting,
    in_lab,
)

from muster.client.errors import Forbidden
from muster.sim.kubelet.nodes import Gpus, NodeGroup

ONE_NODE = Setting(nodes=(NodeGroup("gpu", count=1, gpus=Gpus(count=8)),))
SMALL_AND_LARGE = Setting(
    nodes=(
        NodeGroup("small", count=1, gpus=Gpus(count=1, memory_mib=40_000)),
        NodeGroup("large", count=1, gpus=Gpus(count=8, memory_mib=80_000)),
    )
)
INT64_MAX = 2**63 - 1


async def _portions(lab: Lab, pod: str) -> set[str]:
    """What the bind request and the environment of the container say."""
    request = await lab.get(BIND_REQUEST, pod)
    found = {request["spec"]["receivedGPU"]["portion"]}
    uid = (await lab.get(POD, pod))["metadata"]["uid"]
    for one in await lab.all(CONFIG_MAP, lab.namespace):
        owners = {owner["uid"] for owner in one["metadata"].get("ownerReferences", ())}
        if uid in owners and "GPU_PORTION" in (one.get("data") or {}):
            found |= {one["data"]["GPU_PORTION"], one["data"]["RUNAI_NUM_OF_GPUS"]}
    return found


def test_a_gpu_memory_request_reaches_its_container_as_a_portion_of_its_node(
    in_world: InWorld,
) -> None:
    """20,000 MiB of the 81,500 that the scheduler counts for a GPU of 81,559."""

    async def scenario(lab: Lab) -> None:
        annotations = {"gpu-memory": "20000", "gpu-fraction-num-devices": "2"}
        await lab.pod("share", annotations=annotations)
        await lab.until_running("share", 1)
        assert await _portions(lab, "share") == {"0.25"}
        request = await lab.get(BIND_REQUEST, "share")
        assert request["spec"]["receivedGPU"]["count"] == 2

    in_world(scenario, ONE_NODE)


def test_the_portion_of_a_gpu_memory_request_is_that_of_the_node_it_landed_on() -> None:
    async def scenario(lab: Lab) -> None:
        for name in ("small", "large"):
            where = {"nodeSelector": {"kubernetes.io/hostname": name}}
            await lab.pod(name, annotations={"gpu-memory": "10000"}, spec=where)
        await lab.until_running("small", 1)
        await lab.until_running("large", 1)
        assert await _portions(lab, "small") == {"0.25"}
        assert await _portions(lab, "large") == {"0.13"}

    in_lab(scenario, SMALL_AND_LARGE)


ABSURD: dict[str, dict[str, Any]] = {
    "gpu-fraction-num-devices": {
        "annotations": {"gpu-fraction": "0.5", "gpu-fraction-num-devices": str(10**12)}
    },
    "gpu-memory": {"annotations": {"gpu-memory": str(2**63)}},
    "nvidia.com/gpu": {"resources": {"nvidia.com/gpu": str(INT64_MAX)}},
    "memory": {"resources": {"memory": "8Ei"}},
    "cpu": {"resources": {"cpu": "1e18"}},
    "nvidia.com/mig-99999999999999g.1gb": {
        "resources": {"nvidia.com/mig-99999999999999g.1gb": str(INT64_MAX)}
    },
    "spec.devices.requests[].exactly.count": {
        "spec": {"resourceClaims": [{"name": "gpu", "resourceClaimName": "absurd"}]},
        "container": {"resources": {"claims": [{"name": "gpu"}]}},
    },
}


def test_out_of_range_gpu_requests_are_refused_by_field_and_others_are_scheduled() -> None:
    """Without admission, which refuses what it sees of them."""

    async def scenario(lab: Lab) -> None:
        await lab.create(DEVICE_CLASS, {"metadata": {"name": "gpu.example.com"}, "spec": {}})
        exactly = {"deviceClassName": "gpu.example.com", "count": INT64_MAX}
        requests = [{"name": "all-of-them", "exactly": exactly}]
        labels = {"kai.scheduler/queue": "default-queue"}
        await lab.create(
            RESOURCE_CLAIM,
            {
                "metadata": {"name": "absurd", "labels": labels},
                "spec": {"devices": {"requests": requests}},
            },
        )
        for number, wishes in enumerate(ABSURD.values()):
            await lab.pod(f"absurd-{number}", **wishes)
        await lab.pod("modest", gpus=1)
        await lab.until_running("modest", 1)

        async def all_explained() -> bool:
            return len(await _refusals(lab)) == len(ABSURD)

        await lab.until(all_explained, 60.0)
        refusals = await _refusals(lab)
        for number, field in enumerate(ABSURD):
            (said,) = [text for name, text in refusals.items() if f"absurd-{number}" in name]
            assert field in said
            assert "less than" in said or "from 1 to" in said or "at most" in said
        assert not await lab.running("absurd")

    in_lab(scenario, replace(ONE_NODE, without=("admission",)))


def test_admission_and_scheduler_read_the_same_annotations(in_world: InWorld) -> None:
    async def scenario(lab: Lab) -> None:
        for wishes in ABSURD.values():
            if "annotations" in wishes:
                with pytest.raises(Forbidden):
                    await lab.pod("absurd", **wishes)
        await lab.pod("share", annotations={"gpu-fraction": "5e-1"})
        await lab.until_running("share", 1)
        assert await _portions(lab, "share") == {"0.50"}

    in_world(scenario, ONE_NODE)


async def _refusals(lab: Lab) -> dict[str, str]:
    """By pod group."""
    found: dict[str, str] = {}
    for group in await lab.all(POD_GROUP):
        conditions = (group.get("status") or {}).get("schedulingConditions")
        if conditions:
            found[group["metadata"]["name"]] = conditions[-1]["message"]
    return found
