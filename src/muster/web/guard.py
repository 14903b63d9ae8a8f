"""Who may look: this machine, or who shows a token; and no page of another site on their behalf.

A browser sends what a page of the web asks for to this machine too. Such a request names another
origin, or comes under a name that is not ours (DNS rebinding): both are refused before anything is
looked up.
"""

from collections.abc import Iterable

from aiohttp import web
from aiohttp.typedefs import Handler

from muster.runtime.page_access import Gate, is_local, page_request

OPEN_PATHS = frozenset({"/healthz"})
_SAME_SITE = frozenset({"same-origin", "none", ""})
_METHODS = frozenset({"GET", "HEAD"})
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types lit-html"
)
HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class Guard:
    """Middleware in front of every handler. `posts`: the paths that take a POST."""

    def __init__(self, gate: Gate, posts: Iterable[str] = ()) -> None:
        self._gate = gate
        self._posts = frozenset(posts)

    @web.middleware
    async def judged(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        refused = await self.refusal(request)
        answer = refused if refused is not None else await _answered(request, handler)
        if not answer.prepared:
            answer.headers.update(HEADERS)
        return answer

    async def refusal(self, request: web.Request) -> web.Response | None:
        """What to answer instead; None: let in."""
        if request.method not in _METHODS and request.path not in self._posts:
            return problem(405, "MethodNotAllowed", "This server only answers questions.")
        if not _is_from_here(request):
            return problem(
                403, "OtherOrigin", "A page of another site asked for this.", "It is refused."
            )
        if request.path in OPEN_PATHS or is_local(request):
            return None
        refusal = await self._gate.refusal(page_request(request))
        if refusal is None:
            return None
        code = "Unauthorized" if refusal.status == 401 else "Forbidden"
        return problem(refusal.status, code, refusal.text)


async def _answered(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPNotFound:
        return problem(404, "NotFound", f"There is nothing at {request.path}.")
    except web.HTTPMethodNotAllowed:
        return problem(405, "MethodNotAllowed", "This server only answers questions.")
    except web.HTTPRequestEntityTooLarge:
        return problem(413, "TooLarge", "What was sent is larger than 1 MiB.")


def problem(
    status: int, code: str, message: str, because: str = "", then: str = ""
) -> web.Response:
    """An error as people and programs read it."""
    error = {"code": code, "message": message, "because": because, "next": then}
    return web.json_response({"error": error}, status=status)


def _is_from_here(request: web.Request) -> bool:
    """Whether no other site has a browser ask this."""
    if request.headers.get("sec-fetch-site", "") not in _SAME_SITE:
        # Somebody followed a link to a page of ours: that shows the other site nothing.
        is_visit = request.headers.get("sec-fetch-mode") == "navigate"
        if not (is_visit and request.method == "GET"):
            return False
    origin = request.headers.get("origin", "")
    return not origin or origin.partition("://")[2] == request.host
