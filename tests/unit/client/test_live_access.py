"""Authorities, certificates and kubeconfigs are read again when they change, without a restart."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml
from aiohttp import web
from tests.support.certificates import Authority, serving

from muster.base.clock import SystemClock, VirtualClock
from muster.base.log import Log, MemorySink
from muster.client.errors import Unreachable, Untrusted
from muster.client.https import HttpsTransport
from muster.client.kubeconfig import Access, in_cluster_access, load_access
from muster.client.live_access import LOOK_EVERY_S, LiveAccess
from muster.client.transport import Request


class Server:
    """Answers with who asks; `/slow` when it is told to."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.asked = asyncio.Event()
        self.port = 0

    async def answer(self, request: web.Request) -> web.Response:
        if request.path == "/slow":
            self.asked.set()
            await self.go_on.wait()
        assert request.transport is not None
        shown = request.transport.get_extra_info("peercert")
        name = dict(pair[0] for pair in shown["subject"])["commonName"] if shown else ""
        return web.Response(text=name)

    @asynccontextmanager
    async def serving(
        self, folder: Path, authority: Authority, clients: Authority | None = None
    ) -> AsyncIterator[None]:
        app = web.Application()
        app.router.add_get("/{rest:.*}", self.answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        tls = serving(folder, authority.signed("127.0.0.1"), clients)
        await web.TCPSite(runner, "127.0.0.1", self.port, ssl_context=tls).start()
        self.port = runner.addresses[0][1]
        try:
            yield
        finally:
            await runner.cleanup()


class Client:
    """A transport over an access that is looked at anew."""

    def __init__(self, load: Callable[[VirtualClock], Access]) -> None:
        # Now, because certificates say when they are valid.
        self.clock = VirtualClock(start_s=SystemClock().now_s())
        self.sink = MemorySink()
        self.live = LiveAccess(lambda: load(self.clock), self.clock, Log("access", self.sink))
        self.transport = HttpsTransport(self.live, self.clock)

    async def ask(self, path: str = "/") -> str:
        response = await self.transport.send(Request("GET", path), timeout_s=5)
        try:
            return (await response.read()).decode()
        finally:
            await response.close()

    def later(self) -> None:
        self.clock.advance(LOOK_EVERY_S)


def in_pod(folder: Path, authority: Authority, server: Server) -> Callable[[VirtualClock], Access]:
    (folder / "token").write_text("a-token")
    (folder / "ca.crt").write_bytes(authority.certificate)
    environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(server.port)}
    return lambda clock: in_cluster_access(clock, environ, folder)


def by_kubeconfig(
    folder: Path, authority: Authority, clients: Authority, server: Server
) -> Callable[[VirtualClock], Access]:
    (folder / "ca.pem").write_bytes(authority.certificate)
    show(folder, clients, "first")
    write_kubeconfig(folder, server)
    return lambda clock: load_access(clock, {}, path=folder / "config")


def write_kubeconfig(folder: Path, server: Server) -> None:
    cluster = {"server": f"https://127.0.0.1:{server.port}", "certificate-authority": "ca.pem"}
    user = {"client-certificate": "me.pem", "client-key": "me.key"}
    entries = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    (folder / "config").write_text(yaml.safe_dump(entries))


def show(folder: Path, clients: Authority, name: str) -> None:
    pair = clients.signed(name)
    (folder / "me.pem").write_bytes(pair.certificate)
    (folder / "me.key").write_bytes(pair.key)


async def test_a_new_authority_of_the_cluster_is_trusted_without_a_restart(tmp_path: Path) -> None:
    old, new, server = Authority(), Authority(), Server()
    async with server.serving(tmp_path, old):
        client = Client(in_pod(tmp_path, old, server))
        await client.ask()
    async with server.serving(tmp_path, new):
        with pytest.raises(Untrusted):
            await client.ask()
        (tmp_path / "ca.crt").write_bytes(new.certificate)
        client.later()
        await client.ask()
        assert client.sink.messages() == ["access read again"]
        await client.transport.close()


async def test_a_new_client_certificate_is_shown_and_calls_under_way_go_on(tmp_path: Path) -> None:
    authority, server = Authority(), Server()
    async with server.serving(tmp_path, authority, clients=authority):
        client = Client(by_kubeconfig(tmp_path, authority, authority, server))
        under_way = asyncio.create_task(client.ask("/slow"))
        await server.asked.wait()
        show(tmp_path, authority, "second")
        client.later()
        assert await client.ask() == "second"
        server.go_on.set()
        assert await under_way == "first"
        assert len(client.transport._sessions) == 1, "the old one ended with its last call"
        await client.transport.close()


async def test_a_certificate_without_its_key_leaves_the_last_good_one_in_force(
    tmp_path: Path,
) -> None:
    authority, server = Authority(), Server()
    async with server.serving(tmp_path, authority, clients=authority):
        client = Client(by_kubeconfig(tmp_path, authority, authority, server))
        other = authority.signed("second")
        (tmp_path / "me.pem").write_bytes(other.certificate)
        for _ in range(3):
            client.later()
            assert await client.ask() == "first"
        assert client.sink.messages() == ["access not read again"]
        (tmp_path / "me.key").write_bytes(other.key)
        client.later()
        assert await client.ask() == "second"
        await client.transport.close()


async def test_a_kubeconfig_may_name_another_server_while_we_run(tmp_path: Path) -> None:
    authority, server, moved = Authority(), Server(), Server()
    async with (
        server.serving(tmp_path, authority, clients=authority),
        moved.serving(tmp_path, authority, clients=authority),
    ):
        client = Client(by_kubeconfig(tmp_path, authority, authority, server))
        assert await client.ask() == "first"
        write_kubeconfig(tmp_path, moved)
        client.later()
        task = asyncio.create_task(client.ask("/slow"))
        await asyncio.wait_for(moved.asked.wait(), 5)
        moved.go_on.set()
        assert await task == "first"
        await client.transport.close()


async def test_files_that_do_not_change_are_not_read_again(tmp_path: Path) -> None:
    authority, server = Authority(), Server()
    server.port = 1
    loads = 0
    load = in_pod(tmp_path, authority, server)

    def counted(clock: VirtualClock) -> Access:
        nonlocal loads
        loads += 1
        return load(clock)

    client = Client(counted)
    before = loads
    for _ in range(5):
        client.later()
        with pytest.raises(Unreachable):
            await client.ask()
    assert loads == before
    await client.transport.close()
