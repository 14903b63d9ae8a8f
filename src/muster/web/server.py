"""The HTTP server of the dashboard: the API under /api/v1, its stream, and the pages."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from importlib.resources import files

import msgspec
from aiohttp import web

from muster.base.clock import Clock
from muster.runtime.connections import ServingLimits, Tls
from muster.runtime.httpd import HttpPart
from muster.runtime.page_access import Gate, ShutGate
from muster.web.answers import BadQuestion, NotThere, answer, is_known
from muster.web.board import Board
from muster.web.called import with_called
from muster.web.guard import Guard, problem
from muster.web.handlers import Handlers
from muster.web.login import add_login
from muster.web.questions import add_questions
from muster.web.sessions import Sessions
from muster.web.veil import guesses

_API = "/api/v1"
_BEAT_S = 10.0
_BEHIND_MAX = 4
_BODY_BYTES_MAX = 1 << 20
_STATIC = files("muster.web") / "static"
_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}
_LIMITS = ServingLimits()


class WebPart(HttpPart):
    """A part of a process: answers readers from the board."""

    name = "web"

    def __init__(
        self,
        host: str,
        port: int,
        board: Board,
        clock: Clock,
        gate: Gate | None = None,
        tls: Tls | None = None,
        limits: ServingLimits = _LIMITS,
        questions: Handlers | None = None,
    ) -> None:
        limits = replace(limits, body_bytes=min(limits.body_bytes, _BODY_BYTES_MAX))
        super().__init__(host, port, tls, limits)
        self._board = board
        self._clock = clock
        self._questions = questions
        posts = [] if questions is None else [f"{_API}/{path}" for path in questions.posted()]
        shown_to = gate or ShutGate()
        self._sessions = Sessions(shown_to, clock)
        self._guard = Guard(shown_to, self._sessions, posts, lambda: board.moment)

    def app(self) -> web.Application:
        app = web.Application(middlewares=[self._guard.judged])
        app.router.add_get(f"{_API}/stream", self._stream)
        app.router.add_get(f"{_API}/whoami", self._whoami)
        add_login(app, self._sessions, _API, self.connections.body)
        if self._questions is not None:
            add_questions(app, self._questions, _API, self.connections.body)
        app.router.add_get(f"{_API}/{{path:.+}}", self._answer)
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/", self._page)
        app.router.add_get("/{path:[a-zA-Z0-9_/.-]+}", self._page)
        return app

    def _namespaces(self) -> Iterator[str]:
        moment = self._board.moment
        keys = () if moment is None else moment.snapshot.jobs.keys
        return (key.partition("/")[0] for key in keys)

    async def _whoami(self, request: web.Request) -> web.Response:
        """Whose names are hidden from the reader."""
        veil = await self._guard.veil(request)
        hidden = [] if veil is None else [one for one in self._namespaces() if veil.hides(one)]
        told = {
            "sees_all": not hidden,
            "jobs": len(hidden),
            "namespaces": len(set(hidden)),
            "session": bool(self._sessions.token(request)),
        }
        return web.json_response(told, headers={"cache-control": "no-store"})

    async def _answer(self, request: web.Request) -> web.Response:
        path, query = request.match_info["path"], dict(request.query)
        board = self._board
        if not is_known(path):
            return problem(404, "NotFound", f"There is nothing at {request.path}.")
        is_by_name = path == "names" or guesses(query)
        veil = await self._guard.veil(request) if is_by_name else None
        visible = None if veil is None else veil.visible
        asked = f"{request.raw_path} {'' if visible is None else sorted(visible)}"
        try:
            made = board.answer(
                asked,
                lambda now: answer(now, path, query, board.cluster, visible, board.ailments),
            )
        except NotThere as missing:
            return problem(404, "NotFound", str(missing), missing.because)
        except BadQuestion as wrong:
            known = f"Known are {', '.join(wrong.known)}." if wrong.known else ""
            return problem(400, wrong.code, str(wrong), then=known)
        return self._json(made)

    def _json(self, body: bytes | None) -> web.Response:
        if body is None:
            answer = problem(503, "NotReady", "The cluster is being read.", then="Ask again.")
            answer.headers["retry-after"] = "1"
            return answer
        found = web.Response(body=body, content_type="application/json")
        found.headers["cache-control"] = "no-store"
        found.enable_compression()
        return found

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        """Server-sent events: what changed, at most as often as the board changes."""
        answer = web.StreamResponse(
            headers={
                "content-type": "text/event-stream",
                "cache-control": "no-store",
                "x-accel-buffering": "no",
            }
        )
        await answer.prepare(request)
        last = request.headers.get("last-event-id", request.query.get("since", ""))
        moment = self._board.moment
        seen = int(last) if last.isdecimal() and len(last) < 10 else None
        if seen is None:
            seen = -1 if moment is None else moment.revision
        with suppress(ConnectionResetError):  # the reader went
            while not self._stopped.is_set():
                seen = await self._tell(request, answer, seen)
                await self._rest()
                if await self._guard.refusal(request) is not None:
                    break  # the token has ended
        return answer

    async def _tell(self, request: web.Request, answer: web.StreamResponse, seen: int) -> int:
        """What the reader has not heard, or that it is still there; the revision it knows then."""
        moment = self._board.moment
        missed = self._board.since(seen)
        if missed is None or len(missed) > _BEHIND_MAX:
            revision = moment.revision if moment is not None else seen
            await self._send(request, answer, "reset", b"{}", revision)
            return revision
        for told in missed:
            await self._send(request, answer, "delta", told.data, told.revision)
            seen = told.revision
        if not missed:
            beat = msgspec.json.encode(
                {"at": self._clock.now_s(), "ailments": self._board.ailments}
            )
            await self._send(request, answer, "beat", beat, seen)
        return seen

    async def _send(
        self, request: web.Request, answer: web.StreamResponse, kind: str, data: bytes, rev: int
    ) -> None:
        veil = await self._guard.veil(request)
        if veil is not None:
            data = veil.over(data, {})
        data = with_called(data, self._board.moment)
        text = f"id: {rev}\nevent: {kind}\ndata: ".encode() + data + b"\n\n"
        await self.connections.send(request, answer, text)

    async def _rest(self) -> None:
        """Until there is news, or it is time to say that there is none."""
        waits = [
            asyncio.ensure_future(self._board.news()),
            asyncio.ensure_future(self._stopped.wait()),
        ]
        try:
            await asyncio.wait(waits, timeout=_BEAT_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _healthz(self, _: web.Request) -> web.Response:
        if self._board.moment is None:
            return web.Response(status=503, text="the cluster is being read\n")
        return web.Response(text="ok\n")

    async def _page(self, request: web.Request) -> web.Response:
        path = request.match_info.get("path", "") or "index.html"
        parts = path.split("/")
        if ".." in parts:
            raise web.HTTPNotFound
        found = _STATIC.joinpath(*parts)
        if not found.is_file():
            raise web.HTTPNotFound
        kind = _TYPES.get(path.rpartition(".")[2], "text/plain; charset=utf-8")
        answer = web.Response(body=found.read_bytes(), headers={"content-type": kind})
        answer.headers["cache-control"] = "no-cache"
        answer.enable_compression()
        return answer
