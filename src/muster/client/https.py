"""The transport over HTTPS (or plain HTTP), on aiohttp.

Connections are kept and shared; compression is not asked for, because near a cluster it costs more
time than the bytes it saves. Idle connections are probed by TCP keep-alive, so that a watch on a
server that vanished without a word ends within a minute.

Certificates and authorities may change while we run: new calls then go over connections of their
own, and what is under way on the old ones goes on until it ends.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from functools import lru_cache, partial
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from multidict import CIMultiDict
from yarl import URL

from muster.base.clock import Clock
from muster.client.credentials import Credential, FixedCredentials
from muster.client.errors import BadAccess, Interrupted, Unreachable, described
from muster.client.kubeconfig import Access, AccessSource
from muster.client.secrets import (
    ESCAPED,
    has_stray_userinfo,
    redacted,
    secrets_of_header,
    secrets_of_url,
    without_userinfo,
)
from muster.client.tls import explained, tls_context
from muster.client.transport import Request, Response


class HttpsTransport:
    """Requests to the server of an `Access`, with its credentials."""

    def __init__(self, access: AccessSource, clock: Clock) -> None:
        _check_proxy(access.current())
        self._source = access
        self._clock = clock
        self._sessions: list[_Session] = []
        """The newest last; those before it have calls under way."""

    async def send(self, request: Request, timeout_s: float | None = None) -> Response:
        access = self._source.current()
        credential = await _credential(access, timeout_s)
        response = await self._send(request, access, credential, timeout_s)
        if response.status == 401 and access.credentials.refuse(credential):
            # Tokens rotate under us; a fresh one deserves one more try.
            await response.close()
            fresh = await _credential(access, timeout_s)
            response = await self._send(request, access, fresh, timeout_s)
        return response

    async def close(self) -> None:
        for session in self._sessions:
            await session.close()
        self._sessions.clear()

    async def _send(
        self, request: Request, access: Access, credential: Credential, timeout_s: float | None
    ) -> "_HttpResponse":
        session = await self._session_for(access, credential)
        request.check()
        headers = CIMultiDict({"accept-encoding": "identity", **request.headers})
        headers.extend(access.headers)
        if credential.authorization:
            headers["authorization"] = credential.authorization
        body = _CheckedBody(request) if request.body else None
        session.under_way += 1
        try:
            async with asyncio.timeout(timeout_s):
                response = await session.http.request(
                    request.method,
                    _url(access, request),
                    headers=headers,
                    data=body,
                    ssl=session.tls,
                    server_hostname=access.tls_server_name or None,
                    proxy=access.proxy_url or None,
                    allow_redirects=False,
                )
        except BaseException as error:
            await self._ended(session)
            if body is not None and body.refusal is not None:
                raise body.refusal from None
            if isinstance(error, TimeoutError):
                said = f"{access.shown_server}: no answer within {timeout_s} s"
                raise Unreachable(said) from None
            if isinstance(error, aiohttp.ClientError | OSError):
                # Not as its cause: the errors of a proxy carry our headers and its password.
                raise _why(error, access) from None
            raise
        return _HttpResponse(response, access, credential, partial(self._ended, session))

    async def _session_for(self, access: Access, credential: Credential) -> "_Session":
        """A session whose connections trust and show what these say."""
        wanted = (access.ca, access.insecure, credential.certificate, credential.key)
        newest = self._sessions[-1] if self._sessions else None
        if newest is not None and newest.made_for == wanted:
            return newest
        is_tls = urlsplit(access.server).scheme == "https"
        tls = tls_context(access, credential, self._clock) if is_tls else True
        made = _Session(wanted, tls)
        self._sessions.append(made)
        if newest is not None and not newest.under_way:
            await self._retire(newest)
        return made

    async def _ended(self, session: "_Session") -> None:
        """A call on this session has ended; an outdated one ends with its last."""
        session.under_way -= 1
        if not session.under_way and self._sessions and session is not self._sessions[-1]:
            await self._retire(session)

    async def _retire(self, session: "_Session") -> None:
        if session in self._sessions:
            self._sessions.remove(session)
            await session.close()


class _Session:
    """Connections that trust one authority and show one certificate."""

    def __init__(self, made_for: object, tls: ssl.SSLContext | bool) -> None:
        self.made_for = made_for
        self.tls = tls
        self.under_way = 0
        self.http = aiohttp.ClientSession(
            # How many calls may run at once is decided above (limits.py); watches hold
            # connections of their own and must not starve the calls.
            connector=aiohttp.TCPConnector(limit=0, socket_factory=_kept_alive),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=10.0),
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=1 << 20,
        )

    async def close(self) -> None:
        await self.http.close()


async def _credential(access: Access, timeout_s: float | None) -> Credential:
    """Whoever gives them out may be slower than the call may last."""
    if isinstance(access.credentials, FixedCredentials):
        return access.credentials.credential
    try:
        async with asyncio.timeout(timeout_s):
            return await access.credentials.current()
    except TimeoutError:
        said = f"{access.shown_server}: no credential within {timeout_s} s"
        raise Unreachable(said) from None


def _url(access: Access, request: Request) -> URL:
    server = _server_url(access.server)
    url = server.with_path(server.path.rstrip("/") + request.path)
    return url.with_query(request.query) if request.query else url


@lru_cache(maxsize=8)
def _server_url(server: str) -> URL:
    return URL(server)


def _why(error: aiohttp.ClientError | OSError, access: Access) -> Unreachable:
    if isinstance(error, aiohttp.ClientHttpProxyError):
        by = f"by proxy {without_userinfo(access.proxy_url)}"
        return Unreachable(f"{access.shown_server}: {by}: it answered {error.status}")
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        by = f"by proxy {without_userinfo(access.proxy_url)}"
        return Unreachable(f"{access.shown_server}: {by}: {error}")
    if isinstance(error, OSError):
        return explained(error, access)
    said = redacted(described(error).encode(), secrets_of_url(access.server)).decode()
    return Unreachable(f"{access.shown_server}: {said}")


def _secrets(access: Access, credential: Credential) -> set[str]:
    """All that a server, or a proxy before it, could repeat to us."""
    by_url = secrets_of_url(access.proxy_url) | secrets_of_url(access.server)
    return by_url | secrets_of_header(credential.authorization)


class _CheckedBody(aiohttp.BytesPayload):
    """A body that asks once more whether it may be sent, when its first byte is about to leave.

    aiohttp sends in a task of its own, a turn of the event loop or more after it was called, and a
    process may be frozen in between. Headers leave together with the body: nothing has been sent.
    """

    def __init__(self, request: Request) -> None:
        super().__init__(request.body)
        self._check = request.check
        self.refusal: Exception | None = None

    async def write_with_length(
        self, writer: AbstractStreamWriter, content_length: int | None
    ) -> None:
        try:
            self._check()
        except Exception as error:
            self.refusal = error
            raise
        await super().write_with_length(writer, content_length)


class _HttpResponse:
    """aiohttp's response as the client's `Response`."""

    def __init__(
        self,
        response: aiohttp.ClientResponse,
        access: Access,
        credential: Credential,
        on_close: Callable[[], Awaitable[None]],
    ) -> None:
        self.status = response.status
        self._response = response
        self._access = access
        self._credential = credential
        self._on_close = on_close
        self._is_closed = False

    @property
    def headers(self) -> Mapping[str, str]:
        return {name.lower(): value for name, value in self._response.headers.items()}

    async def read(self) -> bytes:
        try:
            body = await self._response.read()
            if self.status < 400:
                return body
            # Refusals become errors, logs and events, and some repeat the request's headers.
            return redacted(body, _secrets(self._access, self._credential))
        except (aiohttp.ClientError, OSError) as error:
            raise self._interrupted(error) from error

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        try:
            async for chunk in self._response.content.iter_any():
                yield chunk
        except (aiohttp.ClientError, OSError) as error:
            raise self._interrupted(error) from error

    async def close(self) -> None:
        # Releases the connection for the next request when the body was read to its end, else
        # drops it.
        self._response.release() if self._response.content.at_eof() else self._response.close()
        if not self._is_closed:
            self._is_closed = True
            await self._on_close()

    def _interrupted(self, error: Exception) -> Interrupted:
        said = described(error)
        return Interrupted(f"{self._access.shown_server}: the answer broke off: {said}")


def _check_proxy(access: Access) -> None:
    if not access.proxy_url:
        return
    where, shown = f"context {access.context!r}", without_userinfo(access.proxy_url)
    try:
        url = urlsplit(access.proxy_url)
        is_address = bool(url.hostname) and url.port != 0 and not has_stray_userinfo(url)
    except ValueError:
        is_address = False
    if not is_address:
        problem = f"proxy-url {shown!r} is not a URL like http://host:3128 {ESCAPED}"
        raise BadAccess(where, problem)
    if url.scheme not in ("http", "https"):
        problem = f"proxy-url {shown!r}: only http and https proxies are supported"
        raise BadAccess(where, problem)


def _kept_alive(address: aiohttp.AddrInfoType) -> socket.socket:
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
    return made
