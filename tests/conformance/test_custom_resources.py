"""Recorded objects of KAI's CRDs: the embedded server does with them what the real one did."""

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from tests.reference.differences import differences
from tests.support.cases import cases_folder
from tests.support.crds import refused_fields, stored

from muster.api.crds import DEFINITIONS, manifest
from muster.api.kinds import OURS, Kind
from muster.client.transport import Request, Transport
from muster.sim.apiserver.embedded import Embedded, EmbeddedSettings

pytestmark = pytest.mark.cases("kai-crds")

_TOKEN = "crds"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_KINDS: dict[str, Kind[Any]] = {kind.kind.lower(): kind for kind in OURS}
_CASES = [
    case
    for path in sorted((cases_folder() / "kai-crds").glob("*.json"))
    for case in json.loads(path.read_text())
]
Case = Mapping[str, Any]


class Server:
    """The embedded server with our CRDs, spoken to in JSON."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def call(
        self, method: str, path: str, body: Any = None, **options: Any
    ) -> tuple[int, Any]:
        sent = b"" if body is None else json.dumps(body).encode()
        headers = {"content-type": options.get("content_type", "application/json")}
        query = tuple((options.get("query") or {}).items())
        response = await self._transport.send(Request(method, path, query, headers, sent))
        return response.status, json.loads(await response.read())

    async def send(self, kind: Kind[Any], step: Case, name: str) -> tuple[int, Any]:
        body = step["object"]
        path = kind.path(body.get("metadata", {}).get("namespace") or "default")
        options: dict[str, Any] = {"query": step.get("query", {})}
        match step["verb"]:
            case "create":
                return await self.call("POST", path, body, **options)
            case "update":
                _, live = await self.call("GET", f"{path}/{name}")
                version = live["metadata"]["resourceVersion"]
                given = {**body, "metadata": {**body["metadata"], "resourceVersion": version}}
                return await self.call("PUT", f"{path}/{name}", given, **options)
        merge = "application/merge-patch+json"
        return await self.call(
            "PATCH", f"{path}/{name}/status", body, content_type=merge, **options
        )


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with Embedded(EmbeddedSettings(admin_token=_TOKEN)) as cluster:
        server = Server(cluster.transport(_TOKEN))
        for definition in DEFINITIONS:
            status, answer = await server.call("POST", _CRDS, manifest(definition))
            assert status == 201, answer
        yield server


@pytest.mark.row(81, 82, 86, 87)
@pytest.mark.parametrize("case", _CASES, ids=lambda case: case["id"])
async def test_an_object_is_stored_or_refused_as_by_the_real_server_unless_listed(
    server: Server, case: Case
) -> None:
    outcome = await _outcome(server, case)
    if case["id"] in differences("crd"):
        assert outcome != _expected(case)
    else:
        assert outcome == _expected(case)


async def _outcome(server: Server, case: Case) -> object:
    kind, steps = _KINDS[case["crd"]], case["steps"]
    name = steps[0]["object"]["metadata"].get("name", "")
    for step in steps[:-1]:
        status, answer = await server.send(kind, step, name)
        assert status < 300, answer
    status, answer = await server.send(kind, steps[-1], name)
    if status < 300:
        return stored(answer)
    return status, answer["reason"], refused_fields(answer)


def _expected(case: Case) -> object:
    expected = case["expected"]
    if expected["accepted"]:
        return expected["stored"]
    error = expected["error"]
    return error["code"], error["reason"], set(error["fields"])
