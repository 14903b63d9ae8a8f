"""A running dashboard and those who should not see it, or not all of it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import aiohttp
import aiohttp.web
import msgspec
import pytest
from aiohttp.test_utils import TestServer
from tests.support.moments import moment_of
from tests.support.served_web import Fixed

from muster.base.clock import SystemClock
from muster.base.offload import in_thread
from muster.model.records import JobRecord
from muster.runtime.page_access import PageRequest, Refusal, ShutGate
from muster.testing import make
from muster.web.board import Board, difference
from muster.web.guard import Guard
from muster.web.handlers import Handlers
from muster.web.hidden_names import HiddenNames, hidden_names
from muster.web.live import LiveCluster
from muster.web.server import WebPart
from muster.web.sessions import Sessions
from muster.web.veil import Veil

_AWAY = {"x-forwarded-for": "192.0.2.7"}
"""Whoever comes through a proxy is not on this machine."""


class _Gate:
    """Ana may see her own namespace, the auditor all; tokens end."""

    def __init__(self) -> None:
        self.known = {"ana": {"default"}, "auditor": None}

    async def refusal(self, asked: PageRequest) -> Refusal | None:
        return None if asked.token in self.known else Refusal(401, "who are you?")

    async def may_list(self, token: str, group: str, resource: str, namespace: str) -> bool:
        assert (group, resource) == ("scheduling.run.ai", "podgroups")
        seen = self.known.get(token, set())
        return seen is None or namespace in seen


def _of_another(workload: make.Workload, on_hold: str | None = None) -> make.Workload:
    """The same in a namespace of its own."""
    name = workload.job.key.partition("/")[2]
    job: JobRecord = make.with_fields(workload.job, key=f"secret/{name}", on_hold=on_hold)
    tasks = tuple(make.with_fields(one, job=job.key, namespace="secret") for one in workload.tasks)
    return make.Workload(job, tasks)


_RECORDS = make.cluster(
    make.node("n1", gpu=8),
    make.node("n2", gpu=8),
    make.queue("a", quota_gpu=16),
    make.gang("mine", 8, gpu=1, queue="a", nodes=("n1",) * 8, user="ana"),
    _of_another(make.gang("merger", 6, gpu=1, queue="a", nodes=("n2",) * 6, user="eve")),
    make.gang("next", 4, gpu=8, queue="a", user="ana", created_s=9.0),
    _of_another(
        make.gang("layoffs", 3, gpu=8, queue="a", user="eve", created_s=5.0), "until monday"
    ),
)


@asynccontextmanager
async def _running(gate: Any = None) -> AsyncIterator[tuple[Board, aiohttp.ClientSession]]:
    board = Board("company")
    board.show(moment_of(_RECORDS, labels=lambda _, name: {"app": name.partition("/")[2]}), b"{}")
    live = LiveCluster(Fixed(_RECORDS), SystemClock(), in_thread, token_key=b"key")
    part = WebPart("127.0.0.1", 0, board, SystemClock(), gate, questions=Handlers(live))
    running = asyncio.create_task(part.run())
    await part.listening.wait()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{part.port}") as session:
        yield board, session
    part.stop()
    await running


def _as(who: str) -> dict[str, str]:
    return {**_AWAY, "authorization": f"Bearer {who}"}


_EVERYTHING = (
    "jobs?limit=1000",
    "map",
    "nodes",
    "nodes/n2",
    "priority",
    "status",
    "queues",
    "shapes",
    "why/default/next?search=false",
    "when",
)


@pytest.mark.parametrize("path", _EVERYTHING)
async def test_names_are_hidden_from_those_who_may_not_list_them(path: str) -> None:
    async with _running(_Gate()) as (_, session):
        async with session.get(f"/api/v1/{path}", headers=_as("ana")) as answer:
            told = await answer.text()
            assert answer.status == 200, told
        for secret in ("merger", "layoffs", "secret/", '"eve"'):
            assert secret not in told
        async with session.get(f"/api/v1/{path}", headers=_as("auditor")) as answer:
            assert "hidden/" not in await answer.text()


async def test_what_is_hidden_is_still_counted() -> None:
    async with _running(_Gate()) as (_, session):
        async with session.get("/api/v1/jobs", headers=_as("ana")) as answer:
            items = (await answer.json())["items"]
        hidden = [one for one in items if one["key"].startswith("hidden/")]
        assert len(items) == 4
        assert sorted(one["gpus"]["asked"] for one in hidden) == [6, 24]
        assert {one["user"] for one in hidden} == {""}
        async with session.get("/api/v1/whoami", headers=_as("ana")) as answer:
            told = await answer.json()
        assert told == {"sees_all": False, "jobs": 2, "namespaces": 1, "session": False}


@pytest.mark.parametrize(
    "path", ["jobs/secret/merger", "why/secret/layoffs", "when/secret/layoffs"]
)
async def test_a_page_of_a_forbidden_namespace_is_refused(path: str) -> None:
    async with _running(_Gate()) as (_, session):
        async with session.get(f"/api/v1/{path}", headers=_as("ana")) as answer:
            assert answer.status == 403
            assert (await answer.json())["error"]["code"] == "Hidden"
        async with session.get(f"/api/v1/{path}", headers=_as("auditor")) as answer:
            assert answer.status == 200


@pytest.mark.parametrize(
    "query",
    ["search=merg", "user=eve", "namespace=secret", "labels=app%3Dmerger", "pod=secret/merger-0"],
)
async def test_whoever_guesses_a_hidden_name_is_told_nothing(query: str) -> None:
    async with _running(_Gate()) as (_, session):
        answer = await session.get(f"/api/v1/jobs?{query}", headers=_as("ana"))
        told = await answer.json()
        assert (told["items"], told["total"]) == ([], 0)


async def test_pages_of_a_guess_are_counted_without_hidden_jobs() -> None:
    """A page with nothing on it, or one more to come, would say that there is such a name."""
    async with _running(_Gate()) as (_, session):
        for guess, seen in (("secret", []), ("ne", ["default/mine", "default/next"])):
            found = []
            for cursor in range(3):
                path = f"/api/v1/jobs?search={guess}&sort=key&limit=1&cursor={cursor}"
                answer = await session.get(path, headers=_as("ana"))
                told = await answer.json()
                found += [one["key"] for one in told["items"]]
                assert bool(told["next"]) == (cursor + 1 < len(seen))
            assert found == seen
        answer = await session.get("/api/v1/jobs?search=secret", headers=_as("auditor"))
        assert (await answer.json())["total"] == 2


@pytest.mark.parametrize(
    "text",
    ["podgroups/secret/merger", "/secret/merger", "pod secret/merger-0: x", "a,secret/merger"],
)
def test_a_hidden_name_is_hidden_wherever_it_stands(text: str) -> None:
    body = msgspec.json.encode({"text": text})
    assert b"merger" not in Veil(frozenset({"default"}), b"key").over(body, {})


def test_users_are_hidden_where_their_hidden_jobs_may_be_counted() -> None:
    veil = Veil(frozenset({"default"}), b"key")
    items = [
        {"name": "a eve", "queue": "a", "user": "eve", "job": None, "gpu_hours": 6.0},
        {"name": "eve secret/merger", "user": "eve", "job": "secret/merger"},
        {"name": "ana default/mine", "user": "ana", "job": "default/mine"},
    ]
    body = msgspec.json.encode({"items": items})
    shown = veil.over(body, {"by": "user"})
    assert b"eve" not in shown
    assert b"ana default/mine" in shown
    assert msgspec.json.decode(veil.over(body, {"user": "eve"}))["total"] == 1


async def test_a_stream_hides_the_same_names_and_ends_with_the_token() -> None:
    gate = _Gate()
    async with _running(gate) as (board, session):
        before = board.moment
        assert before is not None
        async with session.get("/api/v1/stream", headers=_as("ana")) as stream:
            assert stream.status == 200
            await stream.content.readuntil(b"\n\n")
            after = moment_of(_RECORDS, 2)
            told = difference(before, after)
            told = told[:-1] + b',"note":"secret/merger moved, default/mine did not"}'
            board.show(after, told)
            heard = await stream.content.readuntil(b"\n\n")
            assert b"default/mine did not" in heard
            assert b"merger" not in heard
            del gate.known["ana"]
            board.show(moment_of(_RECORDS, 3), told)
            rest = await asyncio.wait_for(stream.content.read(), 30)
            assert b"id: 3" not in rest
        async with session.get("/api/v1/jobs", headers=_as("ana")) as answer:
            assert answer.status == 401


_OTHERS: list[tuple[dict[str, str], int]] = [
    ({"host": "evil.example"}, 403),  # DNS rebinding: our address under another's name
    ({"host": "127.0.0.1.evil.example"}, 403),
    ({"origin": "http://evil.example"}, 403),
    ({"sec-fetch-site": "cross-site"}, 403),
    ({"sec-fetch-site": "same-site"}, 403),
    ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, 200),
    (_AWAY, 403),
    ({}, 200),
]


async def test_pages_of_other_sites_see_nothing() -> None:
    async with _running() as (_, session):
        for path in ("/api/v1/jobs", "/api/v1/stream", "/"):
            for headers, status in _OTHERS:
                async with session.get(path, headers=headers) as answer:
                    assert answer.status == status, (path, headers)


async def test_nothing_but_questions_is_answered() -> None:
    async with _running() as (_, session):
        for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"):
            for path in ("/api/v1/jobs", "/api/v1/why/default/next", "/", "/app.js"):
                async with session.request(method, path) as answer:
                    assert answer.status == 405, (method, path)


async def test_a_way_to_change_something_that_nobody_allowed_is_shut() -> None:
    """By a list of what may be sent, not by there being no such way: one may be added."""
    done: list[str] = []

    async def change(request: aiohttp.web.Request) -> aiohttp.web.Response:
        done.append(request.path)
        return aiohttp.web.Response()

    guard = Guard(ShutGate(), Sessions(ShutGate(), SystemClock()), ["/api/v1/plan"])
    app = aiohttp.web.Application(middlewares=[guard.judged])
    for path in ("/api/v1/plan", "/api/v1/jobs"):
        app.router.add_route("*", path, change)
    async with TestServer(app) as server, aiohttp.ClientSession(server.make_url("/")) as session:
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            assert (await session.request(method, "/api/v1/jobs")).status == 405
        assert (await session.post("/api/v1/plan")).status == 200
    assert done == ["/api/v1/plan"]


async def test_a_plan_from_another_site_is_refused_and_a_large_one_too() -> None:
    async with _running() as (_, session):
        plain = {"manifest": [], "namespace": "default"}
        evil = {"origin": "http://evil.example"}
        async with session.post("/api/v1/plan", json=plain, headers=evil) as answer:
            assert answer.status == 403
        large = {"manifest": "x" * (2 << 20), "namespace": "default"}
        async with session.post("/api/v1/plan", json=large) as answer:
            assert answer.status == 413


def test_a_hidden_name_is_the_same_each_time_and_another_with_each_process() -> None:
    body = b'{"text": "behind secret/merger (kai.scheduler/hold), before default/mine"}'
    one, other = (Veil(frozenset({"default"}), key) for key in (b"one", b"other"))
    first = one.over(body, {})
    assert first == one.over(body, {})
    assert first != other.over(body, {})
    assert b"kai.scheduler/hold), before default/mine" in first
    assert b"merger" not in first


@pytest.mark.parametrize(
    ("text", "is_hidden"),
    [
        ("It waits for big-merger to end.", True),
        ("It waits for big-merger-0 to end.", True),
        ("evicted (big-merger-worker-1, mine-0)", True),
        ("1.5 of 8 GPUs on node-2-big-merger are free.", False),  # another word
        ("Queue a-b is full; no-one is owed.", False),
    ],
)
def test_a_name_without_a_namespace_is_hidden_in_a_sentence(text: str, is_hidden: bool) -> None:
    names = HiddenNames(frozenset({"big-merger", "a"}), frozenset({"a-b", "mine"}))
    veil = Veil(frozenset({"default"}), b"key", names)
    shown = msgspec.json.decode(veil.over(msgspec.json.encode({"text": text}), {}))["text"]
    assert ("hidden/" in shown) is is_hidden
    assert is_hidden or shown == text
    assert ("mine-0" in shown) == ("mine-0" in text)


def test_names_of_queues_nodes_and_own_jobs_are_no_hidden_names() -> None:
    groups = (f"pg-{one}-01234567-89ab-cdef-0123-456789abcdef" for one in ("tune", "n", "q", "own"))
    secret = [_of_another(make.gang(group, 1, gpu=1, queue="q-1")) for group in groups]
    secret.append(
        _of_another(make.gang("s", 1, gpu=1, queue="q-1", known_as=("Workflow/secret-x",)))
    )
    own = make.gang("own-1", 1, gpu=1, queue="q-1")
    world = make.cluster(make.node("n-1", gpu=8), make.queue("q-1"), *secret, own)
    names = hidden_names(moment_of(world), frozenset({"default"}))
    assert names.has("tune-0")  # a pod of the owner of a group
    assert names.has("secret-x")
    assert not any(map(names.has, ("n-1", "q-1", "own-1")))


def test_what_was_submitted_is_as_hidden_as_the_job_that_came_of_it() -> None:
    veil = Veil(frozenset({"default"}), b"key")
    items = [{"key": f"{one}/x", "known_as": ["Workflow/secret"]} for one in ("default", "other")]
    body = msgspec.json.encode({"items": items})
    shown = msgspec.json.decode(veil.over(body, {}))["items"]
    assert [one["known_as"] for one in shown] == [["Workflow/secret"], []]


@pytest.mark.parametrize("path", ["jobs", "stream?since=1"])
async def test_nobody_is_told_what_hidden_jobs_are_called(path: str) -> None:
    """In answers and in events; whoever may see them is."""
    spark = make.gang("spark-1f2e", 1, gpu=16, queue="a", known_as=("SparkApplication/pi",))
    world = make.cluster(make.queue("a"), _of_another(spark))
    async with _running(_Gate()) as (board, session):
        before, after = board.moment, replace(moment_of(world), cycle=2)
        board.show(after, difference(before, after))
        for who, is_told in (("ana", False), ("auditor", True)):
            asked = session.get(f"/api/v1/{path}", headers=_as(who))
            async with asked as answer:
                told = await (
                    answer.content.readuntil(b"\n\n") if "stream" in path else answer.read()
                )
            assert (b"secret/pi" in told) is is_told
            assert (b"secret" in told) is is_told


async def test_what_the_owner_of_a_hidden_job_wrote_is_not_shown() -> None:
    """On hold for a reason of theirs: that it is on hold is said, and no more."""
    async with _running(_Gate()) as (_, session):
        for path in ("jobs", "why/default/next?search=false", "priority"):
            async with session.get(f"/api/v1/{path}", headers=_as("ana")) as answer:
                assert "until monday" not in await answer.text()
        async with session.get("/api/v1/jobs", headers=_as("ana")) as answer:
            reasons = [one["reason"] for one in (await answer.json())["items"] if one["reason"]]
        (held,) = [one for one in reasons if one["code"] == "Held"]
        assert held["message"]
        async with session.get("/api/v1/jobs", headers=_as("auditor")) as answer:
            assert "until monday" in await answer.text()
