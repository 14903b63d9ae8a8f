"""The transport over HTTPS (or plain HTTP), on aiohttp.

Connections are kept and shared; compression is not asked for, because near a cluster it costs more
time than the bytes it saves. Idle connections are probed by TCP keep-alive, so that a watch on a
server that vanished without a word ends within a minute.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, Mapping
from urllib.parse import urlsplit

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from muster.base.clock import Clock
from muster.client.credentials import Credential
from muster.client.errors import BadAccess, Interrupted, Unreachable
from muster.client.kubeconfig import Access
from muster.client.tls import explained, tls_context
from muster.client.transport import Request, Response


class HttpsTransport:
    """Requests to the server of one `Access`, with its credentials."""

    def __init__(self, access: Access, clock: Clock) -> None:
        _check_proxy(access)
        self._access = access
        self._clock = clock
        self._server = URL(access.server)
        self._prefix = self._server.path.rstrip("/")
        self._session: aiohttp.ClientSession | None = None
        self._tls: ssl.SSLContext | bool = True
        self._shown: tuple[bytes, bytes] | None = None

    async def send(self, request: Request, timeout_s: float | None = None) -> Response:
        credential = await self._access.credentials.current()
        response = await self._send(request, credential, timeout_s)
        if response.status == 401 and self._access.credentials.refuse(credential):
            # Tokens rotate under us; a fresh one deserves one more try.
            await response.close()
            fresh = await self._access.credentials.current()
            response = await self._send(request, fresh, timeout_s)
        return response

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _send(
        self, request: Request, credential: Credential, timeout_s: float | None
    ) -> "_HttpResponse":
        session = await self._session_showing(credential)
        request.check()
        headers = CIMultiDict({"accept-encoding": "identity", **request.headers})
        headers.extend(self._access.headers)
        if credential.authorization:
            headers["authorization"] = credential.authorization
        try:
            async with asyncio.timeout(timeout_s):
                response = await session.request(
                    request.method,
                    self._url(request),
                    headers=headers,
                    data=request.body or None,
                    ssl=self._tls,
                    server_hostname=self._access.tls_server_name or None,
                    proxy=self._access.proxy_url or None,
                    allow_redirects=False,
                )
        except TimeoutError:
            raise Unreachable(f"{self._access.server}: no answer within {timeout_s} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise self._why(error) from error
        return _HttpResponse(response, self._access.server)

    def _url(self, request: Request) -> URL:
        return self._server.with_path(self._prefix + request.path).with_query(request.query)

    async def _session_showing(self, credential: Credential) -> aiohttp.ClientSession:
        """A session whose connections carry this credential's certificate."""
        shown = (credential.certificate, credential.key)
        if self._session is None or shown != self._shown:
            outdated = self._session
            if self._server.scheme == "https":
                self._tls = tls_context(self._access, credential, self._clock)
            self._shown = shown
            self._session = aiohttp.ClientSession(
                # How many calls may run at once is decided above (limits.py); watches hold
                # connections of their own and must not starve the calls.
                connector=aiohttp.TCPConnector(limit=0, socket_factory=_kept_alive),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=10.0),
                cookie_jar=aiohttp.DummyCookieJar(),
                read_bufsize=1 << 20,
            )
            if outdated is not None:
                # What still runs on it breaks off, and is asked for anew with the new certificate.
                await outdated.close()
        return self._session

    def _why(self, error: aiohttp.ClientError | OSError) -> Unreachable:
        if isinstance(error, aiohttp.ClientProxyConnectionError | aiohttp.ClientHttpProxyError):
            return Unreachable(f"{self._access.server}: by proxy {self._access.proxy_url}: {error}")
        if isinstance(error, OSError):
            return explained(error, self._access)
        return Unreachable(f"{self._access.server}: {error or type(error).__name__}")


class _HttpResponse:
    """aiohttp's response as the client's `Response`."""

    def __init__(self, response: aiohttp.ClientResponse, server: str) -> None:
        self.status = response.status
        self.headers: Mapping[str, str] = {
            name.lower(): value for name, value in response.headers.items()
        }
        self._response = response
        self._server = server

    async def read(self) -> bytes:
        try:
            return await self._response.read()
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

    def _interrupted(self, error: Exception) -> Interrupted:
        said = str(error) or type(error).__name__
        return Interrupted(f"{self._server}: the answer broke off: {said}")


def _check_proxy(access: Access) -> None:
    scheme = urlsplit(access.proxy_url).scheme
    if access.proxy_url and scheme not in ("http", "https"):
        problem = f"proxy-url {access.proxy_url!r}: only http and https proxies are supported"
        raise BadAccess(f"context {access.context!r}", problem)


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
