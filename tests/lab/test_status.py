"""Status of pod groups and queues, and the scaling pods for autoscalers."""

import json
from typing import Any

import pytest
from tests.support.lab import NODE, POD, POD_GROUP, QUEUE, Lab, Setting, in_lab, pod_body

from muster.api.meta import Key
from muster.client.kinds import Plain
from muster.client.transport import Request
from muster.sim.kubelet.nodes import Gpus, NodeGroup

_ONE_GPU = Setting(nodes=(NodeGroup("gpu", count=1, gpus=Gpus(count=1)),))
_TWO_NODES = Setting(nodes=(NodeGroup("gpu", count=2, gpus=Gpus(count=1)),))
_SCALING = "kai-scale-adjust"


@pytest.mark.row(89)
@pytest.mark.row(90)
@pytest.mark.row(92)
@pytest.mark.row(93)
def test_status_of_groups_and_queues_shows_requested_and_allocated() -> None:
    async def scenario(lab: Lab) -> None:
        await lab.queue("parent", gpus=8)
        await lab.queue("child", gpus=8, parent="parent")
        await lab.job("work", pods=2, gpus=2, queue="child")
        await lab.until_running("work", 2)
        await lab.laptop.settled()
        (group,) = await lab.all(POD_GROUP)
        resources = group["status"]["resourcesStatus"]
        assert resources["requested"]["nvidia.com/gpu"] == "4"
        assert resources["allocated"]["nvidia.com/gpu"] == "4"
        for name in ("parent", "child"):
            status = (await lab.get(QUEUE, name))["status"]
            assert status["allocated"]["nvidia.com/gpu"] == "4"
            assert status["requested"]["nvidia.com/gpu"] == "4"
        assert (await lab.get(QUEUE, "parent"))["status"]["childQueues"] == ["child"]

    in_lab(scenario)


@pytest.mark.row(109)
def test_an_unschedulable_gpu_share_has_a_scaling_pod_until_it_is_deleted() -> None:
    async def scenario(lab: Lab) -> None:
        await lab.queue("team", gpus=1)
        await lab.pod("full", gpus=1, queue="team")
        await lab.until_running("full", 1)
        await lab.create(POD, pod_body("share", queue="team", annotations={"gpu-fraction": "0.5"}))

        async def asked() -> bool:
            return bool(await lab.all(POD, _SCALING))

        await lab.until(asked)
        (scaling,) = await lab.all(POD, _SCALING)
        limits = scaling["spec"]["containers"][0]["resources"]["limits"]
        assert limits["nvidia.com/gpu"] == "1"
        await lab.cluster.writer.delete(POD, Key(lab.namespace, "share"))

        async def withdrawn() -> bool:
            return not await lab.all(POD, _SCALING)

        await lab.until(withdrawn)

    in_lab(scenario, _ONE_GPU)


@pytest.mark.row(109)
def test_autoscalers_see_unschedulable_conditions_and_a_cool_down_between_scaling_pods() -> None:
    async def scenario(lab: Lab) -> None:
        # The second node is still to come.
        await lab.cluster.writer.patch(NODE, Key("", "gpu-1"), {"spec": {"unschedulable": True}})
        await lab.queue("team", gpus=2)
        await lab.pod("full", gpus=1, queue="team")
        await lab.until_running("full", 1)
        await lab.create(POD, _share("first", "0.5"))
        await lab.until(lambda: _asked(lab))
        (scaling,) = await lab.all(POD, _SCALING)
        assert _is_provisionable(scaling)
        # A pod that asks for whole GPUs needs no help: it is what an autoscaler looks for itself.
        await lab.pod("whole", gpus=1, queue="team")

        async def marked() -> bool:
            return _is_provisionable(await lab.get(POD, "whole"))

        await lab.until(marked)
        await lab.cluster.writer.delete(POD, Key(lab.namespace, "whole"))
        await lab.cluster.writer.patch(NODE, Key("", "gpu-1"), {"spec": {"unschedulable": None}})
        await lab.until_running("first", 1)
        await lab.until(lambda: _withdrawn(lab))
        withdrawn_s = lab.clock.monotonic_s()
        await lab.create(POD, _share("second", "0.9"))
        await lab.until(lambda: _asked(lab))
        assert lab.clock.monotonic_s() - withdrawn_s >= 59.0

    in_lab(scenario, _TWO_NODES)


def test_neither_strangers_nor_a_dead_node_keep_scaling_pods_from_being_made() -> None:
    async def scenario(lab: Lab) -> None:
        await lab.queue("team", gpus=1)
        await lab.pod("full", gpus=1, queue="team")
        await lab.until_running("full", 1)
        stranger = pod_body("stranger", spec={"schedulerName": "default-scheduler"})
        await lab.cluster.writer.create(POD, stranger, _SCALING)
        await lab.create(POD, _share("first", "0.5"))
        await lab.until(lambda: _stands_for(lab, "first"))
        # What a dead kubelet does not confirm stays, as if it had a finalizer.
        name = next(one for one in await _scaling_names(lab) if one != "stranger")
        held = {"metadata": {"finalizers": ["example.com/dead-node"]}}
        await lab.cluster.writer.patch(POD, Key(_SCALING, name), held)
        await lab.cluster.writer.delete(POD, Key(lab.namespace, "first"))
        await lab.create(POD, _share("second", "0.5"))
        await lab.until(lambda: _stands_for(lab, "second"))
        # Again for a pod of the first one's name: the name of its scaling pod is still taken.
        await lab.cluster.writer.delete(POD, Key(lab.namespace, "second"))
        await lab.create(POD, _share("first", "0.5"))
        await lab.until(lambda: _stands_for(lab, "first"))
        assert {"stranger", name} < await _scaling_names(lab)

    in_lab(scenario, _ONE_GPU)


async def _stands_for(lab: Lab, name: str) -> bool:
    return any(
        one["metadata"].get("labels", {}).get("shared-gpu-pod-name") == name
        and not one["metadata"].get("deletionTimestamp")
        for one in await lab.all(POD, _SCALING)
    )


async def _scaling_names(lab: Lab) -> set[str]:
    return {one["metadata"]["name"] for one in await lab.all(POD, _SCALING)}


def _share(name: str, part: str) -> dict[str, Any]:
    return pod_body(name, queue="team", annotations={"gpu-fraction": part})


async def _asked(lab: Lab) -> bool:
    return bool(await lab.all(POD, _SCALING))


async def _withdrawn(lab: Lab) -> bool:
    return not await lab.all(POD, _SCALING)


def _is_provisionable(pod: Plain) -> bool:
    """Whether cluster-autoscaler and Karpenter would add a node for the pod.

    Both take pods without a node whose scheduler says that no node can have them; Karpenter passes
    over pods that wait for a node that is being emptied, and over those of a DaemonSet.
    """
    status = pod.get("status") or {}
    says_so = any(
        (one["type"], one["status"], one.get("reason"))
        == ("PodScheduled", "False", "Unschedulable")
        for one in status.get("conditions") or ()
    )
    owners = [owner["kind"] for owner in pod["metadata"].get("ownerReferences") or ()]
    return (
        says_so
        and not pod["spec"].get("nodeName")
        and not status.get("nominatedNodeName")
        and "DaemonSet" not in owners
        and status.get("phase") == "Pending"
    )


def test_tables_show_the_phase_of_pod_groups_and_the_parent_and_children_of_queues() -> None:
    async def scenario(lab: Lab) -> None:
        await lab.queue("team", gpus=8)
        await lab.job("work", pods=2, gpus=2, queue="team")
        await lab.until_running("work", 2)
        await lab.job("broad", pods=9, gpus=8, queue="team")
        await lab.laptop.settled()
        rows = await _table(lab, POD_GROUP, "/namespaces/default")
        assert {(row["Queue"], row["Phase"], row["Min"], row["GPUs"]) for row in rows} == {
            ("team", "Running", 2, "4"),
            ("team", "Pending", 9, ""),
        }
        assert {row["Waiting"] for row in rows if row["Phase"] == "Pending"} == {"TooLarge"}
        queues = {row["Name"]: row for row in await _table(lab, QUEUE, "")}
        assert queues["default-queue"]["Parent"] == "default-parent-queue"
        assert queues["default-parent-queue"]["Children"] == '["default-queue"]'

    in_lab(scenario)


async def _table(lab: Lab, kind: Any, where: str) -> list[dict[str, Any]]:
    """What `kubectl get` prints, as the server makes it."""
    path = f"/apis/{kind.api_version}{where}/{kind.plural}"
    accept = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    response = await lab.laptop.transport("test").send(Request("GET", path, (), accept))
    table = json.loads(await response.read())
    names = [column["name"] for column in table["columnDefinitions"]]
    return [
        {name: "" if cell is None else cell for name, cell in zip(names, row["cells"], strict=True)}
        for row in table["rows"]
    ]
