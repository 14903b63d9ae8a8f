"""The dashboard's server: answers, the stream, and who is refused."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
import aiohttp.web
import msgspec
import pytest
from tests.support.moments import moment_of

from muster.base.clock import SystemClock
from muster.runtime.page_access import PageRequest, Refusal
from muster.testing import make
from muster.web import server as module
from muster.web.board import Board, difference
from muster.web.guard import HEADERS
from muster.web.moment import Moment
from muster.web.server import WebPart
from muster.web.shapes import Ailment

_WORLD = (make.node("n1", gpu=8), make.queue("a", quota_gpu=8))


def _moment(cycle: int = 1, *jobs: make.Workload) -> Moment:
    return moment_of(make.cluster(*_WORLD, *jobs), cycle)


def _show(board: Board, moment: Moment) -> None:
    board.show(moment, difference(board.moment, moment))


class _Gate:
    """Lets in whoever has the word."""

    def __init__(self) -> None:
        self.word = "open"

    async def refusal(self, asked: PageRequest) -> Refusal | None:
        return None if asked.token == self.word else Refusal(401, "who are you?")


@asynccontextmanager
async def _listening(board: Board, gate: Any = None) -> AsyncIterator[aiohttp.ClientSession]:
    part = WebPart("127.0.0.1", 0, board, SystemClock(), gate)
    running = asyncio.create_task(part.run())
    await part.listening.wait()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{part.port}") as session:
        yield session
    part.stop()
    await running


@pytest.fixture
def board() -> Board:
    shown = Board("laptop")
    _show(shown, _moment(1, make.gang("train", 4, gpu=1, queue="a", nodes=("n1",) * 4)))
    return shown


async def _asked(session: aiohttp.ClientSession, path: str, **options: Any) -> tuple[int, Any]:
    method = options.pop("method", "GET")
    async with session.request(method, path, **options) as answer:
        return answer.status, await answer.json()


async def test_before_the_cluster_is_read_nothing_is_made_up() -> None:
    async with _listening(Board()) as session:
        for path in ("status", "queues", "jobs", "nodes", "map", "shapes", "jobs/a/b"):
            status, told = await _asked(session, f"/api/v1/{path}")
            assert (status, told["error"]["code"]) == (503, "NotReady")


async def test_every_view_is_answered(board: Board) -> None:
    async with _listening(board) as session:
        _, status = await _asked(session, "/api/v1/status")
        assert (status["cluster"], status["gpus"]["used"]) == ("laptop", 4)
        for path, count in (("queues", 1), ("jobs", 1), ("nodes", 1), ("shapes", 0)):
            _, listed = await _asked(session, f"/api/v1/{path}")
            assert (listed["version"], len(listed["items"])) == (1, count)
        _, one = await _asked(session, "/api/v1/jobs/default/train")
        assert len(one["pods"]) == 4
        assert (await _asked(session, "/api/v1/queues/a"))[1]["name"] == "a"
        assert (await _asked(session, "/api/v1/nodes/n1"))[1]["free"] == 4
        assert (await _asked(session, "/api/v1/map"))[1]["per"] == 8


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/api/v1/jobs/default/none", 404, "NotFound"),
        ("/api/v1/queues/none", 404, "NotFound"),
        ("/api/v1/nodes/none", 404, "NotFound"),
        ("/api/v1/nothing", 404, "NotFound"),
        ("/..%2f..%2fpyproject.toml", 404, "NotFound"),
        ("/api/v1/jobs?colour=red", 400, "UnknownField"),
        ("/api/v1/jobs?sort=colour", 400, "UnknownField"),
        ("/api/v1/jobs?limit=all", 400, "NotANumber"),
        ("/api/v1/jobs?cursor=-1", 400, "NotANumber"),
    ],
)
async def test_what_is_not_there_is_said_with_a_code(
    board: Board, path: str, status: int, code: str
) -> None:
    async with _listening(board) as session:
        found, told = await _asked(session, path)
        assert (found, told["error"]["code"]) == (status, code)


async def test_long_lists_come_in_pages() -> None:
    board = Board()
    _show(board, _moment(1, *(make.gang(f"j{at}", 1, gpu=1, queue="a") for at in range(5))))
    async with _listening(board) as session:
        seen, cursor = [], ""
        while True:
            _, page = await _asked(session, f"/api/v1/jobs?limit=2&cursor={cursor}")
            assert page["total"] == 5
            seen += [job["key"] for job in page["items"]]
            cursor = page["next"]
            if not cursor:
                break
    assert len(seen) == len(set(seen)) == 5


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"host": "evil.example"}, "Forbidden"),
        ({"origin": "http://evil.example"}, "OtherOrigin"),
        ({"sec-fetch-site": "cross-site"}, "OtherOrigin"),
        ({"sec-fetch-site": "same-site"}, "OtherOrigin"),
        ({"x-forwarded-for": "10.0.0.1"}, "Forbidden"),
    ],
)
@pytest.mark.parametrize("path", ["/api/v1/status", "/api/v1/stream"])
async def test_pages_of_other_sites_learn_nothing(
    board: Board, headers: dict[str, str], code: str, path: str
) -> None:
    async with _listening(board) as session:
        status, told = await _asked(session, path, headers=headers)
        assert (status, told["error"]["code"]) == (403, code)


async def test_a_link_on_another_site_leads_to_the_page(board: Board) -> None:
    async with _listening(board) as session:
        headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
        async with session.get("/", headers=headers) as answer:
            assert answer.status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize("path", ["/api/v1/status", "/api/v1/jobs/default/train", "/"])
async def test_nothing_can_be_changed(board: Board, method: str, path: str) -> None:
    async with _listening(board) as session:
        status, told = await _asked(session, path, method=method)
        assert (status, told["error"]["code"]) == (405, "MethodNotAllowed")


async def test_the_page_may_load_nothing_from_elsewhere(board: Board) -> None:
    async with _listening(board) as session, session.get("/") as answer:
        assert answer.headers["content-type"].startswith("text/html")
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert HEADERS.items() <= {k.lower(): v for k, v in answer.headers.items()}.items()


async def _event(lines: aiohttp.StreamReader) -> tuple[str, Any]:
    """The next event: its kind and its data."""
    text = (await lines.readuntil(b"\n\n")).decode()
    fields = dict(line.split(": ", 1) for line in text.strip().splitlines())
    return fields["event"], msgspec.json.decode(fields["data"])


async def test_readers_hear_what_changed(board: Board) -> None:
    async with _listening(board) as session, session.get("/api/v1/stream") as stream:
        assert (await _event(stream.content))[0] == "beat"
        _show(board, _moment(2, make.gang("other", 1, gpu=1, queue="a", nodes=("n1",))))
        kind, told = await _event(stream.content)
        assert (kind, told["rev"]) == ("delta", 2)
        assert told["status"]["gpus"]["used"] == 1
        cells = {cell: job for cell, job, _ in told["map"]["cells"]}
        assert cells == {0: "default/other", 1: "", 2: "", 3: ""}


async def test_what_is_not_there_is_named_as_one_would_say_it(board: Board) -> None:
    async with _listening(board) as session:
        for path, said in (("queues/x", "queue x"), ("nodes/x", "node x"), ("jobs/a/x", "job a/x")):
            async with session.get(f"/api/v1/{path}") as answer:
                assert answer.status == 404
                assert (await answer.json())["error"]["message"] == f"There is no {said}."


async def test_readers_hear_at_once_what_does_not_do_its_work(board: Board) -> None:
    """No moment comes where nothing is heard of the cluster: what is shown would pass for new."""
    gone = Ailment("watch", 5.0, "There is no news of pods.")
    async with _listening(board) as session, session.get("/api/v1/stream") as stream:
        assert (await _event(stream.content))[1]["ailments"] == []
        board.ail((gone,))
        kind, told = await _event(stream.content)
        assert (kind, told["ailments"]) == ("beat", [msgspec.to_builtins(gone)])
        async with session.get("/api/v1/status") as answer:
            assert (await answer.json())["ailments"] == told["ailments"]


async def test_a_reader_that_was_away_hears_what_it_missed(board: Board) -> None:
    for cycle in (2, 3):
        _show(board, _moment(cycle))
    missed = {"last-event-id": "1"}
    async with (
        _listening(board) as session,
        session.get("/api/v1/stream", headers=missed) as stream,
    ):
        told = [await _event(stream.content) for _ in range(2)]
    assert [(kind, data["rev"]) for kind, data in told] == [("delta", 2), ("delta", 3)]


@pytest.mark.parametrize("cycles", [10, 400])
async def test_a_reader_that_was_away_for_long_asks_anew(board: Board, cycles: int) -> None:
    moment = _moment(2)
    for cycle in range(2, cycles):
        board.show(_moment(cycle) if cycle == cycles - 1 else moment, b"{}")
    missed = {"last-event-id": "1"}
    async with (
        _listening(board) as session,
        session.get("/api/v1/stream", headers=missed) as stream,
    ):
        assert (await _event(stream.content))[0] == "reset"


async def test_strangers_need_a_token_and_a_stream_ends_with_it(
    board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = _Gate()
    monkeypatch.setattr(module, "_BEAT_S", 0.01)
    elsewhere = {"x-forwarded-for": "10.0.0.1"}
    async with _listening(board, gate) as session:
        assert (await _asked(session, "/api/v1/status", headers=elsewhere))[0] == 401
        known = {**elsewhere, "authorization": "Bearer open"}
        assert (await _asked(session, "/api/v1/status", headers=known))[0] == 200
        async with session.get("/api/v1/stream", headers=known) as stream:
            assert (await _event(stream.content))[0] == "beat"
            gate.word = "another"
            await stream.content.read()  # until it ends


def test_a_change_tells_only_the_queues_of_which_something_is_other() -> None:
    queues = [make.queue(name, quota_gpu=1) for name in ("a", "b", "c")]
    before = moment_of(make.cluster(make.node("n1", gpu=8), *queues), 1)
    job = make.gang("j", 1, gpu=1, queue="b", nodes=("n1",))
    after = moment_of(make.cluster(make.node("n1", gpu=8), *queues, job), 2)
    told = msgspec.json.decode(difference(before, after))
    assert [row[0] for row in told["queues"]] == ["b"]
    assert msgspec.json.decode(difference(after, after))["queues"] == []


def test_what_goes_out_with_each_change_does_not_grow_with_the_square_of_queues() -> None:
    lends = [make.queue(f"owed{at:03}", quota_gpu=1) for at in range(80)]
    takes = [make.queue(f"took{at:03}") for at in range(80)]
    jobs = [make.gang(f"w{at:03}", 1, gpu=1, queue=f"owed{at:03}") for at in range(80)]
    jobs += [
        make.gang(f"r{at:03}", 1, gpu=1, queue=f"took{at:03}", nodes=(f"n{at // 8:02}",))
        for at in range(80)
    ]
    nodes = [make.node(f"n{at:02}", gpu=8) for at in range(10)]
    moment = moment_of(make.cluster(*nodes, *lends, *takes, *jobs), 1)
    owed = msgspec.json.decode(difference(moment, moment))["status"]["owed"]
    assert len(owed) == 50
    assert {len(one["borrowers"]) for one in owed} == {8}


async def test_a_reader_who_goes_is_no_error(
    board: Board, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Browsers close streams all the time: a traceback for each would fill the log."""
    gone = asyncio.Event()

    async def refused(*_: object) -> None:
        gone.set()
        raise aiohttp.ClientConnectionResetError("Cannot write to closing transport")

    async with _listening(board) as session:
        monkeypatch.setattr(aiohttp.web.StreamResponse, "write", refused)
        monkeypatch.setattr(aiohttp.web.StreamResponse, "write_eof", refused)
        with suppress(aiohttp.ClientError, TimeoutError):
            await session.get("/api/v1/stream", timeout=aiohttp.ClientTimeout(5))
        await asyncio.wait_for(gone.wait(), 60)
    assert [one for one in caplog.records if one.name == "aiohttp.server"] == []
