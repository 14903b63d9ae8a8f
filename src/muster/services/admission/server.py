"""The admission handler behind HTTPS."""

import msgspec
from aiohttp import web

from muster.base.json_text import NotJson, parse_json
from muster.runtime.connections import ServingLimits, Tls
from muster.runtime.httpd import DEFAULT_LIMITS, HttpPart
from muster.services.admission.handler import AdmissionHandler


class AdmissionServer(HttpPart):
    """A part that serves reviews on every replica."""

    name = "admission"

    def __init__(
        self,
        handler: AdmissionHandler,
        host: str,
        port: int,
        tls: Tls | None,
        limits: ServingLimits = DEFAULT_LIMITS,
    ) -> None:
        super().__init__(host, port, tls, limits)
        self._handler = handler

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/{path:.*}", self._review)
        return app

    async def _review(self, request: web.Request) -> web.Response:
        try:
            document = parse_json(await self.connections.body(request))
        except NotJson as error:
            return web.Response(status=400, text=f"the review is not JSON: {error}\n")
        if not isinstance(document, dict):
            return web.Response(status=400, text="the review is not an object\n")
        answer = self._handler.answer(request.path, document)
        if answer is None:
            return web.Response(status=404, text=f"no webhook at {request.path}\n")
        body = msgspec.json.encode(answer)
        return web.Response(body=body, content_type="application/json")
