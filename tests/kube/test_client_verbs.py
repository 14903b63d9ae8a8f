"""Every verb of the client against a real API server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from tests.support.client import Client, client_of, config_map

from muster.api.codec import Changed
from muster.api.kinds import CONFIG_MAP, NODE, POD, POD_DISRUPTION_BUDGET
from muster.api.meta import Key
from muster.client.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    Invalid,
    NotFound,
    Throttled,
)
from muster.client.kinds import header, plainly
from muster.client.read import Reader, Selection
from muster.client.write import Deletion, PatchType, Propagation, modify
from muster.lab.control_plane import ControlPlane

pytestmark = [pytest.mark.kube, pytest.mark.row(45)]

MAPS = plainly(CONFIG_MAP)
PODS = plainly(POD)


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[Client]:
    async with client_of(control_plane.kubeconfig()) as client:
        yield client


def pod(name: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "500m"}}}
    return {
        "metadata": {"name": name, "labels": {"app": "x"}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, **spec},
    }


async def test_an_object_is_created_read_patched_and_deleted(
    client: Client, namespace: str
) -> None:
    reader, writer, key = client.reader, client.writer, Key(namespace, "m")
    made = await writer.create(MAPS, config_map("m", 1), namespace)
    assert header(made).key == key
    with pytest.raises(AlreadyExists):
        await writer.create(MAPS, config_map("m"), namespace)
    await writer.patch(MAPS, key, {"data": {"a": "1"}})
    await writer.patch(MAPS, key, [{"op": "add", "path": "/data/b", "value": "2"}], PatchType.JSON)
    await writer.patch(MAPS, key, {"data": {"c": "3", "a": None}}, PatchType.STRATEGIC)
    assert (await reader.get(MAPS, key))["data"] == {"count": "1", "b": "2", "c": "3"}
    with pytest.raises(Conflict):
        await writer.replace(MAPS, key, made)
    with pytest.raises(Conflict):
        await writer.patch(MAPS, key, {"data": {"a": "1"}}, uid="somebody else")
    await writer.patch(MAPS, key, {"data": {"a": "1"}}, uid=header(made).uid)
    with pytest.raises(Conflict):
        await writer.delete(MAPS, key, Deletion(uid="somebody else"))
    await writer.delete(
        MAPS, key, Deletion(uid=header(made).uid, propagation=Propagation.BACKGROUND)
    )
    with pytest.raises(NotFound, match='configmaps "m" not found'):
        await reader.get(MAPS, key)


async def test_apply_owns_fields_and_a_conflict_names_them(client: Client, namespace: str) -> None:
    key = Key(namespace, "m")
    await client.writer.apply(MAPS, key, {"data": {"a": "1"}})
    await client.writer.patch(MAPS, key, {"data": {"a": "2"}})
    other = type(client.writer)(client.connection, "other")
    with pytest.raises(Conflict) as refusal:
        await other.apply(MAPS, key, {"data": {"a": "3"}})
    assert [cause.field for cause in refusal.value.causes] == [".data.a"]
    applied = await other.apply(MAPS, key, {"data": {"a": "3"}}, force=True)
    assert applied["data"] == {"a": "3"}


async def test_a_list_of_many_pages_is_one_list(client: Client, namespace: str) -> None:
    names = [f"m{number:02}" for number in range(25)]
    await asyncio.gather(
        *(
            client.writer.create(MAPS, config_map(name, labels={"p": name[1]}), namespace)
            for name in names
        )
    )
    reader = Reader(client.connection, page_size=7)
    found = await reader.list(MAPS, Selection(namespace, fields="metadata.name!=kube-root-ca.crt"))
    assert sorted(header(obj).key.name for obj in found.objects) == names
    some = await reader.list(MAPS, Selection(namespace, labels="p in (1)"))
    assert len(some.objects) == 10


async def test_a_watch_delivers_the_events_after_the_list(client: Client, namespace: str) -> None:
    selection = Selection(namespace, fields="metadata.name=m")
    start = (await client.reader.list(MAPS, selection)).resource_version
    await client.writer.create(MAPS, config_map("m", 1), namespace)
    await client.writer.patch(MAPS, Key(namespace, "m"), {"data": {"count": "2"}})
    await client.writer.delete(MAPS, Key(namespace, "m"))
    watching = client.reader.watch(MAPS, selection, resource_version=start, timeout_s=1)
    async with aclosing(watching) as events:
        told = [event async for event in events]
    changes = [
        (event.type, event.object["data"]["count"]) for event in told if isinstance(event, Changed)
    ]
    assert changes == [("ADDED", "1"), ("MODIFIED", "2"), ("DELETED", "2")]


async def test_a_pod_is_bound_once_and_only_with_its_uid(client: Client, namespace: str) -> None:
    await client.writer.create(PODS, pod("p"), namespace)
    key = Key(namespace, "p")
    with pytest.raises(Conflict):
        await client.writer.bind(key, "n1", uid="another pod of that name")
    stored = await client.reader.get(PODS, key)
    uid = header(stored).uid
    await client.writer.bind(key, "n1", uid=uid, annotations={"muster/test": "yes"})
    bound = await client.reader.get(POD, key)
    assert bound.spec.node_name == "n1"
    assert bound.metadata.annotations["muster/test"] == "yes"
    with pytest.raises(Conflict, match="already assigned"):
        await client.writer.bind(key, "n2")


async def test_an_eviction_obeys_the_disruption_budget(client: Client, namespace: str) -> None:
    await client.writer.create(PODS, pod("p", nodeName="n1"), namespace)
    status = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    key = Key(namespace, "p")
    await client.writer.patch(PODS, key, status, PatchType.STRATEGIC, subresource="status")
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}},
    }
    budgets = plainly(POD_DISRUPTION_BUDGET)
    await client.writer.create(budgets, budget, namespace)
    with pytest.raises(Throttled, match="disruption budget"):
        await client.writer.evict(key)
    await client.writer.delete(budgets, Key(namespace, "b"))
    await client.writer.evict(key, Deletion(grace_s=0))
    with pytest.raises(NotFound):
        await client.reader.get(PODS, key)


async def test_a_refused_object_is_an_error_with_the_cause(client: Client, namespace: str) -> None:
    with pytest.raises(Invalid) as refusal:
        await client.writer.create(PODS, {"metadata": {"name": "p"}, "spec": {}}, namespace)
    assert "spec.containers" in [cause.field for cause in refusal.value.causes]
    bad = pod("p")
    bad["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "banana"
    with pytest.raises(BadRequest, match="quantities must match"):
        await client.writer.create(PODS, bad, namespace)


async def test_a_status_is_patched_without_touching_the_spec(client: Client) -> None:
    name = "node-of-client-verbs"
    nodes = plainly(NODE)
    await client.writer.create(nodes, {"metadata": {"name": name}})
    try:
        capacity = {"status": {"allocatable": {"cpu": "3", "nvidia.com/gpu": "8"}}}
        await client.writer.patch(nodes, Key("", name), capacity, subresource="status")
        node = await client.reader.get(NODE, Key("", name))
        assert node.status.allocatable["nvidia.com/gpu"].value == 8
    finally:
        await client.writer.delete(nodes, Key("", name))


async def test_two_writers_in_conflict_both_make_progress(
    control_plane: ControlPlane, namespace: str
) -> None:
    key, each = Key(namespace, "shared"), 25

    def counted(obj: dict[str, Any]) -> dict[str, Any]:
        obj["data"]["count"] = str(int(obj["data"]["count"]) + 1)
        return obj

    async def count_up(client: Client) -> None:
        for _ in range(each):
            await modify(client.reader, client.writer, MAPS, key, counted, attempts=50)

    async with (
        client_of(control_plane.kubeconfig()) as one,
        client_of(control_plane.certificate_kubeconfig()) as two,
    ):
        await one.writer.create(MAPS, config_map("shared"), namespace)
        await asyncio.gather(count_up(one), count_up(two))
        assert (await one.reader.get(MAPS, key))["data"]["count"] == str(2 * each)
