"""Watches on virtual time: bookmarks, time limits, and what has been compacted."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from muster.base.clock import Clock
from muster.client.transport import Request
from muster.lab.virtual_loop import run_virtually
from muster.sim.apiserver.answers import ApiResponse
from muster.sim.apiserver.app import ApiServer, Parts
from muster.sim.apiserver.store import Store

_MAPS = "/api/v1/namespaces/default/configmaps"


def _server(log_length: int = 1000) -> ApiServer:
    return ApiServer(Parts(store=Store(log_length=log_length)))


async def _create(server: ApiServer, name: str) -> dict[str, Any]:
    body = json.dumps({"metadata": {"name": name}}).encode()
    answer = await server.handle(Request("POST", _MAPS, (), {}, body))
    assert answer.status == 201
    found: dict[str, Any] = json.loads(answer.body)
    return found


async def _watch(server: ApiServer, **query: str) -> ApiResponse:
    pairs = [("watch", "true"), *query.items()]
    return await server.handle(Request("GET", _MAPS, pairs))


async def _events(answer: ApiResponse) -> AsyncIterator[dict[str, Any]]:
    async for chunk in answer.chunks():
        for line in chunk.splitlines():
            yield json.loads(line)


def test_a_watch_ends_after_its_timeout_seconds() -> None:
    async def scenario(clock: Clock) -> float:
        server = _server()
        await _create(server, "a")
        began = asyncio.get_running_loop().time()
        answer = await _watch(server, timeoutSeconds="300")
        assert [event["type"] async for event in _events(answer)] == ["ADDED"]
        return asyncio.get_running_loop().time() - began

    assert 299 < run_virtually(scenario) < 301


def test_bookmarks_are_sent_every_minute_when_allowed() -> None:
    async def scenario(clock: Clock) -> list[str]:
        server = _server()
        created = await _create(server, "a")
        version = created["metadata"]["resourceVersion"]
        answer = await _watch(
            server, timeoutSeconds="150", allowWatchBookmarks="true", resourceVersion=version
        )
        return [event["type"] async for event in _events(answer)]

    assert run_virtually(scenario) == ["BOOKMARK", "BOOKMARK", "BOOKMARK"]


def test_a_watch_from_a_compacted_version_gets_410_gone() -> None:
    async def scenario(clock: Clock) -> list[dict[str, Any]]:
        server = _server(log_length=5)
        first = await _create(server, "first")
        for number in range(30):
            await _create(server, f"n-{number}")
        answer = await _watch(server, resourceVersion=first["metadata"]["resourceVersion"])
        return [event async for event in _events(answer)]

    (event,) = run_virtually(scenario)
    assert event["type"] == "ERROR"
    assert event["object"]["code"] == 410
    assert event["object"]["reason"] == "Expired"


def test_a_watch_that_falls_behind_the_log_gets_410_gone() -> None:
    async def scenario(clock: Clock) -> list[str]:
        server = _server(log_length=5)
        created = await _create(server, "a")
        answer = await _watch(server, resourceVersion=created["metadata"]["resourceVersion"])
        events = _events(answer)
        await _create(server, "b")
        first = await anext(events)
        for number in range(30):
            await _create(server, f"n-{number}")
        return [first["type"], *[event["type"] async for event in events]]

    assert run_virtually(scenario) == ["ADDED", "ERROR"]


def test_a_continue_token_of_a_compacted_version_is_gone() -> None:
    async def scenario(clock: Clock) -> ApiResponse:
        server = _server(log_length=5)
        for number in range(4):
            await _create(server, f"a-{number}")
        answer = await server.handle(Request("GET", _MAPS, [("limit", "2")]))
        token = json.loads(answer.body)["metadata"]["continue"]
        for number in range(30):
            await _create(server, f"n-{number}")
        return await server.handle(Request("GET", _MAPS, [("limit", "2"), ("continue", token)]))

    answer = run_virtually(scenario)
    assert answer.status == 410
    assert json.loads(answer.body)["reason"] == "Expired"


def test_ten_watchers_share_the_encoding_of_a_change() -> None:
    async def scenario(clock: Clock) -> tuple[int, set[int]]:
        server = _server()
        watches = [await _watch(server, timeoutSeconds="5") for _ in range(10)]
        readers = [asyncio.create_task(_first(watch)) for watch in watches]
        await asyncio.sleep(0)
        await _create(server, "a")
        lines = await asyncio.gather(*readers)
        change = server.store.table("configmaps").log[-1]
        return len(set(lines)), {len(change.rendered)}

    assert run_virtually(scenario) == (1, {1})


async def _first(answer: ApiResponse) -> bytes:
    async for chunk in answer.chunks():
        if chunk:
            return chunk
    return b""


def test_a_writer_that_never_waits_does_not_leave_watchers_behind() -> None:
    async def scenario(clock: Clock) -> int:
        server = _server(log_length=200)
        answer = await _watch(server, timeoutSeconds="5")
        seen = asyncio.create_task(_count(answer))
        await asyncio.sleep(0)
        for number in range(1500):
            await _create(server, f"n-{number}")
        return await seen

    assert run_virtually(scenario) == 1500


async def _count(answer: ApiResponse) -> int:
    return len([event async for event in _events(answer) if event["type"] == "ADDED"])
