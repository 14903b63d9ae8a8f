"""Who may look: this machine, or who shows a token; and no page of another site on their behalf.

A browser sends what a page of the web asks for to this machine too. Such a request names another
origin, or comes under a name that is not ours (DNS rebinding): both are refused before anything is
looked up.
"""

import hashlib
import secrets
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, Protocol, runtime_checkable

from aiohttp import web
from aiohttp.typedefs import Handler

from muster.api.kinds import POD_GROUP
from muster.runtime.page_access import Gate, PageRequest, ShutGate, is_local, page_request
from muster.web.called import with_called
from muster.web.hidden_names import hidden_names, namespaces
from muster.web.moment import Moment
from muster.web.sessions import Sessions
from muster.web.veil import Veil

ROLE_PREFIX: Final = "/dashboard"
"""Before our paths where roles name them: Kubernetes lets everybody with an account get /api/* of
its own (the ClusterRole system:discovery), and would let them read ours."""
OPEN_PATHS = frozenset({"/healthz"})
LOGIN_PATHS: Final = tuple(f"/api/v1/{name}" for name in ("login", "login-code", "logout"))
"""For whoever is not known yet; each of them judges by itself what is sent."""
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
    """Middleware in front of every handler. `posts`: the paths that take a POST beside those of
    logging in; `namespaces`: those that there are."""

    def __init__(
        self,
        gate: Gate,
        sessions: Sessions,
        posts: Iterable[str] = (),
        moment: Callable[[], Moment | None] = lambda: None,
    ) -> None:
        self._gate = gate
        self._sessions = sessions
        self._posts = frozenset((*posts, *LOGIN_PATHS))
        self._moment = moment
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
        token = self._asked(request).token
        group, plural = POD_GROUP.group, POD_GROUP.plural
        if await self._gate.may_list(token, group, plural, ""):
            return None
        moment = self._moment()
        if moment is None:
            return Veil(frozenset(), self._veil_key)
        seen = [
            namespace
            for namespace in sorted(namespaces(moment))
            if await self._gate.may_list(token, group, plural, namespace)
        ]
        visible = frozenset(seen)
        return Veil(visible, self._veil_key, hidden_names(moment, visible))

    async def _veiled(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        is_answer = request.path.startswith(_ANSWERS) and request.path not in LOGIN_PATHS
        if request.path in OPEN_PATHS or not is_answer:
            return await _answered(request, handler)
        veil = await self.veil(request)
        named = _job_of(request)
        if veil is not None and named and veil.hides(named):
            return problem(
                403,
                "Hidden",
                f"You may not see jobs of namespace {named.partition('/')[0]}.",
                "Names are for those who may list podgroups there.",
            )
        answer = await _answered(request, handler)
        is_json = answer.content_type == "application/json" and not answer.prepared
        if is_json and isinstance(answer, web.Response) and isinstance(answer.body, bytes):
            body = answer.body if veil is None else veil.over(answer.body, request.query)
            answer.body = with_called(body, self._moment())
        return answer

    async def refusal(self, request: web.Request) -> web.Response | None:
        """What to answer instead; None: let in."""
        if request.method not in _METHODS and request.path not in self._posts:
            return problem(405, "MethodNotAllowed", "This server only answers questions.")
        if not _is_from_here(request):
            return problem(
                403, "OtherOrigin", "A page of another site asked for this.", "It is refused."
            )
        if request.path in OPEN_PATHS or is_local(request) or self._is_for_strangers(request.path):
            return None
        refusal = await self._gate.refusal(self._asked(request))
        return None if refusal is None else refused(refusal.status, refusal.text)

    def _asked(self, request: web.Request) -> PageRequest:
        """With the token of the request, or that of the browser's session."""
        asked = page_request(request)
        return asked if asked.token else replace(asked, token=self._sessions.token(request))

    def _is_for_strangers(self, path: str) -> bool:
        """The page on which they log in, where that is possible, and its code: it holds nothing."""
        if isinstance(self._gate, ShutGate):
            return False
        return path in LOGIN_PATHS or not path.startswith(_ANSWERS)


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


def refused(status: int, text: str) -> web.Response:
    """As a gate says it."""
    if status == 401:
        return problem(401, "Unauthorized", text, then="Log in with a token.")
    return problem(status, "Forbidden", text)


def _is_from_here(request: web.Request) -> bool:
    """Whether no other site has a browser ask this."""
    if request.headers.get("sec-fetch-site", "") not in _SAME_SITE:
        # Somebody followed a link to a page of ours: that shows the other site nothing.
        is_visit = request.headers.get("sec-fetch-mode") == "navigate"
        if not (is_visit and request.method == "GET"):
            return False
    origin = request.headers.get("origin", "")
    return not origin or origin.partition("://")[2] == request.host
