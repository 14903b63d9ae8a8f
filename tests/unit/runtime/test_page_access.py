"""Who gets to see metrics and debug pages, on the embedded API server."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import pytest
from aiohttp import web
from multidict import CIMultiDict
from prometheus_client import CollectorRegistry
from tests.support.page_readers import account, check_readers, pages, post

from muster.base.clock import VirtualClock
from muster.base.rand import Rand
from muster.client.connection import Connection
from muster.client.errors import Unreachable
from muster.client.transport import Request, Response, Transport
from muster.runtime.httpd import Httpd, Probes
from muster.runtime.page_access import (
    KubernetesGate,
    OpenGate,
    PageRequest,
    ShutGate,
    TokenGate,
    is_local,
)
from muster.sim.apiserver.embedded import Embedded, EmbeddedSettings
from muster.web.guard import ROLE_PREFIX

pytestmark = pytest.mark.timeout(60)


class Watched:
    """A transport that remembers what was posted."""

    def __init__(self, inner: Transport) -> None:
        self.inner = inner
        self.posted: list[str] = []
        self.is_away = False
        self.is_deaf = False

    async def send(self, request: Request, timeout_s: float | None = None) -> Response:
        self.posted.append(request.path.rpartition("/")[2])
        if self.is_away:
            raise Unreachable("no answer")
        if self.is_deaf:
            await asyncio.Event().wait()
        return await self.inner.send(request, timeout_s)

    async def close(self) -> None:
        await self.inner.close()


class World:
    """A cluster, its administrator, and a service that may ask who asks."""

    def __init__(self, cluster: Embedded, clock: VirtualClock) -> None:
        self.cluster = cluster
        self.clock = clock
        self.admin = Connection(cluster.transport("admin"), clock, Rand(1))

    def watched(self, token: str) -> tuple[Watched, KubernetesGate]:
        transport = Watched(self.cluster.transport(token))
        return transport, KubernetesGate(Connection(transport, self.clock, Rand(1)))


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    async with Embedded(EmbeddedSettings(admin_token="admin")) as cluster:
        yield World(cluster, VirtualClock())


async def test_kubernetes_says_who_reads_metrics_and_debug_pages() -> None:
    async with world() as here:
        muster = await account(here.admin, "default", "muster", "system:auth-delegator")
        _, gate = here.watched(muster)
        async with pages(gate, gate) as served:
            await check_readers(served, here.admin, "default")


async def test_a_service_that_may_not_ask_says_what_it_needs() -> None:
    async with world() as here:
        powerless = await account(here.admin, "default", "powerless")
        _, gate = here.watched(powerless)
        async with pages(gate, gate) as served:
            status, text = await served.ask("/metrics", powerless)
    assert status == 503
    assert "bind its service account to the ClusterRole system:auth-delegator" in text


async def test_answers_are_remembered_for_a_while_and_then_asked_anew() -> None:
    async with world() as here:
        transport, gate = here.watched("admin")
        asked = PageRequest("get", "/metrics", "admin")
        for _ in range(5):
            assert await gate.refusal(asked) is None
        assert transport.posted == ["tokenreviews", "subjectaccessreviews"]
        # Who is known stays known while the API server is away, for a while.
        transport.is_away = True
        assert await gate.refusal(asked) is None
        here.clock.advance(61.0)
        refusal = await gate.refusal(asked)
        assert refusal is not None
        assert refusal.status == 503


async def test_a_reader_of_few_namespaces_is_asked_about_once_a_minute_in_each() -> None:
    """Each event of a stream asks whose names its reader sees; most answers are no."""
    async with world() as here:
        reader = await account(here.admin, "default", "reader")
        transport, gate = here.watched("admin")
        spaces = [f"team-{number}" for number in range(1100)]

        async def seen() -> list[str]:
            group, plural = "scheduling.run.ai", "podgroups"
            return [one for one in spaces if await gate.may_list(reader, group, plural, one)]

        assert await seen() == []
        transport.posted.clear()
        here.clock.advance(30.0)
        assert await seen() == []
        assert transport.posted == []
        here.clock.advance(31.0)
        assert await seen() == []
        assert transport.posted.count("subjectaccessreviews") == len(spaces)


async def test_made_up_tokens_neither_crowd_out_users_nor_fill_the_memory() -> None:
    async with world() as here:
        transport, gate = here.watched("admin")
        asked = PageRequest("get", "/metrics", "admin")
        assert await gate.refusal(asked) is None
        for number in range(1100):
            stranger = await gate.refusal(PageRequest("get", "/metrics", f"made-up-{number}"))
            assert stranger is not None
        transport.posted.clear()
        assert await gate.refusal(asked) is None
        assert transport.posted == []
        await gate.refusal(PageRequest("get", "/metrics", "made-up-1099"))
        assert transport.posted == [], "the newest are remembered"
        await gate.refusal(PageRequest("get", "/metrics", "made-up-0"))
        assert transport.posted == ["tokenreviews"], "the oldest are not"


async def test_strangers_make_us_ask_few_at_a_time_and_users_are_let_in_meanwhile() -> None:
    async with world() as here:
        transport, gate = here.watched("admin")
        user = PageRequest("get", "/metrics", "admin")
        assert await gate.refusal(user) is None
        transport.is_deaf = True
        strangers = [PageRequest("get", "/metrics", f"made-up-{number}") for number in range(20)]
        asking = [asyncio.create_task(gate.refusal(stranger)) for stranger in strangers]
        assert await gate.refusal(user) is None
        done, waiting = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
        refusals = [task.result() for task in done]
        assert [refusal.status for refusal in refusals if refusal] == [429] * 12
        assert len(waiting) == 8
        assert await gate.refusal(user) is None
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_the_token_of_a_file_opens_and_may_be_replaced(tmp_path: Path) -> None:
    file = tmp_path / "token"
    gate = TokenGate(file)
    async with pages(OpenGate(), gate) as served:
        assert (await served.ask("/metrics"))[0] == 200, "as Prometheus has it with KAI"
        assert (await served.ask("/debug"))[0] == 401
        status, text = await served.ask("/debug", "first")
        assert (status, text.partition(":")[0]) == (503, "the token to compare with cannot be read")
        file.write_text("first\n")
        assert (await served.ask("/debug", "first"))[0] == 200
        assert (await served.ask("/debug", "first-not"))[0] == 401
        file.write_text("second")
        assert (await served.ask("/debug", "first"))[0] == 401
        assert (await served.ask("/debug", "second"))[0] == 200
        file.write_text("")
        assert (await served.ask("/debug", " "))[0] == 401


async def test_by_default_metrics_and_debug_pages_are_for_this_machine_alone() -> None:
    async with pages(ShutGate(), ShutGate()) as served:
        assert (await served.ask("/readyz"))[0] == 200
        assert await served.ask("/metrics") == (403, "/metrics is only for this machine\n")
        assert (await served.ask("/metrics", headers={}))[0] == 200
        # A page of the web that has a browser on this machine ask by a name of its own.
        assert (await served.ask("/debug", headers={"host": "evil.example:8080"}))[0] == 403


@pytest.mark.parametrize(
    ("peer", "own", "host", "holds"),
    [
        ("127.0.0.1", "127.0.0.1", "localhost:8080", True),
        ("::1", "::1", "[::1]:8080", True),
        ("::ffff:127.0.0.1", "::ffff:127.0.0.1", "127.0.0.1", True),
        ("10.0.0.7", "10.0.0.9", "10.0.0.9:8080", False),
        ("10.0.0.9", "10.0.0.9", "10.0.0.9:8080", False),
        ("127.0.0.1", "10.0.0.9", "localhost", False),
        ("127.0.0.1", "127.0.0.1", "127.0.0.1.evil.example", False),
        ("", "", "localhost", False),
    ],
)
def test_only_loopback_on_both_ends_is_this_machine(
    peer: str, own: str, host: str, holds: bool
) -> None:
    ends = {"peername": (peer, 1), "sockname": (own, 8080)}
    transport = SimpleNamespace(get_extra_info=ends.get)
    request: Any = SimpleNamespace(transport=transport, headers=CIMultiDict(), host=host)
    assert is_local(cast(web.Request, request)) is holds


async def test_a_large_debug_page_is_streamed_while_probes_are_answered() -> None:
    page = {"pods": [{"name": f"pod-{number}", "labels": {"a": "b"}} for number in range(30_000)]}
    probes = Probes(list, list, CollectorRegistry(), {"snapshot": lambda: page})
    server = Httpd("127.0.0.1", 0, probes)
    running = asyncio.create_task(server.run())
    await server.listening.wait()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session:
        async with session.get("/debug/snapshot") as dump:
            assert "content-length" not in dump.headers
            first = await dump.content.readany()
            async with session.get("/healthz") as probe:
                assert await probe.text() == "ok\n"
            # As large as the cluster: one at a time.
            async with session.get("/debug/snapshot") as second:
                assert second.status == 429
            assert json.loads(first + await dump.content.read()) == page
        async with session.get("/debug/snapshot") as again:
            assert await again.json() == page
    server.stop()
    await running


async def test_a_debug_page_is_written_beside_the_event_loop() -> None:
    class Odd:
        def __str__(self) -> str:
            return str(threading.get_ident())

    async with pages(OpenGate(), OpenGate()) as served:
        served.debug["odd"] = Odd
        assert json.loads((await served.ask("/debug/odd"))[1]) != str(threading.get_ident())


@pytest.mark.parametrize("token", [b"\xff\xfe", b"ab\xc3", "gr\xf6\xdfe".encode()])
async def test_a_header_that_is_no_text_is_a_stranger(tmp_path: Path, token: bytes) -> None:
    file = tmp_path / "token"
    file.write_text("first")
    async with world() as here, pages(here.watched("admin")[1], TokenGate(file)) as served:
        for path in (b"/metrics", b"/debug"):
            reads, writes = await asyncio.open_connection("127.0.0.1", served.server.port)
            writes.write(
                b"GET " + path + b" HTTP/1.1\r\nHost: elsewhere\r\nConnection: close\r\n"
                b"Authorization: Bearer " + token + b"\r\n\r\n"
            )
            answer = await reads.read()
            writes.close()
            assert answer.startswith(b"HTTP/1.1 401 "), answer[:200]


async def test_who_may_get_paths_of_kubernetes_may_not_get_ours() -> None:
    async with world() as here:
        for name, url in (("discovery", "/api/*"), ("reader", "/dashboard/*")):
            rules = [{"nonResourceURLs": [url], "verbs": ["get"]}]
            role = {"metadata": {"name": name}, "rules": rules}
            await post(here.admin, "/apis/rbac.authorization.k8s.io/v1/clusterroles", role)
        everybody = await account(here.admin, "default", "everybody", "discovery")
        reader = await account(here.admin, "default", "reader", "reader")
        gate = KubernetesGate(here.admin, ROLE_PREFIX)
        assert await gate.refusal(PageRequest("get", "/api/v1/jobs", reader)) is None
        refusal = await gate.refusal(PageRequest("get", "/api/v1/jobs", everybody))
        assert refusal is not None
        assert "nonResourceURLs [/dashboard/api/v1/jobs]" in refusal.text
