"""The HTTP server of the dashboard: the API under /api/v1, its stream, and the pages."""

import asyncio
from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import Any

import msgspec
from aiohttp import web

from muster.base.clock import Clock
from muster.runtime.connections import ServingLimits, Tls
from muster.runtime.httpd import HttpPart
from muster.runtime.page_access import Gate, ShutGate
from muster.web.board import Board
from muster.web.guard import Guard, problem
from muster.web.moment import Moment
from muster.web.views import jobs as job_views
from muster.web.views.nodes import gpu_map, node, nodes
from muster.web.views.queues import queues
from muster.web.views.status import status

_API = "/api/v1"
_BEAT_S = 10.0
_BEHIND_MAX = 4
_PAGE = 200
_PAGE_MAX = 1000
_BODY_BYTES_MAX = 1 << 20
_STATIC = files("muster.web") / "static"
_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}
_LIMITS = ServingLimits()

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


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
    ) -> None:
        super().__init__(host, port, tls, limits)
        self._board = board
        self._clock = clock
        self._guard = Guard(gate or ShutGate())

    def app(self) -> web.Application:
        app = web.Application(middlewares=[self._guard.judged], client_max_size=_BODY_BYTES_MAX)
        cluster = self._board.cluster
        views: dict[str, Callable[[Moment], Any]] = {
            "status": lambda moment: status(moment, cluster),
            "queues": lambda moment: _items("QueueList", moment, queues(moment)),
            "nodes": lambda moment: _items("NodeList", moment, nodes(moment)),
            "shapes": lambda moment: _items("ShapeList", moment, job_views.shapes(moment)),
            "map": gpu_map,
        }
        for name, view in views.items():
            app.router.add_get(f"{_API}/{name}", self._answering(name, view))
        app.router.add_get(f"{_API}/queues/{{name}}", self._queue)
        app.router.add_get(f"{_API}/nodes/{{name}}", self._node)
        app.router.add_get(f"{_API}/jobs", self._jobs)
        app.router.add_get(f"{_API}/jobs/{{namespace}}/{{name}}", self._job)
        app.router.add_get(f"{_API}/stream", self._stream)
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/", self._page)
        app.router.add_get("/{path:[a-zA-Z0-9_/.-]+}", self._page)
        return app

    def _answering(self, name: str, view: Callable[[Moment], Any]) -> Handler:
        async def answer(request: web.Request) -> web.Response:
            return self._json(self._board.answer(name, view))

        return answer

    async def _queue(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        return self._one(
            f"queues/{name}",
            lambda moment: next((found for found in queues(moment) if found.name == name), None),
        )

    async def _node(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        return self._one(f"nodes/{name}", lambda moment: node(moment, name))

    async def _job(self, request: web.Request) -> web.Response:
        key = f"{request.match_info['namespace']}/{request.match_info['name']}"
        return self._one(f"jobs/{key}", lambda moment: job_views.job_page(moment, key))

    async def _jobs(self, request: web.Request) -> web.Response:
        asked = dict(request.query)
        sort, limit, start = asked.pop("sort", ""), asked.pop("limit", ""), asked.pop("cursor", "")
        unknown = sorted(asked.keys() - set(job_views.Filter.names()))
        if unknown:
            known = ", ".join((*job_views.Filter.names(), "sort", "limit", "cursor"))
            return problem(400, "UnknownField", f"{unknown[0]} is no field of a job.", then=known)
        if sort.removeprefix("-") not in ("", *job_views.SORTS):
            known = ", ".join(job_views.SORTS)
            return problem(400, "UnknownField", f"Jobs are not sorted by {sort}.", then=known)
        first, most = _number(start, 0), _number(limit, _PAGE)
        if first is None or most is None:
            return problem(400, "NotANumber", "limit and cursor are whole numbers.")
        wanted = job_views.Filter(**asked)

        def page(moment: Moment) -> Any:
            found = job_views.jobs(moment, wanted, sort)
            end = first + min(most or _PAGE_MAX, _PAGE_MAX)
            following = str(end) if end < len(found) else ""
            items = _items("JobList", moment, found[first:end])
            return items | {"total": len(found), "next": following}

        return self._json(self._board.answer(f"jobs?{request.query_string}", page))

    def _one(self, name: str, view: Callable[[Moment], Any]) -> web.Response:
        """A view of one thing, which may not be there."""
        moment = self._board.moment
        found = None if moment is None else view(moment)
        if moment is not None and found is None:
            return problem(404, "NotFound", f"There is no {name}.", "It may have ended.")
        return self._json(None if found is None else msgspec.json.encode(found))

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
        seen = _number(last, -1)
        if seen is None or seen < 0:
            seen = -1 if moment is None else moment.revision
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
            beat = msgspec.json.encode({"at": self._clock.now_s()})
            await self._send(request, answer, "beat", beat, seen)
        return seen

    async def _send(
        self, request: web.Request, answer: web.StreamResponse, kind: str, data: bytes, rev: int
    ) -> None:
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


def _items(kind: str, moment: Moment, items: list[Any]) -> dict[str, Any]:
    """The frame of every list."""
    return {
        "kind": kind,
        "version": 1,
        "at": moment.at_s,
        "rev": moment.revision,
        "items": items,
    }


def _number(text: str, otherwise: int) -> int | None:
    if not text:
        return otherwise
    return int(text) if text.isdecimal() and len(text) < 10 else None
