"""The API server behind HTTPS: the same `handle`, served by aiohttp.

    async with Serving(cluster, Address()) as serving:
        serving.url, serving.certificate_pem

Loopback only unless asked; the certificate comes from an authority of its own.
"""

import ssl
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import parse_qsl

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import RawRequestMessage
from aiohttp.streams import StreamReader
from aiohttp.web_protocol import RequestHandler

from muster.client.transport import Request
from muster.runtime.certificates import CertificateAuthority, KeyPair, Subject
from muster.sim.apiserver.answers import ApiResponse

Handle = Callable[[Request], Awaitable[ApiResponse]]

_BODY_LIMIT_BYTES = 3 << 20  # as the real server
_HOSTS = ("localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default.svc")


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen. Port 0 takes a free one."""

    host: str = "127.0.0.1"
    port: int = 0
    # More names and addresses for the certificate, where clients come from elsewhere.
    names: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ServerIdentity:
    """The authority that clients trust, and the certificate it gave this server."""

    authority_pem: bytes
    serving: KeyPair

    @classmethod
    def new(cls, address: Address, now_s: float) -> "ServerIdentity":
        authority = CertificateAuthority.new("muster", now_s)
        hosts = dict.fromkeys((*_HOSTS, address.host, *address.names))
        subject = Subject("kube-apiserver", hosts=[host for host in hosts if host != "0.0.0.0"])
        return cls(authority.certificate_pem, authority.issue(subject, now_s))


class Serving:
    """Listens while it is entered."""

    def __init__(self, handle: Handle, address: Address, identity: ServerIdentity | None) -> None:
        """Without an identity it speaks plain HTTP, for tests and proxies."""
        self._handle = handle
        self._address = address
        self._identity = identity
        self._runner: web.ServerRunner | None = None
        self.port = address.port

    @property
    def url(self) -> str:
        scheme = "https" if self._identity else "http"
        host = "127.0.0.1" if self._address.host in ("0.0.0.0", "::") else self._address.host
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.port}"

    async def __aenter__(self) -> "Serving":
        server = web.Server(
            self._serve,
            request_factory=_request,
            handler_cancellation=True,
            keepalive_timeout=3630,
            access_log=None,
        )
        runner = web.ServerRunner(server, shutdown_timeout=0.5)
        await runner.setup()
        context = _context(self._identity) if self._identity else None
        site = web.TCPSite(
            runner,
            self._address.host,
            self._address.port,
            ssl_context=context,
            backlog=1024,
        )
        try:
            await site.start()
        except OSError:
            await runner.cleanup()
            raise
        self._runner = runner
        self.port = runner.addresses[0][1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        headers = {key.lower(): value for key, value in request.headers.items()}
        query = parse_qsl(request.query_string, keep_blank_values=True)
        body = await request.read() if request.body_exists else b""
        answer = await self._handle(Request(request.method, request.path, query, headers, body))
        if answer.stream is None:
            return web.Response(body=answer.body, status=answer.status, headers=answer.headers)
        return await _streamed(request, answer)


async def _streamed(request: web.BaseRequest, answer: ApiResponse) -> web.StreamResponse:
    response = web.StreamResponse(status=answer.status, headers=answer.headers)
    response.enable_chunked_encoding()
    await response.prepare(request)
    try:
        async with aclosing(answer.chunks()) as chunks:
            async for chunk in chunks:
                await response.write(chunk)
        await response.write_eof()
    except ConnectionError:
        pass  # the watcher has left
    finally:
        await answer.close()
    return response


def _request(
    message: RawRequestMessage,
    payload: StreamReader,
    protocol: RequestHandler,
    writer: AbstractStreamWriter,
    task: Any,
) -> web.BaseRequest:
    return web.BaseRequest(
        message,
        payload,
        protocol,
        writer,
        task,
        protocol._loop,
        client_max_size=_BODY_LIMIT_BYTES,
    )


def _context(identity: ServerIdentity) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["http/1.1"])
    # The ssl module reads keys only from files.
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = Path(folder, "cert.pem"), Path(folder, "key.pem")
        certificate.write_bytes(identity.serving.certificate_pem)
        key.touch(mode=0o600)
        key.write_bytes(identity.serving.key_pem)
        context.load_cert_chain(certificate, key)
    return context
