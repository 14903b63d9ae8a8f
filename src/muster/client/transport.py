"""How bytes reach an API server: over HTTPS, or by a call into an app in this process.

Everything above this file speaks only of `Request` and `Response`. That keeps the client testable
without a socket and lets the embedded API server be used in process, with no HTTP in between.
`HttpsTransport` is in `https.py`.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from muster.client.errors import Unreachable


def _unchecked() -> None:
    """Most requests may always be sent."""


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request. `path` is unquoted and starts with a slash; `query` keeps its order."""

    method: str
    path: str
    query: Sequence[tuple[str, str]] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    check: Callable[[], None] = field(default=_unchecked, compare=False, repr=False)
    """Asked by a transport right before it sends, after whatever it had to wait for."""


class Response(Protocol):
    """One HTTP response. Header names are lower-case. Read it whole or as chunks, then close it."""

    status: int

    @property
    def headers(self) -> Mapping[str, str]: ...

    async def read(self) -> bytes: ...

    def chunks(self) -> AsyncGenerator[bytes, None]:
        """Whoever does not read them to their end closes them (`contextlib.aclosing`)."""
        ...

    async def close(self) -> None: ...


class Transport(Protocol):
    """Sends requests. Raises `muster.client.errors.Unreachable` when no answer came back."""

    async def send(self, request: Request, timeout_s: float | None = None) -> Response:
        """Returns when the status line and headers are there; `timeout_s` bounds that wait."""
        ...

    async def close(self) -> None: ...


Handle = Callable[[Request], Awaitable[Response]]


class InProcessTransport:
    """Requests go straight to an app's `handle`; `headers` (who we are) are added to each."""

    def __init__(self, handle: Handle, headers: Mapping[str, str] | None = None) -> None:
        self._handle = handle
        self._headers = dict(headers or {})

    async def send(self, request: Request, timeout_s: float | None = None) -> Response:
        if self._headers:
            request = replace(request, headers={**request.headers, **self._headers})
        try:
            async with asyncio.timeout(timeout_s):
                return await self._handle(request)
        except TimeoutError:
            raise Unreachable(f"in-process server: no answer within {timeout_s} s") from None

    async def close(self) -> None:
        """Nothing is held open here; each response is closed by whoever reads it."""
