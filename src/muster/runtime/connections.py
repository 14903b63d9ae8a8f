"""The connections of one HTTP server: how many, for how long, and what each may send.

Anybody who reaches the port may open connections and send nothing, a byte a minute, or everything
at once. aiohttp leaves such a connection alone for as long as it lasts; here each one waits against
a clock, and where connections or bytes run short the one that has waited longest is cut off. A
request that comes in one piece takes milliseconds, so it is never the one.
"""

import asyncio
import socket
import ssl
from collections import Counter, OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from aiohttp import web
from aiohttp.typedefs import Handler

Tls = Callable[[], ssl.SSLContext]
"""Asked for each connection: certificates are replaced while we run."""

_HEADER_BYTES = 8190
_HEADERS = 100
_BACKLOG = 128
_ACCEPT_AGAIN_S = 0.1


@dataclass(frozen=True, slots=True)
class ServingLimits:
    """What a server puts up with."""

    read_s: float = 5.0
    """For the TLS handshake; then for each request, from its first byte to its last."""
    write_s: float = 10.0
    """For the client to take a part of the answer."""
    idle_s: float = 120.0
    """From one request to the next."""
    age_s: float = 3600.0
    """After which a connection ends with its next answer, so that clients meet new certificates."""
    leave_s: float = 0.0
    """For how long callers are served after the word to stop: until they know to go elsewhere. Each
    connection ends with its next answer."""
    connections: int = 512
    body_bytes: int = 8 << 20
    """Of one request: API servers send objects of at most 3 MiB, twice in an update."""
    budget_bytes: int = 64 << 20
    """Of all requests that are being read or answered."""


class Connections:
    """Opens connections for an application and closes those that take too long."""

    def __init__(self, limits: ServingLimits, tls: Tls | None) -> None:
        self.limits = limits
        self.cut_off: Counter[str] = Counter()
        """How many were closed by us, by reason."""
        self._tls = tls
        self._server: web.Server | None = None
        self._open: dict[object, TimedConnection] = {}
        self._handshakes: set[asyncio.Task[None]] = set()
        self._waiting: OrderedDict[object, Callable[[], None]] = OrderedDict()
        self._bytes = 0
        self._is_leaving = False

    @property
    def held_bytes(self) -> int:
        """Of bodies that have come and are not answered yet."""
        return self._bytes

    def __len__(self) -> int:
        return len(self._open) + len(self._handshakes)

    def runner(self, app: web.Application) -> web.AppRunner:
        """aiohttp's side, with its own limits; `serve` gives it connections."""
        app.middlewares.insert(0, self._timed)
        return web.AppRunner(
            app,
            access_log=None,
            shutdown_timeout=1.0,
            keepalive_timeout=self.limits.idle_s,
            lingering_time=1.0,
            max_line_size=_HEADER_BYTES,
            max_field_size=_HEADER_BYTES,
            max_headers=_HEADERS,
            # Bodies that unpack to a thousand times their size are not for us to unpack.
            auto_decompress=False,
        )

    async def serve(self, listening: socket.socket, server: web.Server) -> None:
        """Accept until cancelled."""
        self._server = server
        loop = asyncio.get_running_loop()
        try:
            while True:
                try:
                    accepted, _ = await loop.sock_accept(listening)
                except OSError:
                    # The caller has gone already, or we are out of file descriptors.
                    await asyncio.sleep(_ACCEPT_AGAIN_S)
                    continue
                self._admit(accepted)
        finally:
            for task in self._handshakes:
                task.cancel()
            await asyncio.gather(*self._handshakes, return_exceptions=True)

    def leave(self) -> None:
        """Whoever is answered from now on opens another connection for what he asks next."""
        self._is_leaving = True

    async def body(self, request: web.Request) -> bytes:
        """The whole body, counted as it comes: what is only announced takes no room."""
        connection = self._of(request)
        if (request.content_length or 0) > self.limits.body_bytes:
            raise self._too_large(request.content_length or 0)
        parts = bytearray()
        async for chunk in request.content.iter_any():
            self._take(connection, len(chunk))
            parts += chunk
            if len(parts) > self.limits.body_bytes:
                raise self._too_large(len(parts))
        connection.busy()
        return bytes(parts)

    async def send(self, request: web.Request, answer: web.StreamResponse, part: bytes) -> None:
        """A part of an answer; a client that does not take it is cut off."""
        connection = self._of(request)
        connection.until(self.limits.write_s, "writing")
        await answer.write(part)
        connection.busy()

    def wait(self, one: object, end: Callable[[], None]) -> None:
        """`one` waits for its client from now on; `end` closes it."""
        self._waiting[one] = end
        self._waiting.move_to_end(one)

    def work(self, one: object) -> None:
        """`one` waits no longer."""
        self._waiting.pop(one, None)

    def opened(self, connection: "TimedConnection") -> None:
        self._open[connection.inner] = connection

    def closed(self, connection: "TimedConnection") -> None:
        self._open.pop(connection.inner, None)
        self.work(connection)
        self.release(connection)

    def release(self, connection: "TimedConnection") -> None:
        """Its body is no longer held."""
        self._bytes -= connection.held_bytes
        connection.held_bytes = 0

    def _admit(self, accepted: socket.socket) -> None:
        if len(self) >= self.limits.connections and not self._cut_longest_waiting("connections"):
            self.cut_off["connections"] += 1
            accepted.close()
            return
        task = asyncio.get_running_loop().create_task(self._shake_hands(accepted))
        self._handshakes.add(task)
        task.add_done_callback(self._shaken)
        self.wait(task, lambda: _cancel(task))

    def _shaken(self, task: asyncio.Task[None]) -> None:
        self._handshakes.discard(task)
        self.work(task)

    async def _shake_hands(self, accepted: socket.socket) -> None:
        try:
            if self._tls is None:
                await self._connect(accepted)
            else:
                await self._connect(accepted, self._tls())
        except (OSError, TimeoutError):
            self.cut_off["handshake"] += 1
            accepted.close()

    async def _connect(self, accepted: socket.socket, tls: ssl.SSLContext | None = None) -> None:
        waits_s = self.limits.read_s if tls is not None else None
        await asyncio.get_running_loop().connect_accepted_socket(
            self._connection,
            accepted,
            ssl=tls,
            ssl_handshake_timeout=waits_s,
            ssl_shutdown_timeout=waits_s,
        )

    def _connection(self) -> "TimedConnection":
        assert self._server is not None, "connections are made by `serve`"
        return TimedConnection(self, self._server())

    def _of(self, request: web.Request) -> "TimedConnection":
        found = self._open.get(request.protocol)
        if found is None:
            raise ConnectionResetError("the caller has gone")
        return found

    def _take(self, connection: "TimedConnection", count: int) -> None:
        connection.held_bytes += count
        self._bytes += count
        while self._bytes > self.limits.budget_bytes:
            slowest = next((one for one in self._waiting if _held(one)), connection)
            if slowest is connection:
                raise web.HTTPServiceUnavailable(
                    text="too much is being sent at once; try again\n", headers={"retry-after": "1"}
                )
            self.cut_off["bytes"] += 1
            self._waiting.pop(slowest)()

    def _too_large(self, size: int) -> web.HTTPRequestEntityTooLarge:
        most = self.limits.body_bytes
        return web.HTTPRequestEntityTooLarge(
            most, size, text=f"the body is larger than the {most} bytes allowed\n"
        )

    def _cut_longest_waiting(self, why: str) -> bool:
        if not self._waiting:
            return False
        self.cut_off[why] += 1
        _, end = self._waiting.popitem(last=False)
        end()
        return True

    @web.middleware
    async def _timed(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """One request, and its answer until the client has it."""
        connection = self._of(request)
        if not request.can_read_body:
            connection.busy()
        try:
            response = await handler(request)
            if connection.is_old or self._is_leaving:
                response.force_close()
            connection.until(self.limits.write_s, "writing")
            with suppress(ConnectionResetError):  # a client that went is nobody's fault
                await response.prepare(request)
                await response.write_eof()
        except BaseException as error:
            connection.until(self.limits.write_s, "writing")
            if isinstance(error, web.HTTPException):
                error.force_close()
            raise
        finally:
            self.release(connection)
        connection.until(self.limits.idle_s, "idle")
        connection.is_idle = True
        return response


class TimedConnection(asyncio.Protocol):
    """One connection against the clock; what it says goes to aiohttp's protocol."""

    def __init__(self, connections: Connections, inner: web.RequestHandler) -> None:
        self.inner = inner
        self.held_bytes = 0
        self.is_idle = False
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self._opened_s = self._loop.time()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_old(self) -> bool:
        return self._loop.time() - self._opened_s > self._connections.limits.age_s

    def until(self, within_s: float, why: str) -> None:
        """Waits for the client, for at most so long."""
        self._stop_timer()
        self._timer = self._loop.call_later(within_s, self._late, why)
        self._connections.wait(self, self.end)

    def busy(self) -> None:
        """It is us who take time now."""
        self._stop_timer()
        self._connections.work(self)

    def end(self) -> None:
        """Now, whatever has not been sent: whoever does not listen would hold it up."""
        self.busy()
        self._connections.release(self)
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._connections.opened(self)
        self.until(self._connections.limits.read_s, "reading")
        self.inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self.is_idle:
            self.is_idle = False
            self.until(self._connections.limits.read_s, "reading")
        self.inner.data_received(data)

    def eof_received(self) -> None:
        self.inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._connections.closed(self)
        self.inner.connection_lost(exc)

    def pause_writing(self) -> None:
        self.inner.pause_writing()

    def resume_writing(self) -> None:
        self.inner.resume_writing()

    def _late(self, why: str) -> None:
        self._connections.cut_off[why] += 1
        self.end()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def listening_socket(host: str, port: int) -> socket.socket:
    """Bound and listening; raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    both = family is socket.AF_INET6 and host == "::" and socket.has_dualstack_ipv6()
    made = socket.create_server((host, port), family=family, backlog=_BACKLOG, dualstack_ipv6=both)
    made.setblocking(False)
    return made


def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()


def _held(one: object) -> bool:
    return isinstance(one, TimedConnection) and one.held_bytes > 0
