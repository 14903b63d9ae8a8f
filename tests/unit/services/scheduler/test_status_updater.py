"""Of the updates of an object only the newest is written, once; trouble with one is its own."""

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
from muster.services.scheduler.slow_namespaces import SlowNamespaces
from muster.services.scheduler.status_updater import Cancelled, Ended, StatusUpdater, Update

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


# -- trouble -----------------------------------------------------------------------------------


class PickyServer:
    """Answers at once, as `react` says; remembers what was written of whom and when."""

    def __init__(self, react: Callable[[str], Answer | Exception | None]) -> None:
        self.react = react
        self.tries: dict[str, list[float]] = {}
        self.patches: list[tuple[str, object]] = []

    async def handle(self, request: Request) -> Response:
        name = request.path.rsplit("/", 1)[-1]
        self.tries.setdefault(name, []).append(asyncio.get_running_loop().time())
        self.patches.append((name, json.loads(request.body)))
        answer = self.react(name)
        if isinstance(answer, Exception):
            raise answer
        return answer or said({"metadata": {}})


def beside(
    scenario: Callable[[StatusUpdater], Awaitable[None]], server: PickyServer
) -> StatusUpdater:
    """The updater after a story that was told beside it."""

    async def main() -> StatusUpdater:
        connection = Connection(InProcessTransport(server.handle), LoopClock(), Rand(1))
        updater = StatusUpdater(Writer(connection), Log("test", MemorySink()))
        working = asyncio.create_task(updater.run())
        await scenario(updater)
        assert not working.done()
        updater.stop()
        await working
        return updater

    return virtually(main())


def forbid(prefix: str) -> Callable[[str], Answer | None]:
    return lambda name: refused(403, "Forbidden") if name.startswith(prefix) else None


def test_a_hundred_forbidden_pods_delay_no_other_update() -> None:
    server = PickyServer(forbid("denied"))

    async def scenario(updater: StatusUpdater) -> None:
        for number in range(100):
            updater.put(about(f"denied-{number}", 1))
        await asyncio.sleep(30.0)
        before_s = asyncio.get_running_loop().time()
        updater.put(about("fine", 1))
        await asyncio.sleep(0.01)
        assert server.tries["fine"] == [before_s]

    beside(scenario, server)


def test_throttled_updates_hold_no_worker_and_come_again_when_the_server_says() -> None:
    busy = ["later-0", "later-1", "later-2", "later-3", "later-4", "later-5"]
    server = PickyServer(
        lambda name: (
            refused(429, "TooManyRequests", retryAfterSeconds=20)
            if name in busy and len(server.tries[name]) == 1
            else None
        )
    )

    async def scenario(updater: StatusUpdater) -> None:
        for name in busy:
            updater.put(about(name, 1))
        await asyncio.sleep(0.1)
        before_s = asyncio.get_running_loop().time()
        updater.put(about("fine", 1))
        await asyncio.sleep(0.01)
        assert server.tries["fine"] == [before_s]
        await asyncio.sleep(30.0)

    beside(scenario, server)
    for name in busy:
        first_s, second_s = server.tries[name]
        assert 20 <= second_s - first_s < 21


class HalfSlowServer(PickyServer):
    """Asks a webhook about one namespace, which takes its time."""

    def __init__(self) -> None:
        super().__init__(lambda _: None)
        self.asking = self.most_asked = 0

    async def handle(self, request: Request) -> Response:
        if "/namespaces/slow/" in request.path:
            self.asking += 1
            self.most_asked = max(self.most_asked, self.asking)
            await asyncio.sleep(29.0)
            self.asking -= 1
        return await super().handle(request)


def test_writes_that_take_half_a_minute_in_one_namespace_delay_no_other() -> None:
    server = HalfSlowServer()
    waits_s: list[float] = []

    async def scenario(updater: StatusUpdater) -> None:
        now_s = asyncio.get_running_loop().time
        for number in range(30):
            updater.put(Update(POD, Key("slow", f"slow-{number}"), "a", {"value": 1}))
        for number in range(60):
            await asyncio.sleep(1.0)
            asked_s = now_s()
            updater.put(about(f"fine-{number}", 1))
            await asyncio.sleep(4.0)
            waits_s.append(server.tries[f"fine-{number}"][0] - asked_s)
        assert server.asking == 1
        await asyncio.sleep(1000.0)

    beside(scenario, server)
    assert max(waits_s) <= 2.0
    assert max(waits_s[1:]) == 0.0
    assert server.most_asked == 5
    assert all(len(server.tries[f"slow-{number}"]) == 1 for number in range(30))


def test_a_namespace_that_answers_again_has_its_updates_written_side_by_side() -> None:
    slow: SlowNamespaces[str] = SlowNamespaces()
    assert slow.begins("ns", "first")
    slow.lasts_long("ns")
    assert not slow.begins("ns", "second")
    assert not slow.begins("ns", "third")
    assert slow.begins("other", "fourth")
    assert slow.ended("ns", was_long=True) == ["second", "third"]
    assert slow.begins("ns", "second")
    assert not slow.begins("ns", "third"), "one at a time, as long as it is not known to be quick"
    assert slow.ended("ns", was_long=False) == ["third"]
    assert slow.begins("ns", "third")
    assert slow.begins("ns", "fifth")


def test_a_forbidden_update_is_repeated_ever_more_rarely() -> None:
    server = PickyServer(forbid("denied"))

    async def scenario(updater: StatusUpdater) -> None:
        updater.put(about("denied", 1))
        for number in range(600):
            await asyncio.sleep(1.0)
            updater.put(about("denied", number))

    beside(scenario, server)
    assert 8 <= len(server.tries["denied"]) <= 14


@pytest.mark.parametrize(
    "trouble",
    [TimeoutError("the credential plugin said nothing"), OSError("token"), ValueError("codec")],
    ids=["timeout", "token", "codec"],
)
def test_an_unexpected_error_of_one_update_is_retried_and_concerns_no_other(
    trouble: Exception,
) -> None:
    left = [trouble] * 3
    server = PickyServer(lambda name: left.pop() if name == "odd" and left else None)

    async def scenario(updater: StatusUpdater) -> None:
        for name in ("odd", *(f"p{number}" for number in range(20))):
            updater.put(about(name, 1))
        await asyncio.sleep(10.0)

    updater = beside(scenario, server)
    assert len(updater) == 0
    assert len(server.tries["odd"]) == 4
    assert all(len(server.tries[f"p{number}"]) == 1 for number in range(20))


def test_an_update_that_comes_during_a_backoff_replaces_the_one_that_waits() -> None:
    server = PickyServer(lambda name: None)
    left = [refused(500, "InternalError")] * 4
    server.react = lambda name: left.pop() if left else None

    async def scenario(updater: StatusUpdater) -> None:
        updater.put(about("x", 1))
        await asyncio.sleep(1.0)
        updater.put(about("x", 2))
        await asyncio.sleep(10.0)

    beside(scenario, server)
    values = [patch["value"] for _, patch in server.patches]  # type: ignore[index]
    assert values == [1, 1, 1, 2, 2]


def test_an_update_that_is_cancelled_while_it_fails_is_not_written_again() -> None:
    ends: list[Ended] = []
    server = SlowServer()
    server.answers = [refused(500, "InternalError")]

    async def scenario(updater: StatusUpdater) -> None:
        updater.put(Update(POD, KEY, "a", {"value": 1}, on_end=ends.append))
        await asyncio.sleep(0.5)
        updater.cancel(POD, KEY)
        await asyncio.sleep(10.0)

    told(scenario, server)
    assert (len(server.patches), ends) == (1, [Cancelled()])


def test_a_failing_asker_does_not_stop_the_workers() -> None:
    def fails(_: Ended) -> None:
        raise RuntimeError("no idea")

    server = PickyServer(lambda name: None)

    async def scenario(updater: StatusUpdater) -> None:
        for number in range(10):
            key = Key("ns", f"p{number}")
            updater.put(Update(POD, key, "a", {"value": number}, on_end=fails))
        await asyncio.sleep(1.0)

    assert len(beside(scenario, server)) == 0
    assert len(server.patches) == 10


def test_nothing_is_kept_of_updates_that_have_ended() -> None:
    left = [refused(500, "InternalError")] * 50
    server = PickyServer(lambda name: left.pop() if left else None)

    async def scenario(updater: StatusUpdater) -> None:
        for number in range(60):
            updater.put(about(f"p{number}", number))
        for number in range(10):
            updater.cancel(POD, Key("ns", f"p{number}"))
        await asyncio.sleep(60.0)
        kept = (updater._failures, updater._waiting, updater._revoked, updater._in_flight)
        assert [len(each) for each in kept] == [0, 0, 0, 0]

    beside(scenario, server)


def test_the_backlog_and_the_age_of_the_oldest_update_are_known() -> None:
    server = PickyServer(forbid("denied"))

    async def scenario(updater: StatusUpdater) -> None:
        assert (len(updater), updater.oldest_s) == (0, 0.0)
        updater.put(about("denied", 1))
        await asyncio.sleep(100.0)
        updater.put(about("denied", 2))
        updater.put(about("fine", 1))
        assert (len(updater), updater.oldest_s) == (2, 100.0)

    beside(scenario, server)


def test_an_update_whose_write_is_broken_off_is_no_longer_in_work() -> None:
    async def never(_: Request) -> Response:
        await asyncio.Event().wait()
        raise AssertionError

    async def run() -> None:
        connection = Connection(InProcessTransport(never), LoopClock(), Rand(1))
        updater = StatusUpdater(Writer(connection), Log("test", MemorySink()))
        updater.put(update("a", 1))
        running = asyncio.create_task(updater.run())
        await LoopClock().sleep(1)
        assert updater._queue.working == 1
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert updater._queue.working == 0

    virtually(run())
