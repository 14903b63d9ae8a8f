"""Claims that a PodGroup of Kubernetes' own holds for all its pods, on a real API server."""

from typing import Any

import pytest
from tests.support.kube_lab import on_kube
from tests.support.lab import (
    CLAIM_TEMPLATE,
    DEVICE_CLASS,
    NATIVE_POD_GROUP,
    NODE,
    POD,
    RESOURCE_CLAIM,
    Lab,
    Setting,
    devices_of,
    pod_body,
)

from muster.api.meta import Key
from muster.client.kinds import Plain
from muster.client.write import Deletion
from muster.lab.control_plane import ControlPlane
from muster.lab.hosting import ensure
from muster.sim.kubelet.nodes import Gpus, NodeGroup

DRIVER = "gpu.example.com"
TWO_NODES = Setting(nodes=(NodeGroup("gpu", count=2, gpus=Gpus(count=2, driver=DRIVER)),))

pytestmark = pytest.mark.kube


def test_pods_of_a_native_pod_group_share_its_generated_claim(
    gang_plane: ControlPlane,
) -> None:
    async def scenario(lab: Lab) -> None:
        entry = {"name": "gpu", "resourceClaimTemplateName": "one-gpu"}
        group = await _group(lab, "sharing", entry)
        for number in range(3):
            await _member(lab, f"worker-{number}", "sharing", entry)
        await lab.until_running("worker", 3)
        (claim,) = await lab.all(RESOURCE_CLAIM)
        assert _users(claim) == [("podgroups", "sharing", group["metadata"]["uid"])]
        assert len(devices_of(claim)) == 1
        assert len(set((await lab.running("worker")).values())) == 1
        # It is the group's: it stays while no pod uses it, and goes with the group.
        for number in range(3):
            await _delete(lab, POD, f"worker-{number}")
        await lab.until_running("worker", 0)
        assert len(await lab.all(RESOURCE_CLAIM)) == 1
        await _delete(lab, NATIVE_POD_GROUP, "sharing")
        await lab.until(lambda: _no_claims(lab))

    on_kube(gang_plane, scenario, TWO_NODES)


def test_a_claim_named_by_a_native_pod_group_is_reserved_for_the_group(
    gang_plane: ControlPlane,
) -> None:
    async def scenario(lab: Lab) -> None:
        labels = {"kai.scheduler/queue": "default-queue"}
        metadata = {"name": "by-name", "labels": labels}
        await lab.create(RESOURCE_CLAIM, {"metadata": metadata, "spec": _one_device()})
        entry = {"name": "gpu", "resourceClaimName": "by-name"}
        group = await _group(lab, "naming", entry)
        for number in range(2):
            await _member(lab, f"worker-{number}", "naming", entry)
        # Names the same claim, but not as its group does: reserved for itself.
        await _member(lab, "worker-own", "naming", {**entry, "name": "other"})
        await lab.until_running("worker", 3)
        own = (await lab.get(POD, "worker-own"))["metadata"]["uid"]
        assert sorted(_users(await lab.get(RESOURCE_CLAIM, "by-name"))) == [
            ("podgroups", "naming", group["metadata"]["uid"]),
            ("pods", "worker-own", own),
        ]
        for name in ("worker-0", "worker-1", "worker-own"):
            await _delete(lab, POD, name)
        await _delete(lab, NATIVE_POD_GROUP, "naming")
        await lab.until(lambda: _is_free(lab, "by-name"))
        await _delete(lab, RESOURCE_CLAIM, "by-name")

    on_kube(gang_plane, scenario, TWO_NODES)


def test_the_claim_of_a_native_pod_group_is_reallocated_when_its_node_is_cordoned(
    gang_plane: ControlPlane,
) -> None:
    async def scenario(lab: Lab) -> None:
        entry = {"name": "gpu", "resourceClaimTemplateName": "one-gpu"}
        await _group(lab, "moving", entry)
        await _member(lab, "worker-0", "moving", entry)
        await lab.until_running("worker", 1)
        (first,) = (await lab.running("worker")).values()
        await _delete(lab, POD, "worker-0")
        closed = {"spec": {"unschedulable": True}}
        await lab.cluster.writer.patch(NODE, Key("", first), closed)
        await _member(lab, "worker-1", "moving", entry)
        await lab.until_running("worker-1", 1)
        assert set((await lab.running("worker-1")).values()) != {first}
        (claim,) = await lab.all(RESOURCE_CLAIM)
        assert [who for who, *_ in _users(claim)] == ["podgroups"]
        await _delete(lab, POD, "worker-1")
        await _delete(lab, NATIVE_POD_GROUP, "moving")
        await lab.until(lambda: _no_claims(lab))

    on_kube(gang_plane, scenario, TWO_NODES)


async def _group(lab: Lab, name: str, entry: dict[str, str]) -> Plain:
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    await ensure(
        lab.cluster.writer,
        DEVICE_CLASS,
        {"metadata": {"name": DRIVER}, "spec": {"selectors": [selector]}},
    )
    template = {"metadata": {"name": "one-gpu"}, "spec": {"spec": _one_device()}}
    await ensure(lab.cluster.writer, CLAIM_TEMPLATE, template, lab.namespace)
    spec = {"schedulingPolicy": {"gang": {"minCount": 1}}, "resourceClaims": [entry]}
    made = await lab.create(NATIVE_POD_GROUP, {"metadata": {"name": name}, "spec": spec})
    assert made["spec"]["resourceClaims"] == [entry]
    return made


async def _member(lab: Lab, name: str, group: str, entry: dict[str, str]) -> None:
    spec = {"schedulingGroup": {"podGroupName": group}, "resourceClaims": [entry]}
    container = {"resources": {"claims": [{"name": entry["name"]}]}}
    await lab.create(POD, pod_body(name, spec=spec, container=container))


async def _delete(lab: Lab, kind: Any, name: str) -> None:
    await lab.cluster.writer.delete(kind, Key(lab.namespace, name), Deletion(grace_s=0))


async def _no_claims(lab: Lab) -> bool:
    return not await lab.all(RESOURCE_CLAIM)


async def _is_free(lab: Lab, name: str) -> bool:
    return not _users(await lab.get(RESOURCE_CLAIM, name))


def _users(claim: Plain) -> list[tuple[str, str, str]]:
    reserved = (claim.get("status") or {}).get("reservedFor") or ()
    return [(one["resource"], one["name"], one["uid"]) for one in reserved]


def _one_device() -> dict[str, Any]:
    exactly = {"deviceClassName": DRIVER}
    return {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
