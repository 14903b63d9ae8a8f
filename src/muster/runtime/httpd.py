"""Parts that answer HTTP; among them /healthz, /readyz, /metrics and /debug of one service."""

import asyncio
import io
import json
import ssl
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

_WRITE_BYTES = 65536


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


class CannotListen(Exception):
    """The address is taken, or not ours to take."""


class HttpPart(ABC):
    """A part that serves an application on one address. Port 0 takes a free one."""

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> None:
        self.port = port
        self.listening = asyncio.Event()
        self._host = host
        self._tls = tls
        self._stopped = asyncio.Event()

    @abstractmethod
    def app(self) -> web.Application: ...

    async def run(self) -> None:
        runner = web.AppRunner(self.app(), access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await self._listen(runner)
            await self._stopped.wait()
        finally:
            await runner.cleanup()

    def stop(self) -> None:
        self._stopped.set()

    async def _listen(self, runner: web.AppRunner) -> None:
        try:
            await web.TCPSite(runner, self._host, self.port, ssl_context=self._tls).start()
        except OSError as error:
            where = f"{self._host}:{self.port}"
            raise CannotListen(f"cannot listen on {where}: {error.strerror}") from error
        self.port = runner.addresses[0][1]
        self.listening.set()


class Httpd(HttpPart):
    """Answers probes."""

    name = "httpd"

    def __init__(self, host: str, port: int, probes: Probes) -> None:
        super().__init__(host, port)
        self._probes = probes

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/livez", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/debug", self._debug_index)
        app.router.add_get("/debug/tasks", self._tasks)
        app.router.add_get("/debug/{name}", self._debug)
        return app

    async def _healthz(self, _: web.Request) -> web.Response:
        return _verdict(self._probes.health())

    async def _readyz(self, _: web.Request) -> web.Response:
        return _verdict(self._probes.readiness())

    async def _metrics(self, _: web.Request) -> web.Response:
        body = generate_latest(self._probes.registry)
        return web.Response(body=body, headers={"content-type": CONTENT_TYPE_LATEST})

    async def _debug_index(self, _: web.Request) -> web.Response:
        names = ["tasks", *self._probes.debug]
        return web.Response(text="".join(f"/debug/{name}\n" for name in names))

    async def _debug(self, request: web.Request) -> web.StreamResponse:
        ask = self._probes.debug.get(request.match_info["name"])
        if ask is None:
            return web.Response(status=404, text="not known; /debug lists what is\n")
        answer = ask()
        if isinstance(answer, Iterator):
            return await _streamed(request, answer)
        return web.Response(
            text=json.dumps(answer, indent=2, default=str) + "\n", content_type="application/json"
        )

    async def _tasks(self, _: web.Request) -> web.Response:
        """Where every coroutine stands: the first thing to look at when a service hangs."""
        shown = io.StringIO()
        for task in sorted(asyncio.all_tasks(), key=lambda task: task.get_name()):
            task.print_stack(file=shown)
        return web.Response(text=shown.getvalue())


async def _streamed(request: web.Request, parts: Iterator[bytes]) -> web.StreamResponse:
    """Parts made one after the other in a thread, as fast as they are taken."""
    response = web.StreamResponse(headers={"content-type": "application/json"})
    await response.prepare(request)
    while (part := await asyncio.to_thread(_some_of, parts)) is not None:
        await response.write(part)
    await response.write_eof()
    return response


def _some_of(parts: Iterator[bytes]) -> bytes | None:
    """The next parts, enough to be worth a write; None at the end."""
    taken = bytearray()
    for part in parts:
        taken += part
        if len(taken) >= _WRITE_BYTES:
            break
    return bytes(taken) or None


def _verdict(problems: list[str]) -> web.Response:
    if problems:
        return web.Response(status=503, text="\n".join(problems) + "\n")
    return web.Response(text="ok\n")
