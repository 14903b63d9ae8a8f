"""Parts that answer HTTP; among them /healthz, /readyz, /metrics and /debug of one service."""

import asyncio
import io
import json
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from muster.base.log import Level, Log
from muster.base.offload import in_thread
from muster.runtime.connections import Connections, ServingLimits, Tls, listening_socket
from muster.runtime.page_access import Gate, ShutGate, is_local, page_request
from muster.runtime.parts import ended

DEFAULT_LIMITS = ServingLimits()
_OPEN_PATHS = frozenset({"/healthz", "/livez", "/readyz"})
"""Kubelets ask without a token."""
_PART_BYTES = 64 << 10
_LOG_LEVEL = "/debug/log-level"


@dataclass(frozen=True, slots=True)
class Probes:
    """What can be asked of a service. Health and readiness list what is wrong; empty is well.

    A page of `debug` is asked on the event loop. What it gives is shown as JSON; an iterator of
    bytes is gone through in a thread and streamed: for pages that are large, and made of values
    that do not change.
    """

    health: Callable[[], list[str]]
    readiness: Callable[[], list[str]]
    registry: CollectorRegistry
    debug: Mapping[str, Callable[[], object]] = field(default_factory=dict)
    log: Log | None = None
    """Whose level can be asked for, and changed."""


class CannotListen(Exception):
    """The address is taken, or not ours to take."""


class HttpPart(ABC):
    """A part that serves an application on one address. Port 0 takes a free one."""

    def __init__(
        self,
        host: str,
        port: int,
        tls: Tls | None = None,
        limits: ServingLimits = DEFAULT_LIMITS,
    ) -> None:
        self.port = port
        self.listening = asyncio.Event()
        self.connections = Connections(limits, tls)
        self._host = host
        self._stopped = asyncio.Event()

    @abstractmethod
    def app(self) -> web.Application: ...

    async def run(self) -> None:
        runner = self.connections.runner(self.app())
        await runner.setup()
        try:
            with self._listen() as listening:
                await self._serve(listening, runner)
        finally:
            await runner.cleanup()

    def stop(self) -> None:
        self._stopped.set()

    async def _serve(self, listening: socket.socket, runner: web.AppRunner) -> None:
        assert runner.server is not None, "it has been set up"
        serving = asyncio.ensure_future(self.connections.serve(listening, runner.server))
        stopped = asyncio.ensure_future(self._stopped.wait())
        try:
            await asyncio.wait((serving, stopped), return_when=asyncio.FIRST_COMPLETED)
            if not serving.done() and self.connections.limits.leave_s:
                self.connections.leave()
                await asyncio.wait((serving,), timeout=self.connections.limits.leave_s)
            if serving.done():
                serving.result()
        finally:
            await ended((serving, stopped))

    def _listen(self) -> socket.socket:
        try:
            listening = listening_socket(self._host, self.port)
        except OSError as error:
            where = f"{self._host}:{self.port}"
            raise CannotListen(f"cannot listen on {where}: {error.strerror}") from error
        self.port = listening.getsockname()[1]
        self.listening.set()
        return listening


@dataclass(frozen=True, slots=True)
class Gates:
    """Who is let in from other machines."""

    metrics: Gate = field(default_factory=ShutGate)
    debug: Gate = field(default_factory=ShutGate)


class Httpd(HttpPart):
    """Answers probes, to everybody; metrics and debug pages only to those who may see them."""

    name = "httpd"

    def __init__(
        self,
        host: str,
        port: int,
        probes: Probes,
        gates: Gates | None = None,
        tls: Tls | None = None,
        limits: ServingLimits = DEFAULT_LIMITS,
    ) -> None:
        super().__init__(host, port, tls, limits)
        self._probes = probes
        self._gates = gates or Gates()
        self._dumping = False
        self._one_scrape = asyncio.Lock()

    def app(self) -> web.Application:
        app = web.Application(middlewares=[self._guarded])
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/livez", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/debug", self._debug_index)
        app.router.add_get("/debug/tasks", self._tasks)
        if self._probes.log is not None:
            levels = _LogLevel(self._probes.log)
            app.router.add_get(_LOG_LEVEL, levels.show, allow_head=False)
            app.router.add_put(_LOG_LEVEL, levels.change)
        app.router.add_get("/debug/{name}", self._debug, allow_head=False)
        return app

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        gate = self._gate(request.path)
        if gate is not None and not is_local(request):
            refusal = await gate.refusal(page_request(request))
            if refusal is not None:
                asks = {"www-authenticate": "Bearer"} if refusal.status == 401 else {}
                text = f"{refusal.text}\n"
                return web.Response(status=refusal.status, text=text, headers=asks)
        return await handler(request)

    def _gate(self, path: str) -> Gate | None:
        if path in _OPEN_PATHS:
            return None
        return self._gates.metrics if path == "/metrics" else self._gates.debug

    async def _healthz(self, _: web.Request) -> web.Response:
        return _verdict(self._probes.health())

    async def _readyz(self, _: web.Request) -> web.Response:
        return _verdict(self._probes.readiness())

    async def _metrics(self, _: web.Request) -> web.Response:
        """Read here, where nobody changes what is counted; written as text in a thread."""
        async with self._one_scrape:
            read = _Read(list(self._probes.registry.collect()))
            body = await in_thread(lambda: generate_latest(read))
        return web.Response(body=body, headers={"content-type": CONTENT_TYPE_LATEST})

    async def _debug_index(self, _: web.Request) -> web.Response:
        names = ["tasks", *self._probes.debug]
        names += ["log-level"] if self._probes.log is not None else []
        return web.Response(text="".join(f"/debug/{name}\n" for name in names))

    async def _debug(self, request: web.Request) -> web.StreamResponse:
        ask = self._probes.debug.get(request.match_info["name"])
        if ask is None:
            return web.Response(status=404, text="not known; /debug lists what is\n")
        if self._dumping:
            # Each may be as large as the cluster.
            return web.Response(status=429, text="another page is being written; try again\n")
        self._dumping = True
        try:
            return await self._stream(request, ask())
        finally:
            self._dumping = False

    async def _stream(self, request: web.Request, page: object) -> web.StreamResponse:
        """Part by part, each made in a thread: a page of the whole cluster takes seconds."""
        answer = web.StreamResponse(headers={"content-type": "application/json; charset=utf-8"})
        await answer.prepare(request)
        parts = _parts(page)
        while part := await in_thread(lambda: next(parts, b"")):
            await self.connections.send(request, answer, part)
        return answer

    async def _tasks(self, _: web.Request) -> web.Response:
        """Where every coroutine stands: the first thing to look at when a service hangs."""
        shown = io.StringIO()
        for task in sorted(asyncio.all_tasks(), key=lambda task: task.get_name()):
            task.print_stack(file=shown)
        return web.Response(text=shown.getvalue())


class _LogLevel:
    """What is logged, while we run: a PUT of `debug`, `info`, `warning` or `error` changes it."""

    def __init__(self, log: Log) -> None:
        self._log = log

    async def show(self, _: web.Request) -> web.Response:
        return web.Response(text=f"{self._log.level.name.lower()}\n")

    async def change(self, request: web.Request) -> web.Response:
        asked = (await request.text()).strip().upper()
        if asked not in Level.__members__:
            known = ", ".join(name.lower() for name in Level.__members__)
            return web.Response(status=400, text=f"write one of {known}\n")
        before, self._log.level = self._log.level, Level[asked]
        # Always said, whatever the level: who turned it down should be found.
        self._log.error("log level changed", before=before.name, now=asked)
        return await self.show(request)


class _Read(Collector):
    """Meters as they were read."""

    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _verdict(problems: list[str]) -> web.Response:
    if problems:
        return web.Response(status=503, text="\n".join(problems) + "\n")
    return web.Response(text="ok\n")


def _parts(page: object) -> Iterator[bytes]:
    """JSON, in parts of a size that a socket takes; an iterator of bytes is JSON already."""
    if isinstance(page, Iterator):
        yield from _gathered(page)
        return
    part = io.StringIO()
    for text in json.JSONEncoder(indent=2, default=str).iterencode(page):
        part.write(text)
        if part.tell() >= _PART_BYTES:
            yield part.getvalue().encode()
            part = io.StringIO()
    yield f"{part.getvalue()}\n".encode()


def _gathered(parts: Iterator[bytes]) -> Iterator[bytes]:
    """The same in parts that are worth a write."""
    taken = bytearray()
    for part in parts:
        taken += part
        if len(taken) >= _PART_BYTES:
            yield bytes(taken)
            taken.clear()
    if taken:
        yield bytes(taken)
