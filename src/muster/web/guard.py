"""Who may look: this machine, or who shows a token; and no page of another site on their behalf.

A browser sends what a page of the web asks for to this machine too. Such a request names another
origin, or comes under a name that is not ours (DNS rebinding): both are refused before anything is
looked up.
"""

import hashlib
import secrets
from collections.abc import Callable, Iterable
from typing import Protocol, runtime_checkable

from aiohttp import web
from aiohttp.typedefs import Handler

from muster.api.kinds import POD_GROUP
from muster.runtime.page_access import Gate, is_local, page_request
from muster.web.veil import Veil

OPEN_PATHS = frozenset({"/healthz"})
_ANSWERS = ("/api/", "/get-job-order")
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


@runtime_checkable
class NamesGate(Protocol):
    """A gate that also knows whose jobs somebody may see by name."""

    async def may_list(self, token: str, group: str, resource: str, namespace: str) -> bool: ...


class Guard:
    """Middleware in front of every handler. `posts`: the paths that take a POST; `namespaces`:
    those that there are."""

    def __init__(
        self,
        gate: Gate,
        posts: Iterable[str] = (),
        namespaces: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self._gate = gate
        self._posts = frozenset(posts)
        self._namespaces = namespaces
        self._veil_key = secrets.token_bytes(16)

    @web.middleware
    async def judged(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        refused = await self.refusal(request)
        answer = refused if refused is not None else await self._veiled(request, handler)
        if not answer.prepared:
            answer.headers.update(HEADERS)
        return answer

    async def veil(self, request: web.Request) -> Veil | None:
        """What is laid over answers to this reader; None: all names may be seen."""
        if is_local(request) or not isinstance(self._gate, NamesGate):
            return None
        token = page_request(request).token
        group, plural = POD_GROUP.group, POD_GROUP.plural
        if await self._gate.may_list(token, group, plural, ""):
            return None
        seen = [
            namespace
            for namespace in sorted(set(self._namespaces()))
            if await self._gate.may_list(token, group, plural, namespace)
        ]
        return Veil(frozenset(seen), self._veil_key)

    async def _veiled(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path in OPEN_PATHS or not request.path.startswith(_ANSWERS):
            return await _answered(request, handler)
        veil = await self.veil(request)
        if veil is None:
            return await _answered(request, handler)
        named = _job_of(request)
        if named and veil.hides(named):
            return problem(
                403,
                "Hidden",
                f"You may not see jobs of namespace {named.partition('/')[0]}.",
                "Names are for those who may list podgroups there.",
            )
        answer = await _answered(request, handler)
        is_json = answer.content_type == "application/json" and not answer.prepared
        if is_json and isinstance(answer, web.Response) and isinstance(answer.body, bytes):
            answer.body = veil.over(answer.body, request.query)
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


def reader_of(request: web.Request) -> str:
    """Whose request it is, for sharing our time among readers: whose token it shows, or else the
    machine that it comes from."""
    token = page_request(request).token
    return hashlib.sha256(token.encode()).hexdigest() if token else request.remote or ""


def _job_of(request: web.Request) -> str:
    """The job that a question is about."""
    parts = request.path.removeprefix("/api/v1/").split("/")
    if len(parts) == 3 and parts[0] in ("jobs", "why", "when"):
        return f"{parts[1]}/{parts[2]}"
    return request.query.get("job", "")


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
