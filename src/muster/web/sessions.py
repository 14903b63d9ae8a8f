"""Browsers that showed a token once, and go on with a cookie.

The token stays here, in memory, and is judged anew with each request: a session ends with it, with
`logout`, after half a day, and with this process. The cookie is out of reach of scripts, sent to
no other site and on no other site's behalf, and only to the paths of the API.
"""

import secrets
from typing import Final

import msgspec
from aiohttp import web

from muster.base.clock import Clock
from muster.base.expiring import ExpiringMap
from muster.base.json_text import NotJson, parse_json
from muster.runtime.page_access import Gate, PageRequest, Refusal

COOKIE: Final = "muster_session"
_SESSION_S: Final = 12 * 3600.0
_CODE_S: Final = 60.0
_KEPT_MAX: Final = 1024
_TOKEN_MAX: Final = 16 << 10
_ASKED: Final = "/api/v1/status"
"""Whoever may get this may log in; each other path is judged when it is asked for."""


class Login(msgspec.Struct, forbid_unknown_fields=True):
    """One of the two: a token, or a code that somebody with a token was given."""

    token: str = ""
    code: str = ""


class BadLogin(Exception):
    """What was sent is no login."""


class Sessions:
    """Bounded however many log in."""

    def __init__(self, gate: Gate, clock: Clock) -> None:
        self._gate = gate
        self._tokens: ExpiringMap[str, str] = ExpiringMap(clock, _KEPT_MAX)
        self._codes: ExpiringMap[str, str] = ExpiringMap(clock, _KEPT_MAX)

    def token(self, request: web.Request) -> str:
        """Of the session that the browser is in; "": none, or it has ended."""
        return self._tokens.get(request.cookies.get(COOKIE, "")) or ""

    async def proven(self, body: bytes) -> str | Refusal:
        """The token that was shown, or why not."""
        try:
            given = parse_json(body, Login)
        except NotJson:
            raise BadLogin('write {"token": "..."} or {"code": "..."}') from None
        token = self._codes.pop(given.code) or "" if given.code else given.token.strip()
        if len(token) > _TOKEN_MAX:
            raise BadLogin("token: it is longer than tokens are")
        refusal = await self._gate.refusal(PageRequest("get", _ASKED, token))
        return refusal or token

    def begin(self, token: str, answer: web.Response, is_tls: bool) -> None:
        """The answer brings a cookie from now on."""
        name = secrets.token_urlsafe(32)
        self._tokens.put(name, token, _SESSION_S)
        answer.headers["set-cookie"] = _cookie(name, is_tls)

    def code(self, token: str) -> str:
        """Good for one login within a minute."""
        code = secrets.token_urlsafe(24)
        self._codes.put(code, token, _CODE_S)
        return code

    def end(self, request: web.Request, answer: web.Response, is_tls: bool) -> None:
        self._tokens.pop(request.cookies.get(COOKIE, ""))
        answer.headers["set-cookie"] = f"{_cookie('', is_tls)}; Max-Age=0"


def _cookie(value: str, is_tls: bool) -> str:
    # Without a path it is for the API alone, below whatever prefix a proxy serves us.
    return f"{COOKIE}={value}; HttpOnly; SameSite=Strict{'; Secure' if is_tls else ''}"
