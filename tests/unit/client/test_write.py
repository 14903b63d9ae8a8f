"""Writes: requests on the wire, and retries after conflicts."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.support.scripted import ScriptedServer, refused, said
from tests.support.virtual_time import virtually

from muster.api.meta import Key
from muster.client.errors import AlreadyExists, Conflict, Throttled
from muster.client.kinds import plain_kind
from muster.client.read import Reader
from muster.client.transport import Request
from muster.client.write import Deletion, PatchType, Propagation, Writer, modify

MAPS = plain_kind("", "v1", "ConfigMap", "configmaps")
KEY = Key("here", "m")


def sent(act: Callable[[Writer], Awaitable[object]]) -> Request:
    server = ScriptedServer(said({"metadata": {"name": "m"}}))

    async def run() -> None:
        await act(Writer(server.connection(), "tester"))

    virtually(run())
    (request,) = server.requests
    return request


def test_create_fills_in_api_version_and_kind() -> None:
    request = sent(lambda writer: writer.create(MAPS, {"metadata": {"name": "m"}}, "here"))
    assert (request.method, request.path) == ("POST", "/api/v1/namespaces/here/configmaps")
    assert list(request.query) == [("fieldManager", "tester")]
    assert json.loads(request.body) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "m"},
    }


@pytest.mark.parametrize(
    ("patch", "patch_type", "content_type"),
    [
        ({"data": {"a": None}}, PatchType.MERGE, "application/merge-patch+json"),
        ([{"op": "remove", "path": "/data/a"}], PatchType.JSON, "application/json-patch+json"),
        ({"data": {}}, PatchType.STRATEGIC, "application/strategic-merge-patch+json"),
    ],
)
def test_a_patch_is_sent_with_its_content_type_and_nothing_else(
    patch: Any, patch_type: PatchType, content_type: str
) -> None:
    request = sent(lambda writer: writer.patch(MAPS, KEY, patch, patch_type, subresource="status"))
    assert request.method == "PATCH"
    assert request.path == "/api/v1/namespaces/here/configmaps/m/status"
    assert request.headers["content-type"] == content_type
    assert json.loads(request.body) == patch


def test_apply_names_the_object_and_its_manager() -> None:
    request = sent(lambda writer: writer.apply(MAPS, KEY, {"data": {"a": "b"}}, force=True))
    assert request.headers["content-type"] == "application/apply-patch+yaml"
    assert list(request.query) == [("fieldManager", "tester"), ("force", "true")]
    body = json.loads(request.body)
    assert body["metadata"] == {"name": "m", "namespace": "here"}
    assert body["data"] == {"a": "b"}


def test_a_delete_may_have_uid_and_resource_version_preconditions() -> None:
    deletion = Deletion("u-1", "42", Propagation.FOREGROUND, grace_s=0)
    request = sent(lambda writer: writer.delete(MAPS, KEY, deletion))
    assert request.method == "DELETE"
    assert json.loads(request.body) == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u-1", "resourceVersion": "42"},
        "propagationPolicy": "Foreground",
        "gracePeriodSeconds": 0,
    }


def test_bind_posts_the_binding_of_a_pod_to_a_node() -> None:
    pod = Key("here", "p")
    request = sent(lambda writer: writer.bind(pod, "n1", uid="u", annotations={"a": "b"}))
    assert (request.method, request.path) == ("POST", "/api/v1/namespaces/here/pods/p/binding")
    body = json.loads(request.body)
    assert body["target"]["name"] == "n1"
    assert body["metadata"] == {
        "name": "p",
        "namespace": "here",
        "uid": "u",
        "annotations": {"a": "b"},
    }


def test_an_eviction_refused_by_a_disruption_budget_is_not_retried() -> None:
    server = ScriptedServer(
        refused(
            429,
            "TooManyRequests",
            "disruption budget",
            retryAfterSeconds=10,
            causes=[{"reason": "DisruptionBudget"}],
        )
    )

    async def run() -> None:
        with pytest.raises(Throttled, match="disruption budget") as error:
            await Writer(server.connection()).evict(Key("here", "p"), Deletion(uid="u"))
        assert error.value.retry_after_s == 10

    virtually(run())
    body = json.loads(server.requests[0].body)
    assert body["kind"] == "Eviction"
    assert body["deleteOptions"]["preconditions"] == {"uid": "u"}


def test_already_exists_is_also_a_conflict() -> None:
    server = ScriptedServer(refused(409, "AlreadyExists"))

    async def run() -> None:
        with pytest.raises(AlreadyExists) as error:
            await Writer(server.connection()).create(MAPS, {"metadata": {"name": "m"}}, "here")
        assert isinstance(error.value, Conflict)

    virtually(run())


def _stored(version: str, count: int) -> dict[str, Any]:
    return {"metadata": {"name": "m", "resourceVersion": version}, "data": {"count": count}}


def _counted(obj: dict[str, Any]) -> dict[str, Any]:
    obj["data"]["count"] += 1
    return obj


def test_modify_retries_from_the_version_of_the_other_writer() -> None:
    server = ScriptedServer(
        said(_stored("1", 1)),
        refused(409, "Conflict"),
        said(_stored("2", 5)),
        said(_stored("3", 6)),
    )

    async def run() -> dict[str, Any]:
        connection = server.connection()
        return await modify(Reader(connection), Writer(connection), MAPS, KEY, _counted)

    assert virtually(run()) == _stored("3", 6)
    last = json.loads(server.requests[-1].body)
    assert last["data"] == {"count": 6}
    assert last["metadata"]["resourceVersion"] == "2"


def test_modify_writes_nothing_when_nothing_changes() -> None:
    server = ScriptedServer(said(_stored("1", 1)))

    async def run() -> None:
        connection = server.connection()
        await modify(Reader(connection), Writer(connection), MAPS, KEY, lambda obj: obj)

    virtually(run())
    assert [request.method for request in server.requests] == ["GET"]


def test_modify_stops_after_too_many_conflicts() -> None:
    round_ = [said(_stored("1", 1)), refused(409, "Conflict")]
    server = ScriptedServer(*round_, *round_)

    async def run() -> None:
        connection = server.connection()
        with pytest.raises(Conflict):
            await modify(Reader(connection), Writer(connection), MAPS, KEY, _counted, attempts=2)

    virtually(run())
