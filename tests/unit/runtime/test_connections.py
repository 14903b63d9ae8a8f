"""What anybody who reaches the port of a server may do to it, and others be answered meanwhile."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from tests.support.certificates import Authority, serving

from muster.runtime.connections import ServingLimits, Tls
from muster.runtime.httpd import HttpPart

pytestmark = pytest.mark.timeout(60)

AUTHORITY = Authority()
_QUICK = ServingLimits(read_s=0.8, write_s=0.8, idle_s=0.8, body_bytes=1 << 20)
_HALF = b"POST /review HTTP/1.1\r\nhost: a\r\ncontent-length: 1000\r\n\r\n" + b"x" * 10
_WHOLE = b"POST /review HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\nhi"

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Echo(HttpPart):
    """Answers with the size of what it was sent, and with as many bytes as it is asked for."""

    name = "echo"

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/review", self._review)
        app.router.add_get("/much", self._much)
        return app

    async def _review(self, request: web.Request) -> web.Response:
        return web.Response(text=str(len(await self.connections.body(request))))

    async def _much(self, _: web.Request) -> web.Response:
        return web.Response(body=b"x" * (64 << 20))


@asynccontextmanager
async def running(
    limits: ServingLimits, tls: Tls | None = None, kind: type[Echo] = Echo
) -> AsyncIterator[Echo]:
    server = kind("127.0.0.1", 0, tls, limits)
    task = asyncio.create_task(server.run())
    await server.listening.wait()
    yield server
    server.stop()
    await task
    assert len(server.connections) == 0
    assert server.connections.held_bytes == 0


@asynccontextmanager
async def opened(server: Echo, count: int, first: bytes) -> AsyncIterator[list[Stream]]:
    """So many connections that say `first` and then nothing."""
    async with AsyncExitStack() as stack:
        streams = []
        for _ in range(count):
            stream = await asyncio.open_connection("127.0.0.1", server.port)
            stack.callback(stream[1].close)
            stream[1].write(first)
            streams.append(stream)
        yield streams


@asynccontextmanager
async def expected(what: str) -> AsyncIterator[None]:
    """What never comes is said, and not waited for."""
    try:
        async with asyncio.timeout(20):
            yield
    except TimeoutError:
        raise AssertionError(f"not so after 20 s: {what}") from None


async def until_closed(reader: asyncio.StreamReader) -> bytes:
    async with expected("the connection is closed"):
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""


async def until(so: Callable[[], bool], what: str) -> None:
    async with expected(what):
        while not so():  # noqa: ASYNC110 - a socket tells nobody
            await asyncio.sleep(0.01)


async def answer(server: Echo, said: bytes = _WHOLE) -> bytes:
    """What a fresh connection is answered; it closes after that."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(said.replace(b"host: a\r\n", b"host: a\r\nconnection: close\r\n"))
    try:
        return await until_closed(reader)
    finally:
        writer.close()


@pytest.mark.parametrize(
    "first",
    [b"", b"POST /rev", b"POST /review HTTP/1.1\r\nhost: a\r\n", _HALF],
    ids=["nothing", "half a line", "half the headers", "half the body"],
)
async def test_two_hundred_half_sent_requests_are_closed_and_a_whole_one_is_answered(
    first: bytes,
) -> None:
    async with running(_QUICK) as server, opened(server, 200, first) as streams:
        assert (await answer(server)).endswith(b"\r\n\r\n2")
        ends = await asyncio.gather(*(until_closed(reader) for reader, _ in streams))
        assert ends == [b""] * 200
        assert server.connections.cut_off["reading"] == 200


async def test_a_byte_now_and_then_buys_no_time() -> None:
    async with running(_QUICK) as server, opened(server, 1, _HALF) as [(reader, writer)]:

        async def drip() -> None:
            while not writer.is_closing():
                writer.write(b"x")
                await asyncio.sleep(0.02)

        dripping = asyncio.create_task(drip())
        assert await until_closed(reader) == b""
        dripping.cancel()


async def test_a_tls_handshake_that_does_not_go_on_is_given_up(tmp_path: Path) -> None:
    tls = serving(tmp_path, AUTHORITY.signed("127.0.0.1"))
    async with running(_QUICK, lambda: tls) as server, opened(server, 50, b"\x16\x03") as streams:
        trust = ssl.create_default_context(cadata=AUTHORITY.certificate.decode())
        async with aiohttp.ClientSession() as session:
            url = f"https://127.0.0.1:{server.port}/review"
            async with session.post(url, data=b"hi", ssl=trust) as told:
                assert await told.text() == "2"
        await asyncio.gather(*(until_closed(reader) for reader, _ in streams))
        assert server.connections.cut_off["handshake"] == 50


async def test_the_connection_that_has_waited_longest_makes_room_for_a_new_one() -> None:
    patient = replace(_QUICK, read_s=1000.0, connections=10)
    async with running(patient) as server, opened(server, 10, _HALF) as streams:
        assert (await answer(server)).endswith(b"\r\n\r\n2")
        assert await until_closed(streams[0][0]) == b""
        assert server.connections.cut_off == {"connections": 1}


async def test_an_idle_connection_is_kept_for_a_while_and_then_closed() -> None:
    async with running(_QUICK) as server, opened(server, 1, _WHOLE) as [(reader, writer)]:
        assert (await reader.readuntil(b"\r\n\r\n2")).startswith(b"HTTP/1.1 200")
        writer.write(_WHOLE)
        assert (await reader.readuntil(b"\r\n\r\n2")).startswith(b"HTTP/1.1 200")
        assert await until_closed(reader) == b""
        assert server.connections.cut_off == {"idle": 1}


async def test_a_connection_ends_with_an_answer_when_it_is_old() -> None:
    aged = replace(_QUICK, idle_s=1000.0, age_s=0.0)
    async with running(aged) as server, opened(server, 1, _WHOLE) as [(reader, _)]:
        assert b"Connection: close" in await until_closed(reader)


async def test_whoever_comes_while_it_leaves_is_answered_and_sent_elsewhere() -> None:
    leaving = replace(_QUICK, idle_s=1000.0, leave_s=1000.0)
    server = Echo("127.0.0.1", 0, None, leaving)
    task = asyncio.create_task(server.run())
    await server.listening.wait()
    async with opened(server, 1, _WHOLE) as [(reader, writer)]:
        assert b"Connection: close" not in await reader.readuntil(b"\r\n\r\n2")
        server.stop()
        writer.write(_WHOLE)
        assert b"Connection: close" in await until_closed(reader)
    async with opened(server, 1, _WHOLE) as [(reader, _)]:
        assert b"Connection: close" in await until_closed(reader)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_client_that_does_not_take_its_answer_is_cut_off() -> None:
    get = b"GET /much HTTP/1.1\r\nhost: a\r\n\r\n"
    async with running(_QUICK) as server, opened(server, 1, get) as [(reader, _)]:
        await until(lambda: server.connections.cut_off["writing"] == 1, "the client is cut off")
        assert len(await until_closed(reader)) < 64 << 20


@pytest.mark.parametrize("is_announced", [True, False])
async def test_a_body_above_its_limit_is_refused(is_announced: bool) -> None:
    body = b"x" * (2 << 20)
    announced = b"content-length: %d\r\n\r\n" % len(body)
    chunked = b"transfer-encoding: chunked\r\n\r\n%x\r\n" % len(body)
    head = b"POST /review HTTP/1.1\r\nhost: a\r\n"
    async with running(_QUICK) as server:
        said = await answer(server, head + (announced if is_announced else chunked + body))
        assert said.startswith(b"HTTP/1.1 413")
        assert b"the body is larger than the 1048576 bytes allowed" in said


async def test_bodies_of_all_connections_share_one_budget_and_the_slowest_gives_way() -> None:
    limits = replace(_QUICK, read_s=1000.0, budget_bytes=1 << 20)
    most = b"POST /review HTTP/1.1\r\nhost: a\r\ncontent-length: 999999\r\n\r\n" + b"x" * 300_000
    async with running(limits) as server, opened(server, 3, most) as streams:
        await until(lambda: server.connections.held_bytes == 900_000, "the bodies are held")
        whole = b"POST /review HTTP/1.1\r\nhost: a\r\ncontent-length: 800000\r\n\r\n"
        assert (await answer(server, whole + b"x" * 800_000)).endswith(b"800000")
        assert server.connections.cut_off["bytes"] >= 2
        assert await until_closed(streams[0][0]) == b""


@pytest.mark.parametrize(
    "said",
    [
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\nx: " + b"a" * 100_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\n" + b"x: y\r\n" * 10_000 + b"\r\n",
        b"G" * 100_000 + b" / HTTP/1.1\r\nhost: a\r\n\r\n",
        b"\x00" * 100_000,
    ],
    ids=["path", "header", "headers", "method", "noise"],
)
async def test_absurd_requests_are_refused_and_closed(said: bytes) -> None:
    async with running(_QUICK) as server:
        assert (await answer(server, said)).startswith((b"HTTP/1.0 400", b"HTTP/1.1 400"))
        assert (await answer(server)).endswith(b"\r\n\r\n2")


async def test_a_packed_body_is_not_unpacked() -> None:
    packed = (
        b"POST /review HTTP/1.1\r\nhost: a\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\nhi"
    )
    async with running(_QUICK) as server:
        assert (await answer(server, packed)).endswith(b"\r\n\r\n2")


async def test_the_second_request_of_a_connection_has_no_more_time_to_be_sent_than_the_first() -> (
    None
):
    patient = replace(_QUICK, idle_s=1000.0, read_s=0.3)
    async with running(patient) as server, opened(server, 1, _WHOLE) as [(reader, writer)]:
        await reader.readuntil(b"\r\n\r\n2")
        writer.write(_HALF)
        assert await asyncio.wait_for(until_closed(reader), 10) == b""
        assert server.connections.cut_off == {"reading": 1}


class Thinking(Echo):
    """Answers when it is told to."""

    def __init__(self, *settings: Any) -> None:
        super().__init__(*settings)
        self.may_answer = asyncio.Event()

    async def _review(self, request: web.Request) -> web.Response:
        size = len(await self.connections.body(request))
        await self.may_answer.wait()
        return web.Response(text=str(size))


async def test_bytes_of_requests_that_are_being_answered_count_against_the_budget() -> None:
    """Two that are thought about leave no room for a third, which is told so at once."""
    limits = replace(_QUICK, read_s=1000.0, budget_bytes=1 << 20)
    body = b"POST /review HTTP/1.1\r\nhost: a\r\ncontent-length: 500000\r\n\r\n" + b"x" * 500_000
    async with running(limits, kind=Thinking) as server, opened(server, 2, body) as streams:
        await until(lambda: server.connections.held_bytes == 1_000_000, "the bodies are held")
        assert (await answer(server, body)).startswith(b"HTTP/1.1 503")
        assert server.connections.held_bytes == 1_000_000
        assert isinstance(server, Thinking)
        server.may_answer.set()
        for reader, _ in streams:
            assert (await reader.readuntil(b"500000")).startswith(b"HTTP/1.1 200")
        await until(lambda: server.connections.held_bytes == 0, "nothing is held")
        assert not server.connections.cut_off
