"""Controllers: events become keys, failures back off, and one bad key blocks no other."""

import asyncio
from collections.abc import Iterable
from itertools import pairwise

import pytest
from prometheus_client import CollectorRegistry
from tests.support.history import THINGS, HistoryServer, Thing
from tests.support.virtual_time import LoopClock, virtually

from muster.api.codec import Status
from muster.api.meta import Key
from muster.base.backoff import Backoff
from muster.base.log import Level, Log, MemorySink
from muster.base.rand import Rand
from muster.client.connection import Connection
from muster.client.errors import Conflict, Throttled, Unreachable, api_error
from muster.client.informer import Informer
from muster.client.read import Reader
from muster.client.transport import InProcessTransport
from muster.runtime.controller import Controller, Pace, own_key
from muster.runtime.lanes import LONG_AT_ONCE
from muster.runtime.meters import ControllerMeters
from muster.runtime.reconciler import DONE, Result


class Scribe:
    """Writes down what it is asked to reconcile; fails as often as it is told to."""

    def __init__(self, clock: LoopClock) -> None:
        self.clock = clock
        self.asked: list[tuple[str, float]] = []
        self.failures: dict[str, list[Exception]] = {}
        self.again_s: dict[str, float] = {}
        self.busy = 0
        self.busiest = 0
        self.takes_s = 0.0

    async def reconcile(self, key: Key) -> Result:
        self.asked.append((key.name, round(self.clock.monotonic_s(), 3)))
        self.busy += 1
        self.busiest = max(self.busiest, self.busy)
        try:
            await self.clock.sleep(self.takes_s)
        finally:
            self.busy -= 1
        if waiting := self.failures.get(key.name):
            raise waiting.pop(0)
        again_s = self.again_s.pop(key.name, None)
        return DONE if again_s is None else Result(again_s)


class Frame:
    def __init__(self, pace: Pace) -> None:
        self.clock = LoopClock()
        self.scribe = Scribe(self.clock)
        self.sink = MemorySink()
        self.registry = CollectorRegistry()
        self.controller: Controller[Key] = Controller(
            "things",
            self.scribe,
            clock=self.clock,
            log=Log("t", self.sink, Level.DEBUG),
            meters=ControllerMeters(self.registry),
            pace=pace,
        )

    def counted(self, result: str) -> float:
        labels = {"controller": "things", "result": result}
        return self.registry.get_sample_value("controller_runtime_reconcile_total", labels) or 0.0

    def shown(self, metric: str) -> float | None:
        return self.registry.get_sample_value(metric, {"name": "things"})


SLOW_RETRY = Pace(backoff=Backoff(first_s=1, longest_s=60))


async def worked(frame: Frame, seconds: float = 100) -> None:
    running = asyncio.create_task(frame.controller.run())
    await frame.clock.sleep(seconds)
    frame.controller.stop()
    await running


def test_what_a_slow_namespace_holds_up_is_shown() -> None:
    async def run() -> None:
        frame = Frame(Pace(workers=2, timeout_s=60.0))
        frame.scribe.takes_s = 20.0
        for number in range(LONG_AT_ONCE + 3):
            frame.controller.queue.add(Key("slow", f"slow-{number}"))
        running = asyncio.create_task(frame.controller.run())
        seen = []
        for pause_s in (1.0, 16.0, 100.0):
            await frame.clock.sleep(pause_s)
            seen.append((frame.shown("muster_long_work"), frame.shown("muster_long_work_held")))
        frame.controller.stop()
        await running
        assert seen == [(0, 0), (LONG_AT_ONCE, 3), (0, 0)]
        assert len(frame.scribe.asked) == LONG_AT_ONCE + 3

    virtually(run())


def test_a_failing_key_is_retried_with_backoff_and_does_not_block_others() -> None:
    async def run() -> None:
        frame = Frame(SLOW_RETRY)
        frame.scribe.failures["bad"] = [RuntimeError("no"), RuntimeError("no")]
        for name in ("bad", "good"):
            frame.controller.queue.add(Key("here", name))
        await worked(frame)
        assert frame.scribe.asked == [("bad", 0), ("good", 0), ("bad", 1), ("bad", 3)]
        assert frame.counted("error") == 2
        assert frame.counted("success") == 2
        warnings = [fields for level, _, _, fields in frame.sink.events if level >= Level.WARNING]
        assert [fields["error"] for fields in warnings] == ["RuntimeError: no"] * 2

    virtually(run())


@pytest.mark.parametrize(
    "trouble", [Unreachable("away"), api_error(429, {}, b"", "GET /api")], ids=["away", "starting"]
)
def test_while_the_server_is_away_a_key_waits_seconds_however_often_it_failed(
    trouble: Exception,
) -> None:
    """After an outage of ten minutes nobody waits another ten."""

    async def run() -> None:
        frame = Frame(Pace(backoff=Backoff(first_s=1.0, longest_s=1000.0)))
        frame.scribe.failures["a"] = [trouble] * 50
        frame.controller.queue.add(Key("", "a"))
        await worked(frame, seconds=600)
        times = [at_s for _, at_s in frame.scribe.asked]
        assert max(later - sooner for sooner, later in pairwise(times)) <= 8.0
        assert len(times) == 51

    virtually(run())


@pytest.mark.parametrize(("asked_s", "again_s"), [(20.0, 20.0), (0.0, 1.0), (3600.0, 60.0)])
def test_a_server_that_asks_to_wait_is_left_alone_for_so_long_and_others_go_on(
    asked_s: float, again_s: float
) -> None:
    async def run() -> None:
        frame = Frame(SLOW_RETRY)
        frame.scribe.failures["a"] = [Throttled(Status(code=429), retry_after_s=asked_s)]
        for name in ("a", "b"):
            frame.controller.queue.add(Key("here", name))
        await worked(frame, seconds=100)
        assert frame.scribe.asked == [("a", 0), ("b", 0), ("a", again_s)]

    virtually(run())


def test_a_conflict_is_retried_without_a_warning() -> None:
    async def run() -> None:
        frame = Frame(SLOW_RETRY)
        frame.scribe.failures["a"] = [Conflict(Status(code=409))]
        frame.controller.queue.add(Key("here", "a"))
        await worked(frame)
        assert [name for name, _ in frame.scribe.asked] == ["a", "a"]
        assert not [event for event in frame.sink.events if event[0] >= Level.WARNING]

    virtually(run())


def test_a_key_with_requeue_after_is_reconciled_again() -> None:
    async def run() -> None:
        frame = Frame(SLOW_RETRY)
        frame.scribe.again_s["a"] = 30
        frame.controller.queue.add(Key("here", "a"))
        await worked(frame)
        assert frame.scribe.asked == [("a", 0), ("a", 30)]

    virtually(run())


def test_as_many_keys_are_reconciled_at_once_as_there_are_workers() -> None:
    async def run() -> None:
        frame = Frame(Pace(workers=3))
        frame.scribe.takes_s = 1
        for number in range(7):
            frame.controller.queue.add(Key("here", str(number)))
        await worked(frame, 2.5)
        assert frame.scribe.busiest == 3

    virtually(run())


def test_stopping_finishes_running_reconciles_and_starts_no_other() -> None:
    async def run() -> None:
        frame = Frame(Pace(workers=1))
        frame.scribe.takes_s = 10
        for name in ("a", "b"):
            frame.controller.queue.add(Key("here", name))
        await worked(frame, 5)
        assert frame.scribe.asked == [("a", 0)]
        assert frame.counted("success") == 1

    virtually(run())


def test_a_reconcile_that_times_out_is_a_failure() -> None:
    async def run() -> None:
        frame = Frame(Pace(timeout_s=5, backoff=Backoff(first_s=1000, longest_s=1000)))
        frame.scribe.takes_s = 50
        frame.controller.queue.add(Key("here", "a"))
        await worked(frame)
        assert frame.counted("error") == 1

    virtually(run())


@pytest.mark.row(3)
def test_a_change_enqueues_the_keys_of_the_old_and_of_the_new_object() -> None:
    async def run() -> None:
        frame = Frame(Pace())
        server = HistoryServer()
        connection = Connection(InProcessTransport(server.handle), frame.clock, Rand(1))
        informer = Informer(Reader(connection), THINGS, log=Log("t", frame.sink))

        def group(thing: Thing) -> Iterable[Key]:
            return (Key("", f"group-{thing.size}"),)

        frame.controller.watch(informer, group)
        frame.controller.watch(informer, own_key, matters=lambda old, new: new is None)
        following = asyncio.create_task(informer.run())
        working = asyncio.create_task(frame.controller.run())
        server.write("a", 1)
        await frame.clock.sleep(10)
        server.write("a", 2)
        await frame.clock.sleep(10)
        server.delete("a")
        await frame.clock.sleep(10)
        assert [name for name, _ in frame.scribe.asked] == [
            "group-1",
            "group-1",
            "group-2",
            "group-2",
            "a",
        ]
        frame.controller.stop()
        await working
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)

    virtually(run())


def test_changes_that_come_within_the_gathering_time_are_looked_at_once() -> None:
    async def run() -> None:
        frame = Frame(Pace(gather_s=2.0))
        server = HistoryServer()
        connection = Connection(InProcessTransport(server.handle), frame.clock, Rand(1))
        informer = Informer(Reader(connection), THINGS, log=Log("t", frame.sink))
        frame.controller.watch(informer, own_key)
        following = asyncio.create_task(informer.run())
        await frame.clock.sleep(10)
        working = asyncio.create_task(frame.controller.run())
        for size in range(6):
            server.write("a", size)
            await frame.clock.sleep(0.5)
        await frame.clock.sleep(10)
        assert [(name, at_s) for name, at_s in frame.scribe.asked] == [("a", 12.0), ("a", 14.0)]
        frame.controller.stop()
        await working
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)

    virtually(run())


def test_many_keys_that_wait_for_nothing_leave_turns_to_others() -> None:
    """A thousand pods whose owners are all remembered must not hold up the lease."""

    async def scenario() -> None:
        frame = Frame(Pace(workers=2))
        turns: list[int] = []

        async def at_once(key: Key) -> Result:
            frame.scribe.asked.append((key.name, 0.0))
            return DONE

        async def other() -> None:
            while len(frame.scribe.asked) < 1000:
                turns.append(len(frame.scribe.asked))
                await asyncio.sleep(0)

        frame.scribe.reconcile = at_once  # type: ignore[method-assign]
        for number in range(1000):
            frame.controller.queue.add(Key("a", str(number)))
        working = asyncio.ensure_future(frame.controller.run())
        await other()
        frame.controller.stop()
        await working
        assert len(turns) > 100

    virtually(scenario())


def test_a_controller_that_waits_for_its_turn_keeps_no_list_and_then_looks_at_all() -> None:
    async def main() -> None:
        frame = Frame(SLOW_RETRY)
        server = HistoryServer()
        connection = Connection(InProcessTransport(server.handle), frame.clock, Rand(1))
        informer = Informer(Reader(connection), THINGS, log=Log("t", frame.sink))
        frame.controller.watch(informer, own_key)
        following = asyncio.create_task(informer.run())
        for number in range(20):
            server.write(f"gone-{number}", 1)
            await frame.clock.sleep(1)
            server.delete(f"gone-{number}")
        server.write("there", 1)
        await frame.clock.sleep(10)
        assert len(frame.controller.queue) == 0
        working = asyncio.create_task(frame.controller.run())
        await frame.clock.sleep(10)
        assert [name for name, _ in frame.scribe.asked] == ["there"]
        for task in (following, working):
            task.cancel()
        await asyncio.gather(following, working, return_exceptions=True)

    virtually(main())
