"""What clients ask the server about itself, and what pods of a pretended node cannot do."""

import asyncio
import json
from typing import Any

import pytest

from muster.client.transport import Request
from muster.sim.apiserver.app import ApiServer
from muster.sim.apiserver.embedded import Embedded, EmbeddedSettings

_POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
_PODS = "/api/v1/namespaces/default/pods"


def _get(path: str, accept: str = "application/json") -> tuple[str, bytes]:
    async def ask() -> tuple[str, bytes]:
        answer = await ApiServer().handle(Request("GET", path, (), {"accept": accept}, b""))
        assert answer.status == 200
        return answer.headers["content-type"], await answer.read()

    return asyncio.run(ask())


def test_openapi_v2_has_a_definition_for_every_reference() -> None:
    found = json.loads(_get("/openapi/v2")[1])
    assert found["swagger"] == "2.0"
    missing = {name for name in _references(found) if name not in found["definitions"]}
    assert missing == set()
    patch = found["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]
    assert {one["name"] for one in patch["parameters"]} >= {"fieldValidation", "dryRun"}


@pytest.mark.parametrize("spelled", ["v2@v1.0", "v2.v1.0"])
def test_openapi_v2_as_protobuf_knows_no_kinds(spelled: str) -> None:
    """kubectl then asks the server about fields, and says of an unknown kind that it is unknown."""
    media, body = _get(
        "/openapi/v2", f"application/com.github.proto-openapi.spec.{spelled}+protobuf"
    )
    assert "@" not in media, "client-go refuses a media type with this letter"
    assert body == b"\n\x032.0\x12\x15\n\nKubernetes\x12\x07v1.36.0B\x00J\x00"


@pytest.mark.parametrize("what", ["exec", "attach", "portforward"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_what_needs_a_process_is_answered_with_why_there_is_none(what: str, method: str) -> None:
    async def ask() -> dict[str, Any]:
        async with Embedded(EmbeddedSettings(access_control=False)) as server:
            await server.handle(Request("POST", _PODS, (), {}, json.dumps(_POD).encode()))
            answer = await server.handle(Request(method, f"{_PODS}/p/{what}", (), {}, b""))
            found: dict[str, Any] = json.loads(await answer.read())
            assert answer.status == 501
            gone = await server.handle(Request(method, f"{_PODS}/q/{what}", (), {}, b""))
            assert gone.status == 404
            return found

    message = asyncio.run(ask())["message"]
    assert message.startswith(f"{what} is not possible here: the nodes of this cluster are pret")
    assert "kubectl logs" in message


def _references(value: Any) -> set[str]:
    if isinstance(value, dict):
        to = value.get("$ref")
        own = {to.removeprefix("#/definitions/")} if isinstance(to, str) else set()
        return own.union(*map(_references, value.values()))
    if isinstance(value, list):
        return set().union(*map(_references, value))
    return set()
