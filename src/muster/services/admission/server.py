"""The admission handler behind HTTPS."""

import asyncio
import ssl
from typing import Any

import msgspec
from aiohttp import web

from muster.runtime.httpd import CannotListen
from muster.services.admission.handler import AdmissionHandler

_BODY_MAX = 8 << 20


class AdmissionServer:
    """A part that serves reviews on every replica."""

    name = "admission"

    def __init__(
        self, handler: AdmissionHandler, host: str, port: int, tls: ssl.SSLContext | None
    ) -> None:
        self.port = port
        self.listening = asyncio.Event()
        self._handler = handler
        self._host = host
        self._tls = tls
        self._stopped = asyncio.Event()

    async def run(self) -> None:
        app = web.Application(client_max_size=_BODY_MAX)
        app.router.add_post("/{path:.*}", self._review)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        try:
            site = web.TCPSite(runner, self._host, self.port, ssl_context=self._tls)
            await self._listen(site)
            self.port = runner.addresses[0][1]
            self.listening.set()
            await self._stopped.wait()
        finally:
            await runner.cleanup()

    def stop(self) -> None:
        self._stopped.set()

    async def _listen(self, site: web.TCPSite) -> None:
        try:
            await site.start()
        except OSError as error:
            raise CannotListen(f"{self._host}:{self.port}: {error.strerror}") from error

    async def _review(self, request: web.Request) -> web.Response:
        try:
            document: Any = msgspec.json.decode(await request.read())
        except (msgspec.DecodeError, RecursionError) as error:
            return web.Response(status=400, text=f"the review is not JSON: {error}\n")
        if not isinstance(document, dict):
            return web.Response(status=400, text="the review is not an object\n")
        answer = self._handler.answer(request.path, document)
        if answer is None:
            return web.Response(status=404, text=f"no webhook at {request.path}\n")
        body = msgspec.json.encode(answer)
        return web.Response(body=body, content_type="application/json")
