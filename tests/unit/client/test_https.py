"""The HTTPS transport against a server on loopback: what works, and the error of each failure."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from aiohttp import web
from tests.support.certificates import Authority, Pair, serving

from muster.base.clock import SystemClock
from muster.client.credentials import Credential, FixedCredentials
from muster.client.errors import BadAccess, Deposed, Interrupted, Unreachable, Untrusted
from muster.client.https import HttpsTransport
from muster.client.kubeconfig import Access
from muster.client.transport import Request

AUTHORITY = Authority()


@dataclass
class Server:
    """Answers every request by saying what it was asked."""

    port: int = 0
    authorizations: list[str] = field(default_factory=list)
    accepted: str = ""
    peers: set[object] = field(default_factory=set)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.peers.add(request.transport)
        shown = request.headers.get("authorization", "")
        self.authorizations.append(shown)
        if self.accepted and shown != self.accepted:
            return web.json_response({}, status=401)
        if request.path == "/broken":
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(b'{"half":')
            assert request.transport is not None
            request.transport.abort()
            return response
        if request.path == "/slow":
            await asyncio.sleep(30)
        said = {"path": request.path, "query": list(request.query.items())}
        return web.json_response({**said, "body": await request.text()})


@asynccontextmanager
async def running(
    tls: ssl.SSLContext | None = None, server: Server | None = None
) -> AsyncIterator[Server]:
    server = server or Server()
    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", server.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    server.port = runner.addresses[0][1]
    try:
        yield server
    finally:
        await runner.cleanup()


@asynccontextmanager
async def transport(access: Access) -> AsyncIterator[HttpsTransport]:
    made = HttpsTransport(access, SystemClock())
    try:
        yield made
    finally:
        await made.close()


async def asked(access: Access, request: Request | None = None) -> bytes:
    async with transport(access) as sender:
        response = await sender.send(request or Request("GET", "/api"), timeout_s=5)
        try:
            return await response.read()
        finally:
            await response.close()


def at(server: Server, **settings: object) -> Access:
    access = Access(f"https://127.0.0.1:{server.port}", ca=AUTHORITY.certificate, context="test")
    return replace(access, **settings)  # type: ignore[arg-type]


def showing(pair: Pair) -> FixedCredentials:
    return FixedCredentials(Credential("", pair.certificate, pair.key))


async def test_path_and_query_arrive_unchanged_below_the_server_prefix(tmp_path: Path) -> None:
    tls = serving(tmp_path, AUTHORITY.signed("127.0.0.1"))
    request = Request("POST", "/api/a b/ü", [("labelSelector", "a=b,c in (d)")], {}, b"{}")
    async with running(tls) as server:
        access = at(server)
        body = await asked(replace(access, server=access.server + "/prefix"), request)
    assert b'"/prefix/api/a b/\\u00fc"' in body
    assert b'["labelSelector", "a=b,c in (d)"]' in body


async def test_connections_are_reused(tmp_path: Path) -> None:
    tls = serving(tmp_path, AUTHORITY.signed("127.0.0.1"))
    async with running(tls) as server, transport(at(server)) as sender:
        for _ in range(3):
            response = await sender.send(Request("GET", "/"))
            await response.read()
            await response.close()
        assert len(server.peers) == 1


async def test_a_client_certificate_is_presented(tmp_path: Path) -> None:
    tls = serving(tmp_path, AUTHORITY.signed("127.0.0.1"), clients=AUTHORITY)
    async with running(tls) as server:
        assert await asked(at(server, credentials=showing(AUTHORITY.signed("admin"))))
        with pytest.raises(Unreachable):
            await asked(at(server))


async def test_an_expired_client_certificate_is_an_error_before_it_is_sent(tmp_path: Path) -> None:
    tls = serving(tmp_path, AUTHORITY.signed("127.0.0.1"), clients=AUTHORITY)
    async with running(tls) as server:
        expired = showing(AUTHORITY.signed("admin", days=-1))
        with pytest.raises(BadAccess, match=r"'test': client certificate: expired on .* UTC"):
            await asked(at(server, credentials=expired))


async def test_a_client_certificate_that_does_not_match_its_key_is_an_error(tmp_path: Path) -> None:
    one, other = AUTHORITY.signed("a"), AUTHORITY.signed("b")
    mixed = showing(Pair(one.certificate, other.key))
    with pytest.raises(BadAccess, match="cannot be used with its key: key values mismatch"):
        await asked(at(Server(port=1), credentials=mixed))


async def test_a_certificate_authority_that_is_no_pem_is_an_error() -> None:
    with pytest.raises(BadAccess, match="certificate-authority: is not a PEM certificate"):
        await asked(at(Server(port=1), ca=b"hello"))


async def test_an_unknown_authority_is_not_trusted(tmp_path: Path) -> None:
    tls = serving(tmp_path, Authority("another").signed("127.0.0.1"))
    async with running(tls) as server:
        with pytest.raises(Untrusted, match="not signed by the kubeconfig's certificate-authority"):
            await asked(at(server))
        with pytest.raises(Untrusted, match="not signed by the system's authorities"):
            await asked(at(server, ca=b""))
        assert await asked(at(server, ca=b"", insecure=True))


async def test_the_systems_authorities_are_not_read_for_who_has_one_or_asks_for_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []
    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", lambda *given: read.append(given))
    tls = serving(tmp_path, AUTHORITY.signed("127.0.0.1"))
    async with running(tls) as server:
        assert await asked(at(server))
        assert await asked(at(server, ca=b"", insecure=True))
        assert read == []
        with pytest.raises(Untrusted):
            await asked(at(server, ca=b""))
        assert len(read) == 1


async def test_an_expired_server_certificate_is_an_error(tmp_path: Path) -> None:
    tls = serving(tmp_path, AUTHORITY.signed("127.0.0.1", days=-1))
    async with running(tls) as server:
        with pytest.raises(Untrusted, match="the server's certificate has expired"):
            await asked(at(server))


async def test_a_certificate_for_another_name_is_refused_unless_tls_server_name_is_set(
    tmp_path: Path,
) -> None:
    tls = serving(tmp_path, AUTHORITY.signed("kubernetes.example"))
    async with running(tls) as server:
        with pytest.raises(Untrusted, match=r"is for another name .* set tls-server-name"):
            await asked(at(server))
        assert await asked(at(server, tls_server_name="kubernetes.example"))


async def test_https_to_an_http_server_is_an_error_that_names_the_cause() -> None:
    async with running() as server:
        with pytest.raises(Untrusted, match="is it http and not https"):
            await asked(at(server))
        assert await asked(Access(f"http://127.0.0.1:{server.port}"))


async def test_a_refused_connection_and_an_unknown_host_are_unreachable() -> None:
    async with running() as server:
        pass
    with pytest.raises(Unreachable, match=rf"https://127\.0\.0\.1:{server.port}: .*[Cc]onnect"):
        await asked(at(server))
    with pytest.raises(Unreachable, match=r"no-such-host\.invalid"):
        await asked(Access("https://no-such-host.invalid"))


async def test_a_request_timeout_is_unreachable() -> None:
    async with running() as server, transport(Access(f"http://127.0.0.1:{server.port}")) as sender:
        with pytest.raises(Unreachable, match=r"no answer within 0\.1 s"):
            await sender.send(Request("GET", "/slow"), timeout_s=0.1)


async def test_a_truncated_response_is_interrupted() -> None:
    async with running() as server:
        with pytest.raises(Interrupted, match="the answer broke off"):
            await asked(Access(f"http://127.0.0.1:{server.port}"), Request("GET", "/broken"))


class Rotating:
    """Credentials that change when they are refused."""

    def __init__(self) -> None:
        self.token = "old"

    async def current(self) -> Credential:
        return Credential(f"Bearer {self.token}")

    def refuse(self, credential: Credential) -> bool:
        self.token = "new"
        return credential.authorization != "Bearer new"


async def test_a_refused_token_is_refreshed_and_the_request_retried_once() -> None:
    async with running(server=Server(accepted="Bearer new")) as server:
        access = Access(f"http://127.0.0.1:{server.port}", Rotating())
        assert b"path" in await asked(access)
        assert server.authorizations == ["Bearer old", "Bearer new"]
    async with running(server=Server(accepted="Bearer other")) as server:
        await asked(Access(f"http://127.0.0.1:{server.port}", Rotating()))
        assert server.authorizations == ["Bearer old", "Bearer new"], "one more try, not endless"


class Renewing:
    """Client certificates that are renewed for every request."""

    async def current(self) -> Credential:
        pair = AUTHORITY.signed("admin")
        return Credential("", pair.certificate, pair.key)

    def refuse(self, credential: Credential) -> bool:
        return False


async def test_a_renewed_client_certificate_is_presented_on_a_new_connection(
    tmp_path: Path,
) -> None:
    tls = serving(tmp_path, AUTHORITY.signed("127.0.0.1"), clients=AUTHORITY)
    async with running(tls) as server, transport(at(server, credentials=Renewing())) as sender:
        for _ in range(2):
            response = await sender.send(Request("GET", "/"))
            await response.read()
            await response.close()
        assert len(server.peers) == 2


@asynccontextmanager
async def tunnelling() -> AsyncIterator[tuple[int, list[str]]]:
    """A proxy that knows CONNECT and nothing else."""
    seen: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        verb, target, _ = head.split(" ", 2)
        seen.append(f"{verb} {target}")
        host, port = target.rsplit(":", 1)
        up_reader, up_writer = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await asyncio.gather(_pump(reader, up_writer), _pump(up_reader, writer))

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield listener.sockets[0].getsockname()[1], seen
    finally:
        listener.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
    writer.close()


async def test_requests_go_through_the_configured_proxy(tmp_path: Path) -> None:
    tls = serving(tmp_path, AUTHORITY.signed("127.0.0.1"))
    async with running(tls) as server, tunnelling() as (port, seen):
        assert await asked(at(server, proxy_url=f"http://127.0.0.1:{port}"))
        assert seen == [f"CONNECT 127.0.0.1:{server.port}"]


async def test_an_unreachable_or_unsupported_proxy_is_an_error() -> None:
    with pytest.raises(Unreachable, match=r"by proxy http://127\.0\.0\.1:9"):
        await asked(at(Server(port=1), proxy_url="http://127.0.0.1:9"))
    with pytest.raises(BadAccess, match="only http and https proxies are supported"):
        HttpsTransport(at(Server(port=1), proxy_url="socks5://127.0.0.1:9"), SystemClock())


class Losing:
    """Credentials during whose refresh something happens."""

    def __init__(self) -> None:
        self.has_lost = False

    async def current(self) -> Credential:
        self.has_lost = True
        return Credential("Bearer any")

    def refuse(self, credential: Credential) -> bool:
        return False


async def test_a_request_is_checked_after_all_waiting_and_before_it_is_sent() -> None:
    """A credential plugin may take a minute, and the lease be another's by then."""
    credentials = Losing()

    def check() -> None:
        if credentials.has_lost:
            raise Deposed("this process does not lead")

    async with running() as server:
        access = Access(f"http://127.0.0.1:{server.port}", credentials)
        with pytest.raises(Deposed):
            await asked(access, Request("POST", "/api", body=b"{}", check=check))
        assert server.authorizations == [], "nothing was sent"


class Silent:
    """Credentials that never come."""

    async def current(self) -> Credential:
        await asyncio.Event().wait()
        raise AssertionError("nobody waits for ever")

    def refuse(self, credential: Credential) -> bool:
        return False


async def test_a_credential_that_does_not_come_costs_a_call_no_more_than_its_time() -> None:
    async with running() as server:
        access = Access(f"http://127.0.0.1:{server.port}", Silent())
        async with transport(access) as sender:
            with pytest.raises(Unreachable, match=r"no credential within 0\.05 s"):
                await sender.send(Request("GET", "/api"), timeout_s=0.05)


async def test_a_request_is_checked_again_when_its_first_byte_is_about_to_leave() -> None:
    """A process may be frozen anywhere, and by the time it is thawed another leads."""
    async with running() as server, transport(Access(f"http://127.0.0.1:{server.port}")) as sender:
        asks: list[str] = []

        def check() -> None:
            asks.append("asked")
            if len(asks) == 2:
                raise Deposed("another leads by now")

        with pytest.raises(Deposed, match="another leads"):
            await sender.send(Request("POST", "/api", body=b"{}", check=check), timeout_s=5)
        assert server.authorizations == [], "not even its headers were sent"
        response = await sender.send(Request("POST", "/api", body=b"{}", check=check), timeout_s=5)
        assert b'"body": "{}"' in await response.read(), "the next one goes out as ever"
        await response.close()
