"""The same faults as a server on loopback, between any client and an API server.

TLS ends here: clients trust the same certificate authority as for the real server, and what they
sign in with (a token) is handed on. Connections really break: the client sees a reset, not an error
of ours.
"""

import asyncio
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from muster.base.clock import SystemClock
from muster.lab.chaos import OnKill, cut_lines
from muster.lab.control_plane import ADMIN, ControlPlane
from muster.lab.control_plane_files import write_kubeconfig
from muster.lab.faults import (
    AnswerInstead,
    CutStream,
    Delay,
    Fault,
    FaultScript,
    Hang,
    Kill,
    LoseAnswer,
    Refuse,
    observed_call,
    refusal,
)

# Headers that belong to one connection and not to the request.
_OWN_HEADERS = {"host", "connection", "transfer-encoding", "content-length", "keep-alive"}


class ChaosProxy:
    """Serves the API of `plane` on a port of its own, struck by `script`."""

    def __init__(
        self, plane: ControlPlane, script: FaultScript, on_kill: OnKill | None = None
    ) -> None:
        self.script = script
        self._plane = plane
        self._on_kill = on_kill
        self._clock = SystemClock()

    async def __aenter__(self) -> Self:
        trusted = ssl.create_default_context(cafile=str(self._plane.certificate_authority_file))
        self._upstream = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=trusted, limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
        )
        app = web.Application(client_max_size=1 << 26)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        tls = self._plane.serving_context("chaos")
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._upstream.close()
        await self._runner.cleanup()

    @property
    def server(self) -> str:
        return f"https://127.0.0.1:{self._port}"

    def kubeconfig(self, user: str = ADMIN) -> Path:
        """A kubeconfig that goes through this proxy."""
        path = self._plane.folder / f"{user}.{self._port}.kubeconfig"
        return write_kubeconfig(path, self.server, user, {"token": self._plane.tokens[user]})

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        watch = request.query.get("watch") in {"1", "true"}
        what = observed_call(request.method, request.path, watch)
        match self.script.fault_for(what):
            case None:
                return await self._pass_on(request)
            case Delay(by_s):
                await self._clock.sleep(by_s)
                return await self._pass_on(request)
            case CutStream() as cut:
                return await self._pass_on(request, cut)
            case Refuse(status, retry_after_s):
                return _refused(status, str(what), retry_after_s)
            case AnswerInstead(status):
                await self._do(request)
                return _refused(status, str(what))
            case fault:
                await self._before_the_break(fault, request)
                return _broken(request)

    async def _before_the_break(self, fault: Fault, request: web.Request) -> None:
        if isinstance(fault, Hang):
            # Until the client gives up, which cancels this handler, or the proxy closes.
            await asyncio.Event().wait()
        if isinstance(fault, LoseAnswer) or (isinstance(fault, Kill) and fault.after_write):
            await self._do(request)
        if isinstance(fault, Kill) and self._on_kill is not None:
            await self._on_kill()

    async def _do(self, request: web.Request) -> None:
        async with await self._forward(request) as answer:
            await answer.read()

    async def _pass_on(
        self, request: web.Request, cut: CutStream | None = None
    ) -> web.StreamResponse:
        try:
            answer = await self._forward(request)
        except aiohttp.ClientError:
            # The server is away: so is this proxy.
            return _broken(request)
        async with answer:
            mine = web.StreamResponse(status=answer.status, headers=_handed_on(answer.headers))
            await mine.prepare(request)
            chunks = answer.content.iter_any()
            try:
                async for chunk in cut_lines(chunks, cut) if cut else chunks:
                    await mine.write(chunk)
            except aiohttp.ClientError:
                return _broken(request)
            if cut:
                # What was written must leave before the connection breaks.
                return _broken(request, politely=True)
            await mine.write_eof()
            return mine

    async def _forward(self, request: web.Request) -> aiohttp.ClientResponse:
        return await self._upstream.request(
            request.method,
            f"{self._plane.server}{request.raw_path}",
            headers=_handed_on(request.headers),
            data=await request.read() or None,
            allow_redirects=False,
        )


def _handed_on(headers: Mapping[str, str]) -> CIMultiDict[str]:
    kept = CIMultiDict(headers)
    for name in _OWN_HEADERS:
        kept.popall(name, None)
    return kept


def _refused(status: int, what: str, retry_after_s: int | None = None) -> web.Response:
    headers = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}
    body = refusal(status, f"{what}: {status} by script", retry_after_s)
    return web.json_response(body, status=status, headers=headers)


def _broken(request: web.Request, politely: bool = False) -> web.StreamResponse:
    """Break the connection under the client's feet."""
    transport = request.transport
    if transport is not None:
        transport.close() if politely else transport.abort()
    return web.Response()
