"""A browser on another machine logs in with a token once, and goes on with a cookie."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from tests.support.moments import moment_of

from muster.base.clock import SystemClock
from muster.runtime.page_access import PageRequest, Refusal
from muster.testing import make
from muster.web.board import Board
from muster.web.server import WebPart
from muster.web.sessions import COOKIE

_AWAY = {"x-forwarded-for": "192.0.2.7"}
_STATUS = "/api/v1/status"


class _Clock(SystemClock):
    """Goes on, and is put forward."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def advance(self, seconds: float) -> None:
        self.ahead_s += seconds

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.ahead_s


class _Gate:
    """Knows some tokens, until they end."""

    def __init__(self) -> None:
        self.known = {"word"}

    async def refusal(self, asked: PageRequest) -> Refusal | None:
        return None if asked.token in self.known else Refusal(401, "who are you?")


@asynccontextmanager
async def _browser(gate: _Gate | None) -> AsyncIterator[tuple[aiohttp.ClientSession, _Clock]]:
    """It comes from another machine, and keeps cookies as browsers do."""
    board, clock = Board("company"), _Clock()
    board.show(moment_of(make.cluster(make.node("n1", gpu=8))), b"{}")
    part = WebPart("127.0.0.1", 0, board, clock, gate)
    running = asyncio.create_task(part.run())
    await part.listening.wait()
    jar = aiohttp.CookieJar(unsafe=True)  # cookies of addresses too
    base = f"http://127.0.0.1:{part.port}"
    async with aiohttp.ClientSession(base, cookie_jar=jar, headers=_AWAY) as session:
        yield session, clock
    part.stop()
    await running


async def _login(session: aiohttp.ClientSession, **given: str) -> int:
    async with session.post("/api/v1/login", json=given) as answer:
        return answer.status


async def _status(session: aiohttp.ClientSession, path: str = _STATUS) -> int:
    async with session.get(path) as answer:
        return answer.status


async def test_a_token_is_shown_once_and_the_cookie_is_no_scripts_and_no_other_sites() -> None:
    async with _browser(_Gate()) as (session, _):
        assert await _status(session) == 401
        async with session.post("/api/v1/login", json={"token": "word"}) as answer:
            cookie = answer.headers["set-cookie"]
        assert "HttpOnly; SameSite=Strict" in cookie
        assert "word" not in cookie
        assert "Path" not in cookie  # below /api/v1 alone
        assert await _status(session) == 200
        async with session.get("/api/v1/whoami") as answer:
            assert (await answer.json())["session"] is True


async def test_behind_tls_the_cookie_goes_nowhere_else() -> None:
    async with _browser(_Gate()) as (session, _):
        tls = {"x-forwarded-proto": "https"}
        async with session.post("/api/v1/login", json={"token": "word"}, headers=tls) as answer:
            assert answer.headers["set-cookie"].endswith("; Secure")


async def test_the_page_to_log_in_is_for_everybody_and_answers_are_not() -> None:
    async with _browser(_Gate()) as (session, _):
        assert [await _status(session, path) for path in ("/", "/app.js")] == [200, 200]
        assert [await _status(session, f"/api/v1/{one}") for one in ("jobs", "stream")] == [401] * 2
    async with _browser(None) as (session, _):
        assert [await _status(session, path) for path in ("/", _STATUS)] == [403, 403]
        assert await _login(session, token="word") == 403


async def test_whoever_logs_out_has_to_log_in_again() -> None:
    async with _browser(_Gate()) as (session, _):
        assert await _login(session, token="word") == 200
        (kept,) = [one.value for one in session.cookie_jar]
        async with session.post("/api/v1/logout") as answer:
            assert "Max-Age=0" in answer.headers["set-cookie"]
        assert await _status(session) == 401
        old = {"cookie": f"{COOKIE}={kept}"}
        async with session.get(_STATUS, headers=old) as answer:
            assert answer.status == 401


async def test_a_session_ends_with_its_token_and_after_half_a_day() -> None:
    gate = _Gate()
    async with _browser(gate) as (session, clock):
        assert await _login(session, token="word") == 200
        clock.advance(11 * 3600)
        assert await _status(session) == 200
        gate.known.clear()
        assert await _status(session) == 401
        gate.known.add("word")
        clock.advance(2 * 3600)
        assert await _status(session) == 401


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"token": "wrong"}', 401),
        (b'{"code": "made-up"}', 401),
        (b"{}", 401),
        (b'{"tokens": "word"}', 400),
        (b"\xff", 400),
        (b'{"token": "' + b"x" * 20_000 + b'"}', 400),
        (b"x" * (2 << 20), 413),
    ],
)
async def test_what_is_no_login_is_refused(body: bytes, status: int) -> None:
    async with _browser(_Gate()) as (session, _):
        answer = await session.post("/api/v1/login", data=body)
        assert answer.status == status
        assert "set-cookie" not in answer.headers
        assert "error" in await answer.json()


async def test_no_other_site_logs_a_browser_in_or_uses_its_session() -> None:
    async with _browser(_Gate()) as (session, _):
        evil = {"origin": "http://evil.example"}
        for path in ("login", "logout", "login-code"):
            given = {"token": "word"}
            async with session.post(f"/api/v1/{path}", json=given, headers=evil) as answer:
                assert answer.status == 403
        assert await _login(session, token="word") == 200
        async with session.get(_STATUS, headers={"sec-fetch-site": "cross-site"}) as answer:
            assert answer.status == 403


async def test_a_code_is_good_for_one_login_within_a_minute() -> None:
    async with _browser(_Gate()) as (session, clock):

        async def code() -> str:
            async with session.post("/api/v1/login-code", json={"token": "word"}) as answer:
                return str((await answer.json())["code"])

        first = await code()
        assert await _login(session, code=first) == 200
        assert await _login(session, code=first) == 401
        late = await code()
        clock.advance(61)
        assert await _login(session, code=late) == 401
