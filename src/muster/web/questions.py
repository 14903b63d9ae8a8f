"""Questions as paths of the API: what cannot be answered says what is wrong and what to do."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec
from aiohttp import web

from muster.engine.config.reader import ConfigError
from muster.foresight.journal.reader import NoJournal
from muster.foresight.plan import BadToken
from muster.foresight.why import NoSuchJob
from muster.usage.accounts import BadQuestion as BadUsageQuestion
from muster.usage.source import NoUsage
from muster.web.controllers import BadManifest
from muster.web.guard import problem, reader_of
from muster.web.handlers import Asked, Handlers
from muster.web.live import NotReady
from muster.web.policy_question import BadQuestion
from muster.web.turns import TooBusy

PROBLEMS: Final[Mapping[type[Exception], tuple[int, str, str]]] = {
    NoSuchJob: (404, "NotFound", "List jobs with GET /api/v1/jobs."),
    BadQuestion: (400, "BadRequest", "Correct the field that is named."),
    BadManifest: (400, "BadManifest", "Correct the field that is named."),
    ConfigError: (400, "BadConfiguration", "Correct the field that is named."),
    BadToken: (409, "PlanDoesNotHold", "Plan again."),
    NoJournal: (404, "NoJournal", "Start muster web with --journal-folder."),
    NoUsage: (404, "NoUsage", "Start the queue controller with --usage-in-cluster."),
    BadUsageQuestion: (400, "BadRequest", "Correct the field that is named."),
    TooBusy: (429, "TooBusy", "Ask again in a second."),
    NotReady: (503, "NotReady", "Ask again in a few seconds."),
}
_LATER: Final = frozenset({429, 503})


Body = Callable[[web.Request], Awaitable[bytes]]


def add_questions(app: web.Application, handlers: Handlers, api: str, body: Body) -> None:
    """One path for each. `body` reads what was sent, after which it is us who take time."""
    app.router.add_get("/get-job-order", _answering(handlers.job_order, body))
    for path, handler in handlers.routes().items():
        app.router.add_get(f"{api}/{path}", _answering(handler, body))
    for path, handler in handlers.posted().items():
        app.router.add_post(f"{api}/{path}", _answering(handler, body))


def _answering(
    handler: Callable[[Asked], Awaitable[Any]], read: Body
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def answer(request: web.Request) -> web.StreamResponse:
        body = await read(request) if request.method == "POST" else b""
        try:
            asked = Asked(request.match_info, request.query, body, reader_of(request))
            found = await handler(asked)
        except tuple(PROBLEMS) as why:
            return _refused(why)
        response = web.Response(body=msgspec.json.encode(found), content_type="application/json")
        response.headers["cache-control"] = "no-store"
        response.enable_compression()
        return response

    return answer


def _refused(why: Exception) -> web.Response:
    found = next(said for kind, said in PROBLEMS.items() if isinstance(why, kind))
    status, code, then = found
    answer = problem(status, code, str(why), then=then)
    if status in _LATER:
        answer.headers["retry-after"] = "1"
    return answer
