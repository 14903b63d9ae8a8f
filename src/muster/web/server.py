"""The HTTP API: GET, and POST for plan and what-if; nothing else exists, and nothing is written.

On this machine it is open, to programs and not to pages of other origins; from elsewhere a gate
judges who asks. Errors are JSON with a code, a message, the cause and the next step.
"""

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from muster.base.log import Log
from muster.engine.config.reader import ConfigError
from muster.foresight.journal.reader import NoJournal
from muster.foresight.plan import BadToken
from muster.foresight.why import NoSuchJob
from muster.runtime.httpd import HttpPart
from muster.runtime.page_access import Gate, OpenGate, ShutGate, is_local, page_request
from muster.web.handlers import Asked, BadQuestion, Handlers
from muster.web.live import NotReady, TooBusy
from muster.web.submission import BadManifest

BODY_MAX_BYTES: Final = 1 << 20
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_SAME_SITES: Final = frozenset({"same-origin", "none"})
_OPEN_PATHS: Final = frozenset({"/healthz"})
_PROBLEMS: Final[Mapping[type[Exception], tuple[int, str, str]]] = {
    NoSuchJob: (404, "NotFound", "List jobs with GET /api/v1/jobs."),
    BadQuestion: (400, "BadRequest", "Correct the field that is named."),
    BadManifest: (400, "BadManifest", "Correct the field that is named."),
    ConfigError: (400, "BadConfiguration", "Correct the field that is named."),
    BadToken: (409, "PlanDoesNotHold", "Plan again."),
    NoJournal: (404, "NoJournal", "Start muster web with --journal-folder."),
    TooBusy: (429, "TooBusy", "Ask again in a second."),
    NotReady: (503, "NotReady", "Ask again in a few seconds."),
}


class WebServer(HttpPart):
    """The part that answers."""

    name = "web"

    def __init__(
        self, host: str, port: int, handlers: Handlers, log: Log, gate: Gate | None = None
    ) -> None:
        super().__init__(host, port)
        self._handlers = handlers
        self._log = log
        self._gate = gate or ShutGate()

    def app(self) -> web.Application:
        app = web.Application(middlewares=[self._guarded], client_max_size=BODY_MAX_BYTES)
        app.router.add_get("/healthz", self._healthz, allow_head=False)
        app.router.add_get("/get-job-order", self._answering(self._handlers.job_order))
        for path, handler in self._handlers.routes().items():
            app.router.add_get(f"/api/v1/{path}", self._answering(handler), allow_head=False)
        for path, handler in self._handlers.posted().items():
            app.router.add_post(f"/api/v1/{path}", self._answering(handler))
        return app

    def _answering(
        self, handler: Callable[[Asked], Awaitable[Any]]
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def answer(request: web.Request) -> web.StreamResponse:
            body = await request.read() if request.method == "POST" else b""
            found = await handler(Asked(request.match_info, request.query, body))
            response = web.Response(
                body=msgspec.json.encode(found), content_type="application/json"
            )
            response.enable_compression()
            return response

        return answer

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            response = await self._refused(request) or await handler(request)
        except web.HTTPException as error:
            response = _error(error.status, _name(error.status), error.reason, "")
        except tuple(_PROBLEMS) as problem:
            status, code, next_step = _problem(problem)
            response = _error(status, code, str(problem), next_step)
            if status in (429, 503):
                response.headers["Retry-After"] = "1"
        except Exception as error:  # noqa: BLE001 - one question; others are to be answered
            self._log.error("question failed", path=request.path, error=repr(error))
            response = _error(500, "Failed", "the question could not be answered", "See the log.")
        response.headers.update(_HEADERS)
        return response

    async def _refused(self, request: web.Request) -> web.Response | None:
        site = request.headers.get("Sec-Fetch-Site", "none")
        origin = request.headers.get("Origin", "")
        is_own = not origin or origin.partition("://")[2] == request.host
        if site not in _SAME_SITES or not is_own:
            text = "pages of other sites may not ask"
            return _error(403, "CrossSite", text, "Ask from a program, or from our own page.")
        if request.path in _OPEN_PATHS:
            return None
        if is_local(request):
            return None
        refusal = await self._gate.refusal(page_request(request))
        if refusal is None:
            return None
        return _error(refusal.status, _name(refusal.status), refusal.text, "Send a token.")

    async def _healthz(self, _: web.Request) -> web.Response:
        return web.Response(text="ok\n")


class NeedsGate(Exception):
    """An address that others can reach, and nobody to judge them."""


def gate_for(host: str, gate: Gate | None) -> Gate:
    """Raises `NeedsGate`: open is for this machine alone."""
    if gate is None and host not in ("127.0.0.1", "::1", "localhost"):
        raise NeedsGate(
            f"{host} can be reached from other machines: say with --auth who may ask "
            "(kubernetes, or token with --auth-token-file), or listen on 127.0.0.1"
        )
    if isinstance(gate, OpenGate):
        raise NeedsGate("--auth none is for nobody: use kubernetes or token")
    return gate or ShutGate()


def _problem(problem: Exception) -> tuple[int, str, str]:
    return next(said for kind, said in _PROBLEMS.items() if isinstance(problem, kind))


def _error(status: int, code: str, message: str, next_step: str) -> web.Response:
    body = {"error": {"code": code, "message": message, "because": "", "next": next_step}}
    return web.Response(
        status=status, body=msgspec.json.encode(body), content_type="application/json"
    )


def _name(status: int) -> str:
    return HTTPStatus(status).phrase.title().replace(" ", "")
