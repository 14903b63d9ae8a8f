"""Readers of metrics and debug pages: accounts of a cluster, and what each is told by a service."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec
from prometheus_client import CollectorRegistry, Counter

from muster.client.connection import Call, Connection
from muster.client.transport import Request
from muster.runtime.httpd import Gates, Httpd, Probes
from muster.runtime.page_access import Gate

ELSEWHERE = {"x-forwarded-for": "10.1.2.3"}
"""What a request has that did not begin on this machine."""
_RBAC = "/apis/rbac.authorization.k8s.io/v1"


class Pages:
    """A service with metrics and a debug page, and the clients that ask it."""

    def __init__(self, server: Httpd, debug: dict[str, Callable[[], object]]) -> None:
        self.server = server
        self.debug = debug

    async def ask(
        self, path: str, token: str = "", headers: dict[str, str] | None = None
    ) -> tuple[int, str]:
        """Status and text for somebody elsewhere, unless `headers` say otherwise."""
        sent = dict(ELSEWHERE if headers is None else headers)
        if token:
            sent["authorization"] = f"Bearer {token}"
        url = f"http://127.0.0.1:{self.server.port}{path}"
        async with (
            aiohttp.ClientSession() as session,
            session.get(url, headers=sent) as answer,
        ):
            return answer.status, await answer.text()


@asynccontextmanager
async def pages(metrics: Gate, debug: Gate) -> AsyncIterator[Pages]:
    registry = CollectorRegistry()
    Counter("muster_test_total", "A counter.", registry=registry).inc(2)
    debug_pages: dict[str, Callable[[], object]] = {"snapshot": lambda: {"pods": ["secret"]}}
    probes = Probes(list, list, registry, debug_pages)
    server = Httpd("127.0.0.1", 0, probes, Gates(metrics, debug))
    running = asyncio.create_task(server.run())
    await server.listening.wait()
    yield Pages(server, debug_pages)
    server.stop()
    await running


async def post(admin: Connection, path: str, body: dict[str, Any]) -> dict[str, Any]:
    sent = Request(
        "POST", path, (), {"content-type": "application/json"}, msgspec.json.encode(body)
    )
    answered: dict[str, Any] = msgspec.json.decode(await admin.call(sent, Call("create", path)))
    return answered


async def account(admin: Connection, namespace: str, name: str, role: str = "") -> str:
    """A service account that has a cluster role; its token."""
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    await post(admin, accounts, {"metadata": {"name": name}})
    if role:
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
        subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
        metadata = {"name": f"{namespace}-{name}"}
        binding = {"metadata": metadata, "roleRef": reference, "subjects": [subject]}
        await post(admin, f"{_RBAC}/clusterrolebindings", binding)
    token = await post(admin, f"{accounts}/{name}/token", {"spec": {}})
    return str(token["status"]["token"])


async def metrics_role(admin: Connection, name: str) -> None:
    rule = {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}
    await post(admin, f"{_RBAC}/clusterroles", {"metadata": {"name": name}, "rules": [rule]})


async def check_readers(served: Pages, admin: Connection, namespace: str) -> None:
    """Everybody gets what their role says, and nobody else anything but probes."""
    await metrics_role(admin, f"{namespace}-metrics")
    prometheus = await account(admin, namespace, "prometheus", f"{namespace}-metrics")
    tenant = await account(admin, namespace, "tenant")
    for path in ("/healthz", "/livez", "/readyz"):
        assert await served.ask(path) == (200, "ok\n")
    for path in ("/metrics", "/debug", "/debug/tasks", "/debug/snapshot"):
        assert (await served.ask(path))[0] == 401
        assert await served.ask(path, "made-up") == (
            401,
            "the API server does not know this token\n",
        )
        status, text = await served.ask(path, tenant)
        assert status == 403
        assert text.startswith(
            f"system:serviceaccount:{namespace}:tenant may not get {path}: a Clu"
        )
        assert (await served.ask(path, headers={}))[0] == 200, "on this machine"
    assert "muster_test_total 2.0" in (await served.ask("/metrics", prometheus))[1]
    assert (await served.ask("/debug/snapshot", prometheus))[0] == 403
