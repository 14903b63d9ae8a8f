"""Admission webhooks over HTTPS: both servers call them, and do with their answers the same."""

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.conformance.conftest import connected

from muster.base.clock import SystemClock
from muster.client.transport import Request, Transport
from muster.lab.control_plane import ControlPlane
from muster.runtime.certificates import CertificateAuthority, Subject
from muster.sim.apiserver.embedded import Embedded, EmbeddedSettings

_TOKEN = "webhooks"
_GROUP = "/apis/admissionregistration.k8s.io/v1"
_RULE = {
    "operations": ["CREATE"],
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "resources": ["configmaps"],
}


@dataclass
class Hooks:
    """A webhook server on loopback; each path answers in its own way."""

    url: str = ""
    ca: str = ""
    reviews: list[dict[str, Any]] = field(default_factory=list)
    is_over: asyncio.Event = field(default_factory=asyncio.Event)


@pytest.fixture
async def hooks(tmp_path: Path) -> AsyncIterator[Hooks]:
    now_s = SystemClock().now_s()
    authority = CertificateAuthority.new("webhooks", now_s)
    pair = authority.issue(Subject("webhook", hosts=("127.0.0.1",)), now_s)
    (tmp_path / "cert.pem").write_bytes(pair.certificate_pem)
    (tmp_path / "key.pem").write_bytes(pair.key_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    made = Hooks(ca=base64.b64encode(authority.certificate_pem).decode())
    app = web.Application()
    for path, handler in _HANDLERS.items():
        app.router.add_post(path, _noted(made, handler))
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    made.url = f"https://127.0.0.1:{runner.addresses[0][1]}"
    yield made
    made.is_over.set()
    await runner.cleanup()


Handler = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


def _noted(hooks: Hooks, handler: Handler) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(request: web.Request) -> web.Response:
        review = (await request.json())["request"]
        hooks.reviews.append(review)
        if handler is _silent:
            await hooks.is_over.wait()
        response = {"uid": review["uid"], "allowed": True} | await handler(review)
        kind = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}
        return web.json_response(kind | {"response": response})

    return handle


async def _allow(review: dict[str, Any]) -> dict[str, Any]:
    return {}


async def _deny(review: dict[str, Any]) -> dict[str, Any]:
    return {"allowed": False, "status": {"message": "not today", "code": 418, "reason": "Teapot"}}


async def _refuse(review: dict[str, Any]) -> dict[str, Any]:
    return {"allowed": False}


async def _patch(review: dict[str, Any]) -> dict[str, Any]:
    patch = [{"op": "add", "path": "/data", "value": {"by": "webhook"}}]
    encoded = base64.b64encode(json.dumps(patch).encode()).decode()
    return {"patchType": "JSONPatch", "patch": encoded}


async def _warn(review: dict[str, Any]) -> dict[str, Any]:
    return {"warnings": ["think again"]}


async def _strange(review: dict[str, Any]) -> dict[str, Any]:
    return {"uid": "another"}


async def _silent(review: dict[str, Any]) -> dict[str, Any]:
    return {}


_HANDLERS: dict[str, Handler] = {
    "/allow": _allow,
    "/deny": _deny,
    "/refuse": _refuse,
    "/patch": _patch,
    "/warn": _warn,
    "/strange": _strange,
    "/silent": _silent,
}


class Client:
    """Speaks JSON to a server, in a namespace of its own."""

    def __init__(self, transport: Transport, namespace: str) -> None:
        self._transport = transport
        self.namespace = namespace

    async def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any, str]:
        plain, _, query = path.partition("?")
        pairs = tuple(tuple(part.split("=")) for part in query.split("&") if part)
        sent = b"" if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        request = Request(method, plain, pairs, headers, sent)  # type: ignore[arg-type]
        response = await self._transport.send(request, 20.0)
        answer = json.loads(await response.read())
        return response.status, answer, response.headers.get("warning", "")

    async def write(self, query: str = "") -> tuple[int, Any, str]:
        body = {"metadata": {"generateName": "c-", "labels": {"app": "x"}}}
        return await self.call(
            "POST", f"/api/v1/namespaces/{self.namespace}/configmaps{query}", body
        )


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.kube)])
async def client(request: pytest.FixtureRequest, new_name: str) -> AsyncIterator[Client]:
    if request.param == "embedded":
        async with Embedded(EmbeddedSettings(admin_token=_TOKEN)) as cluster:
            made = Client(cluster.transport(_TOKEN), new_name)
            await made.call("POST", "/api/v1/namespaces", {"metadata": {"name": new_name}})
            yield made
        return
    plane: ControlPlane = request.getfixturevalue("control_plane")
    transport = connected(plane.kubeconfig())
    made = Client(transport, new_name)
    await made.call("POST", "/api/v1/namespaces", {"metadata": {"name": new_name}})
    yield made
    for kind in ("mutating", "validating"):
        await made.call("DELETE", f"{_GROUP}/{kind}webhookconfigurations/{new_name}")
    await transport.close()


async def registered(
    client: Client, hooks: Hooks, path: str, kind: str = "mutating", **fields: Any
) -> None:
    """Register a webhook for config maps of the client's namespace."""
    own = {"matchLabels": {"kubernetes.io/metadata.name": client.namespace}}
    hook = {
        "name": "hook.example.com",
        "clientConfig": {"url": hooks.url + path, "caBundle": hooks.ca},
        "rules": [_RULE],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "namespaceSelector": own,
        "timeoutSeconds": 5,
    }
    body = {"metadata": {"name": client.namespace}, "webhooks": [hook | fields]}
    status, answer, _ = await client.call("POST", f"{_GROUP}/{kind}webhookconfigurations", body)
    assert status == 201, answer


async def answered(client: Client, wanted: Callable[[int, Any, str], bool], query: str = "") -> Any:
    """The answer to a write, once the server has taken notice of the registration."""
    async with asyncio.timeout(30):
        while True:
            answer = await client.write(query)
            if wanted(*answer):
                return answer
            await asyncio.sleep(0.02)


def _is(code: int) -> Callable[[int, Any, str], bool]:
    return lambda status, body, warning: status == code


@pytest.mark.parametrize("kind", ["mutating", "validating"])
async def test_a_denial_is_returned_with_the_webhooks_message(
    client: Client, hooks: Hooks, kind: str
) -> None:
    await registered(client, hooks, "/deny", kind)
    _, body, _ = await answered(client, _is(418))
    assert body["message"] == 'admission webhook "hook.example.com" denied the request: not today'
    assert body["reason"] == "Teapot"


async def test_a_denial_without_a_message_is_a_bad_request(client: Client, hooks: Hooks) -> None:
    await registered(client, hooks, "/refuse")
    _, body, _ = await answered(client, _is(400))
    assert body["message"].endswith('"hook.example.com" denied the request without explanation')


async def test_the_patch_of_a_mutating_webhook_is_stored(client: Client, hooks: Hooks) -> None:
    await registered(client, hooks, "/patch")
    _, body, _ = await answered(client, lambda s, b, w: b.get("data") == {"by": "webhook"})
    assert body["metadata"]["labels"] == {"app": "x"}


async def test_a_warning_reaches_the_client(client: Client, hooks: Hooks) -> None:
    await registered(client, hooks, "/warn")
    status, _, warning = await answered(client, lambda s, b, w: bool(w))
    assert status == 201
    assert warning == '299 - "think again"'


async def test_the_review_names_the_user_and_the_operation(client: Client, hooks: Hooks) -> None:
    await registered(client, hooks, "/allow")
    await answered(client, lambda s, b, w: bool(hooks.reviews), "?dryRun=All")
    review = hooks.reviews[0]
    assert (review["operation"], review["dryRun"]) == ("CREATE", True)
    assert review["kind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}
    assert review["resource"] == {"group": "", "version": "v1", "resource": "configmaps"}
    assert review["namespace"] == client.namespace
    assert review["object"]["kind"] == "ConfigMap"
    assert review["oldObject"] is None
    assert review["options"]["kind"] == "CreateOptions"
    assert "system:masters" in review["userInfo"]["groups"]


async def test_failure_policy_decides_whether_a_failing_webhook_refuses_the_write(
    client: Client, hooks: Hooks
) -> None:
    await registered(client, hooks, "/strange")
    _, body, _ = await answered(client, _is(500))
    assert 'failed calling webhook "hook.example.com": received invalid webhook' in body["message"]
    await registered(client, hooks, "/strange", "validating", failurePolicy="Ignore")
    await client.call("DELETE", f"{_GROUP}/mutatingwebhookconfigurations/{client.namespace}")
    await answered(client, _is(201))


async def test_a_webhook_that_cannot_be_reached_refuses_the_write(
    client: Client, hooks: Hooks
) -> None:
    nowhere = {"url": "https://127.0.0.1:1/x", "caBundle": hooks.ca}
    await registered(client, hooks, "/allow", clientConfig=nowhere)
    _, body, _ = await answered(client, _is(500))
    assert 'failed calling webhook "hook.example.com": failed to call webhook' in body["message"]


async def test_a_webhook_certificate_of_another_authority_is_not_trusted(
    client: Client, hooks: Hooks
) -> None:
    other = CertificateAuthority.new("other", SystemClock().now_s())
    foreign = base64.b64encode(other.certificate_pem).decode()
    config = {"url": hooks.url + "/allow", "caBundle": foreign}
    await registered(client, hooks, "/allow", clientConfig=config)
    _, body, _ = await answered(client, _is(500))
    assert "certificate" in body["message"]
    assert hooks.reviews == []


async def test_a_webhook_that_exceeds_its_timeout_refuses_the_write(
    client: Client, hooks: Hooks
) -> None:
    await registered(client, hooks, "/silent", timeoutSeconds=1)
    _, body, _ = await answered(client, _is(500))
    assert "context deadline exceeded" in body["message"]


@pytest.mark.parametrize(
    "fields",
    [
        {"objectSelector": {"matchLabels": {"app": "y"}}},
        {"rules": [_RULE | {"operations": ["DELETE"]}]},
        {"matchConditions": [{"name": "never", "expression": "object.metadata.namespace == 'x'"}]},
    ],
)
async def test_a_webhook_is_not_called_for_what_its_rules_do_not_match(
    client: Client, hooks: Hooks, fields: dict[str, Any]
) -> None:
    await registered(client, hooks, "/deny", **fields)
    # A second webhook shows when the server has taken notice of both.
    await registered(client, hooks, "/warn", "validating")
    await answered(client, lambda s, b, w: bool(w))
    status, _, _ = await client.write()
    assert status == 201


async def test_a_dry_run_calls_webhooks_without_side_effects_on_dry_run(
    client: Client, hooks: Hooks
) -> None:
    await registered(client, hooks, "/allow", sideEffects="NoneOnDryRun")
    await answered(client, lambda s, b, w: bool(hooks.reviews), "?dryRun=All")
    status, _, _ = await client.write("?dryRun=All")
    assert status == 201
