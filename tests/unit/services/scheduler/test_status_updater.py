"""Of the updates of an object only the newest is written, once."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.support.scripted import Answer, ScriptedServer, refused, said
from tests.support.virtual_time import LoopClock, virtually

from muster.api.kinds import POD, POD_GROUP
from muster.api.meta import Key
from muster.base.log import Log, MemorySink
from muster.base.rand import Rand
from muster.client.connection import Connection
from muster.client.transport import InProcessTransport, Request, Response
from muster.client.write import Writer
from muster.services.scheduler.status_updater import StatusUpdater, Update

KEY = Key("ns", "one")


def written(*steps: Update | tuple[Any, Key]) -> list[object]:
    """The patches that reach the server after updates, and cancellations (kind, key), in order."""
    server = ScriptedServer(*(said({"metadata": {"name": "one"}}) for _ in steps))

    async def run() -> None:
        updater = StatusUpdater(Writer(server.connection()), Log("test", MemorySink()))
        for step in steps:
            updater.put(step) if isinstance(step, Update) else updater.cancel(*step)
        updater.stop()
        await updater.run()

    virtually(run())
    return [json.loads(request.body) for request in server.requests]


def update(slot: str, value: int, kind: Any = POD) -> Update:
    return Update(kind, KEY, slot, {"status": {slot: value}})


@pytest.mark.row(21)
def test_only_the_newest_of_several_updates_is_written() -> None:
    assert written(update("a", 1), update("b", 2), update("a", 3)) == [
        {"status": {"a": 3}},
        {"status": {"b": 2}},
    ]


def test_cancelling_drops_the_queued_updates_of_one_object_only() -> None:
    others = update("a", 4, POD_GROUP)
    assert written(update("a", 1), update("b", 2), others, (POD, KEY)) == [{"status": {"a": 4}}]


class SlowServer:
    """Takes a second for every write, and remembers who was written at the same time."""

    def __init__(self) -> None:
        self.patches: list[tuple[str, object]] = []
        self.at_once: list[set[str]] = []
        self._now: list[str] = []
        self.answers: list[Answer] = []

    async def handle(self, request: Request) -> Response:
        self.patches.append((request.path, json.loads(request.body)))
        self._now.append(request.path)
        assert len(set(self._now)) == len(self._now), "one object is written twice at once"
        self.at_once.append(set(self._now))
        await asyncio.sleep(1.0)
        self._now.remove(request.path)
        return self.answers.pop() if self.answers else said({"metadata": {}})


def told(scenario: Callable[[StatusUpdater], Awaitable[None]], server: SlowServer) -> float:
    """Runs the updater beside the story until all is written; how long that took."""

    async def main() -> float:
        connection = Connection(InProcessTransport(server.handle), LoopClock(), Rand(1))
        updater = StatusUpdater(Writer(connection), Log("test", MemorySink()))
        working = asyncio.create_task(updater.run())
        await scenario(updater)
        while len(updater):  # noqa: ASYNC110 - there is nothing to be told by
            await asyncio.sleep(0.1)
        updater.stop()
        await working
        return asyncio.get_running_loop().time()

    return virtually(main())


def about(name: str, value: int) -> Update:
    return Update(POD, Key("ns", name), "a", {"value": value})


@pytest.mark.row(21)
def test_of_updates_queued_during_a_write_only_the_newest_follows() -> None:
    server = SlowServer()

    async def scenario(updater: StatusUpdater) -> None:
        updater.put(about("x", 1))
        await asyncio.sleep(0.5)
        updater.put(about("x", 2))
        updater.put(about("x", 3))

    told(scenario, server)
    assert [patch for _, patch in server.patches] == [{"value": 1}, {"value": 3}]


@pytest.mark.row(19, 20, 21)
def test_a_thousand_updates_are_queued_for_five_workers_and_none_is_lost() -> None:
    server = SlowServer()

    async def scenario(updater: StatusUpdater) -> None:
        before_s = asyncio.get_running_loop().time()
        for number in range(1000):
            updater.put(about(f"p{number}", number))
        assert asyncio.get_running_loop().time() == before_s

    took_s = told(scenario, server)
    assert sorted(patch["value"] for _, patch in server.patches) == list(range(1000))  # type: ignore[index]
    assert max(map(len, server.at_once)) == 5
    assert 199 <= took_s <= 202


@pytest.mark.row(20, 22)
def test_a_server_error_requeues_an_update_and_a_conflict_drops_it() -> None:
    server = SlowServer()
    server.answers = [refused(409, "Conflict"), refused(500, "InternalError")]

    async def scenario(updater: StatusUpdater) -> None:
        updater.put(about("x", 1))
        await asyncio.sleep(5.0)
        updater.put(about("x", 2))

    told(scenario, server)
    assert [patch for _, patch in server.patches] == [{"value": 1}, {"value": 1}, {"value": 2}]


@pytest.mark.row(152)
def test_pods_and_pod_groups_are_patched_at_their_paths() -> None:
    server = SlowServer()

    async def scenario(updater: StatusUpdater) -> None:
        updater.put(Update(POD, KEY, "condition", {}, "status", merges_lists=True))
        updater.put(Update(POD_GROUP, KEY, "conditions", {}, "status"))
        updater.put(Update(POD_GROUP, KEY, "annotations", {}))

    told(scenario, server)
    assert {path for path, _ in server.patches} == {
        "/api/v1/namespaces/ns/pods/one/status",
        "/apis/scheduling.run.ai/v2alpha2/namespaces/ns/podgroups/one/status",
        "/apis/scheduling.run.ai/v2alpha2/namespaces/ns/podgroups/one",
    }
