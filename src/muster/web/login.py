"""Logging in and out, as paths of the API: a browser shows a token once and gets a cookie."""

from collections.abc import Awaitable, Callable

from aiohttp import web

from muster.web.guard import problem, refused
from muster.web.sessions import BadLogin, Sessions


def add_login(
    app: web.Application,
    sessions: Sessions,
    api: str,
    body: Callable[[web.Request], Awaitable[bytes]],
) -> None:
    """`login` begins a session, `login-code` gives a code for another browser, `logout` ends it."""

    async def login(request: web.Request) -> web.Response:
        def begun(token: str) -> web.Response:
            answer = _done({})
            sessions.begin(token, answer, _is_tls(request))
            return answer

        return await _for_token(sessions, await body(request), begun)

    async def code(request: web.Request) -> web.Response:
        def made(token: str) -> web.Response:
            return _done({"code": sessions.code(token)})

        return await _for_token(sessions, await body(request), made)

    async def logout(request: web.Request) -> web.Response:
        answer = _done({})
        sessions.end(request, answer, _is_tls(request))
        return answer

    app.router.add_post(f"{api}/login", login)
    app.router.add_post(f"{api}/login-code", code)
    app.router.add_post(f"{api}/logout", logout)


async def _for_token(
    sessions: Sessions, body: bytes, make: Callable[[str], web.Response]
) -> web.Response:
    try:
        shown = await sessions.proven(body)
    except BadLogin as wrong:
        return problem(400, "BadLogin", str(wrong))
    return make(shown) if isinstance(shown, str) else refused(shown.status, shown.text)


def _done(told: dict[str, str]) -> web.Response:
    return web.json_response(told, headers={"cache-control": "no-store"})


def _is_tls(request: web.Request) -> bool:
    """Whether the browser speaks TLS, to us or to the proxy before us."""
    return request.secure or request.headers.get("x-forwarded-proto", "") == "https"
