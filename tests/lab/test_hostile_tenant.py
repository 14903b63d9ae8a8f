"""A tenant edits its own pods and pod groups to hold what is not its own.

It may create, label, edit and delete pods and PodGroups in its namespace. Most stories are told
with the administrator's account, whose edits the webhooks let through: they are what a tenant does
while the webhooks are away.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.support.lab import (
    BIND_REQUEST,
    CONFIG_MAP,
    EVENT,
    POD,
    POD_GROUP,
    QUEUE,
    RESERVATIONS,
    Lab,
    Setting,
    in_lab,
    pod_body,
)

from muster.api.meta import Key
from muster.client.errors import ApiError, Forbidden
from muster.client.kinds import Plain, plain_kind
from muster.client.write import Deletion, Writer
from muster.lab.hosting import ACCOUNT
from muster.sim.kubelet.nodes import Gpus, NodeGroup
from muster.sim.kubelet.stages import Chance, Habits

_FOR_EVER = Habits(run=Chance(mean_s=1e9))
_TWO_GPUS = Setting(nodes=(NodeGroup("gpu", count=1, gpus=Gpus(count=2)),), habits=_FOR_EVER)
_ROLE, _BINDING = (
    plain_kind("rbac.authorization.k8s.io", "v1", kind, f"{kind.lower()}s")
    for kind in ("Role", "RoleBinding")
)
_SHARE = {"gpu-fraction": "0.8"}
_DEVICE = "run.ai/reserve_for_gpu_index"

Edit = Callable[[Lab, str], Awaitable[None]]


async def tenant(lab: Lab) -> Writer:
    """Somebody with rights on pods and pod groups of the default namespace, and one right too many:
    on bind requests.
    """
    await lab.create(ACCOUNT, {"metadata": {"name": "tenant"}})
    rules = [
        {"apiGroups": ["", "scheduling.run.ai"], "resources": [resource], "verbs": ["*"]}
        for resource in ("pods", "podgroups", "bindrequests")
    ]
    await lab.create(_ROLE, {"metadata": {"name": "tenant"}, "rules": rules})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "tenant"}
    subject = {"kind": "ServiceAccount", "name": "tenant", "namespace": lab.namespace}
    body = {"metadata": {"name": "tenant"}, "roleRef": role, "subjects": [subject]}
    await lab.create(_BINDING, body)
    account = await lab.get(ACCOUNT, "tenant")
    token = lab.laptop.server.tokens.issue(account, lab.clock.now_s(), 3600)
    return lab.laptop._executor("tenant", token)[1]


async def patch(lab: Lab, name: str, metadata: dict[str, Any]) -> None:
    await lab.cluster.writer.patch(POD, Key(lab.namespace, name), {"metadata": metadata})


# -- what runs is charged, and gives way ----------------------------------------------------------


def _label(key: str, value: str) -> Edit:
    async def edit(lab: Lab, pod: str) -> None:
        await patch(lab, pod, {"labels": {key: value}})

    return edit


def _notes(**annotations: str | None) -> Edit:
    named = {key.replace("__", "/").replace("_", "-"): v for key, v in annotations.items()}

    async def edit(lab: Lab, pod: str) -> None:
        await patch(lab, pod, {"annotations": named})

    return edit


async def _orphaned(lab: Lab, pod: str) -> None:
    notes = {"pod-group-name": "nosuch"}
    await patch(lab, pod, {"ownerReferences": None, "annotations": notes})


def _group(**spec: str) -> Edit:
    async def edit(lab: Lab, pod: str) -> None:
        for group in await lab.all(POD_GROUP, lab.namespace):
            key = Key(lab.namespace, group["metadata"]["name"])
            await lab.cluster.writer.patch(POD_GROUP, key, {"spec": spec})

    return edit


async def _deleted_group(lab: Lab, pod: str) -> None:
    for group in await lab.all(POD_GROUP, lab.namespace):
        await lab.cluster.writer.delete(POD_GROUP, Key(lab.namespace, group["metadata"]["name"]))


_EDITS: dict[str, Edit] = {
    "names a sub-group that is none": _label("kai.scheduler/subgroup-name", "nosuch"),
    "is skipped by the grouper": _notes(
        pod_group_name="nosuch", **{"kai.scheduler__skip_podgrouper": "true"}
    ),
    "has no owner any more": _orphaned,
    "has its group deleted": _deleted_group,
    "has its group in a queue that is none": _group(queue="nosuch"),
    "has its group in the queue of others": _group(queue="owed"),
    "has its group made non-preemptible": _group(preemptibility="non-preemptible"),
}


@pytest.mark.parametrize("edit", _EDITS)
def test_work_over_its_share_gives_way_whatever_its_owner_edits(edit: str) -> None:
    async def scenario(lab: Lab) -> None:
        await lab.queue("greedy", 0)
        await lab.queue("owed", 2)
        await lab.job("greedy", 2, 1, queue="greedy", minimum=1)
        await lab.until_running("greedy", 2)
        for pod in sorted(await lab.running("greedy")):
            await _EDITS[edit](lab, pod)
        await lab.clock.sleep(10)
        for number in range(2):
            await lab.pod(f"owed-{number}", 1, queue="owed")
        await lab.until_running("owed", 2)
        assert await lab.running("greedy") == {}

    in_lab(scenario, replace(_TWO_GPUS, without=("admission",)))


def test_a_limit_holds_for_work_that_is_edited_after_it_started() -> None:
    async def scenario(lab: Lab) -> None:
        await lab.queue("mine", 1, limit=1)
        await lab.pod("first", 1, queue="mine")
        await lab.until_running("first", 1)
        await patch(lab, "first", {"annotations": {"pod-group-name": "nosuch"}})
        await lab.pod("second", 1, queue="mine")
        await lab.clock.sleep(60)
        assert await lab.running("second") == {}
        await lab.cluster.kill("scheduler")
        services = {one.name: one for one in lab.product.services}
        await lab.laptop.start(services["scheduler"])
        await lab.clock.sleep(60)
        assert await lab.running("second") == {}, "the next scheduler knows as well"

    in_lab(scenario, _TWO_GPUS)


# -- devices are given once -----------------------------------------------------------------------


async def devices(lab: Lab) -> dict[str, str]:
    """The device of each shared GPU."""
    return {
        pod["metadata"]["labels"]["runai-gpu-group"]: pod["metadata"]["annotations"][_DEVICE]
        for pod in await lab.all(POD, RESERVATIONS)
    }


async def group_of(lab: Lab, pod: str) -> str:
    labels = (await lab.get(POD, pod))["metadata"]["labels"]
    return str(labels.get("runai-gpu-group", ""))


@pytest.mark.parametrize("instead", [None, "somewhere"])
def test_a_share_whose_label_is_taken_or_changed_keeps_its_device_and_gets_its_label_back(
    instead: str | None,
) -> None:
    async def scenario(lab: Lab) -> None:
        await lab.pod("first", annotations=_SHARE)
        await lab.until_running("first", 1)
        given = await group_of(lab, "first")
        await patch(lab, "first", {"labels": {"runai-gpu-group": instead}})
        await lab.pod("second", annotations=_SHARE)
        await lab.until_running("second", 1)
        await lab.pod("whole", 1)
        await lab.clock.sleep(60)
        assert await lab.running("whole") == {}, "both devices are shared"
        assert await group_of(lab, "first") == given
        found = await devices(lab)
        assert len(set(found.values())) == 2
        assert set(found) == {given, await group_of(lab, "second")}
        assert len(await lab.running("first")) == 1

    in_lab(scenario, _TWO_GPUS)


def test_a_pod_that_says_it_is_the_reservation_of_a_shared_gpu_holds_its_own_gpu() -> None:
    async def scenario(lab: Lab) -> None:
        await lab.queue("greedy", 0)
        await lab.queue("owed", 2)
        await lab.pod("share", annotations=_SHARE, queue="owed")
        await lab.until_running("share", 1)
        await lab.pod("greedy", 1, queue="greedy")
        await lab.until_running("greedy", 1)
        forged = {"app": "kai-resource-reservation"}
        forged["runai-gpu-group"] = await group_of(lab, "share")
        await patch(lab, "greedy", {"labels": forged})
        await lab.pod("owed", 1, queue="owed")
        await lab.until_running("owed", 1)
        assert await lab.running("greedy") == {}

    in_lab(scenario, _TWO_GPUS)


@pytest.mark.parametrize("spec", [{}, {"nodeName": "gpu"}], ids=["nowhere", "on the node"])
def test_a_stranger_with_the_label_of_a_share_does_not_keep_its_reservation(
    spec: dict[str, str],
) -> None:
    async def scenario(lab: Lab) -> None:
        await lab.pod("share", annotations=_SHARE)
        await lab.until_running("share", 1)
        labels = {"runai-gpu-group": await group_of(lab, "share")}
        stranger = {"schedulerName": "nobody", **spec}
        await lab.create(POD, pod_body("leech", labels=labels, annotations=_SHARE, spec=stranger))
        await lab.cluster.writer.delete(POD, Key(lab.namespace, "share"), Deletion(""))
        await lab.clock.sleep(30)
        assert await lab.all(POD, RESERVATIONS) == []
        await lab.job("owed", 1, 2)
        await lab.until_running("owed", 1)

    in_lab(scenario, _TWO_GPUS)


def test_strangers_take_no_gpus_by_labels() -> None:
    async def scenario(lab: Lab) -> None:
        await lab.pod("share", annotations={"gpu-fraction": "0.5"})
        await lab.until_running("share", 1)
        shared = await group_of(lab, "share")
        stranger = {"schedulerName": "nobody", "nodeName": "gpu"}
        many = {f"runai-gpu-group/{number}": f"x{number}" for number in range(300)}
        notes = {"gpu-memory": "4000000", "gpu-fraction-num-devices": "1024"}
        await lab.create(POD, pod_body("many", labels=many, annotations=notes, spec=stranger))
        mine = {"runai-gpu-group": shared}
        for number in range(5):
            body = pod_body(f"leech-{number}", labels=mine, annotations=_SHARE, spec=stranger)
            await lab.create(POD, body)
        await lab.pod("beside", annotations={"gpu-fraction": "0.4"})
        await lab.pod("whole", 1)
        await lab.until_running("beside", 1)
        await lab.until_running("whole", 1)
        assert await group_of(lab, "beside") == shared

    in_lab(scenario, _TWO_GPUS)


# -- what admission refuses -----------------------------------------------------------------------


def test_a_tenant_is_told_what_it_cannot_change_and_cannot_place_pods_itself() -> None:
    async def scenario(lab: Lab) -> None:
        await lab.pod("share", annotations=_SHARE)
        await lab.until_running("share", 1)
        theirs = await tenant(lab)
        key = Key(lab.namespace, "share")
        for metadata, field in (
            ({"labels": {"runai-gpu-group": None}}, r"metadata\.labels\[runai-gpu-group\]"),
            ({"annotations": {"pod-group-name": "x"}}, r"metadata\.annotations\[pod-group-name\]"),
        ):
            with pytest.raises(ApiError, match=f"{field}: .*; delete the pod and create it"):
                await theirs.patch(POD, key, {"metadata": metadata})
        await theirs.patch(POD, key, {"metadata": {"labels": {"team": "a"}}})
        (group,) = await lab.all(POD_GROUP, lab.namespace)
        where = Key(lab.namespace, group["metadata"]["name"])
        with pytest.raises(ApiError, match=r"spec\.queue: there is no queue nosuch; create"):
            await theirs.patch(POD_GROUP, where, {"spec": {"queue": "nosuch"}})
        await lab.pod("waits", 99)
        forged: Plain = {
            "apiVersion": BIND_REQUEST.api_version,
            "kind": "BindRequest",
            "metadata": {"name": "waits"},
            "spec": {"podName": "waits", "selectedNode": "gpu"},
        }
        with pytest.raises(Forbidden, match="bind requests are written by the scheduler"):
            await theirs.create(BIND_REQUEST, forged, lab.namespace)
        with pytest.raises(Forbidden, match="cannot create resource"):
            await theirs.create(QUEUE, {"metadata": {"name": "mine"}}, "")

    in_lab(scenario, _TWO_GPUS)


# -- what our services write in its name ----------------------------------------------------------


def test_a_tenant_cannot_have_a_config_map_of_others_overwritten_or_deleted() -> None:
    """The pod's author says how the config maps of its shared GPU are named."""

    async def scenario(lab: Lab) -> None:
        theirs = {"metadata": {"name": "settings-0"}, "data": {"important": "yes"}}
        before = await lab.create(CONFIG_MAP, theirs)
        await lab.pod("evil", annotations=_SHARE | {"runai/shared-gpu-configmap": "settings"})
        await lab.clock.sleep(120)
        assert await lab.running("evil") == {}
        events = [one["message"] for one in await lab.all(EVENT, lab.namespace)]
        assert any("config map settings-0 is not ours to write" in one for one in events)
        await lab.cluster.writer.delete(POD, Key(lab.namespace, "evil"))
        await lab.clock.sleep(60)
        assert await lab.get(CONFIG_MAP, "settings-0") == before
        await lab.pod("honest", annotations=_SHARE)
        await lab.until_running("honest", 1)

    in_lab(scenario, _TWO_GPUS)


def test_two_pods_that_name_one_config_map_are_not_sent_to_each_others_device() -> None:
    async def scenario(lab: Lab) -> None:
        for name in ("first", "second"):
            named = {"runai/shared-gpu-configmap": "same"}
            await lab.pod(name, annotations=_SHARE | named)
            await lab.clock.sleep(30)
        running = await lab.running("first") | await lab.running("second")
        assert sorted(running) == ["first"]
        events = [one["message"] for one in await lab.all(EVENT, lab.namespace)]
        assert any("config map same-0 is that of pod first" in one for one in events)

    in_lab(scenario, _TWO_GPUS)
