"""Usage is read beside the cycles: a failure keeps what there is, and what is old is said to be."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import pytest
from tests.support.virtual_time import LoopClock, virtually

from muster.base.log import Log, MemorySink
from muster.model.usage import QueueUsage, UsageDatabase
from muster.usage.fetcher import UsageFetcher
from muster.usage.source import NoUsage

DATABASE = UsageDatabase("prometheus", "http://p")


class Scripted:
    """Answers as told."""

    def __init__(self) -> None:
        self.answer: Callable[[float], QueueUsage] = lambda now_s: QueueUsage(
            now_s, {"a": {"gpu": 0.5}}
        )
        self.takes_s = 0.0
        self.asked_s: list[float] = []
        self.is_closed = False

    async def read(self, now_s: float) -> QueueUsage:
        self.asked_s.append(now_s)
        await asyncio.sleep(self.takes_s)
        return self.answer(now_s)

    async def close(self) -> None:
        self.is_closed = True


class World:
    def __init__(self) -> None:
        self.source = Scripted()
        self.sink = MemorySink()
        self.heard: list[QueueUsage | None] = []
        self.clock = LoopClock()
        self.fetcher = UsageFetcher(self.make, self.clock, Log("test", self.sink))
        self.fetcher.on_reading = self.heard.append
        self.told_stale = 0
        self.fetcher.on_stale = self.count_stale

    def count_stale(self) -> None:
        self.told_stale += 1

    def make(self, _: UsageDatabase) -> Scripted:
        return self.source

    def break_source(self, error: Exception) -> None:
        def fail(_: float) -> QueueUsage:
            raise error

        self.source.answer = fail

    async def run(self, for_s: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(for_s):
                await self.fetcher.run()


def is_stale(world: World) -> bool:
    return world.fetcher.is_stale


@pytest.mark.row(31)
def test_usage_is_read_at_once_and_then_every_interval() -> None:
    async def story() -> None:
        world = World()
        world.fetcher.configure(DATABASE)
        began_s = world.clock.now_s()
        await world.run(150)
        assert [at_s - began_s for at_s in world.source.asked_s] == [0, 60, 120]
        assert world.heard[-1] == QueueUsage(began_s + 120, {"a": {"gpu": 0.5}})
        assert world.source.is_closed

    virtually(story())


@pytest.mark.row(32)
@pytest.mark.parametrize("error", [NoUsage("away"), RuntimeError("a bug")])
def test_a_failed_fetch_keeps_the_old_usage_which_becomes_stale_and_fresh_again(
    error: Exception,
) -> None:
    async def story() -> None:
        world = World()
        world.fetcher.configure(DATABASE)
        await world.run(30)
        good = world.source.answer
        world.break_source(error)
        await world.run(200)
        assert world.fetcher.newest is not None
        assert world.sink.messages().count("what is used is stale") == 0
        await world.run(150)
        assert is_stale(world)
        assert world.fetcher.newest is not None, "it is still what cycles use"
        assert world.sink.messages().count("what is used is stale") == 1
        assert world.told_stale == 1, "whoever must not go by it"
        world.source.answer = good
        await world.run(10)
        assert not is_stale(world)
        assert world.sink.messages().count("what is used is fresh") >= 1

    virtually(story())


@pytest.mark.row(31)
def test_the_first_cycle_waits_for_usage_and_not_for_ever() -> None:
    async def story() -> None:
        world = World()
        world.source.takes_s = 7
        world.fetcher.configure(DATABASE)
        running = asyncio.ensure_future(world.fetcher.run())
        await world.fetcher.first()
        assert world.clock.monotonic_s() == 7
        world.break_source(NoUsage("away"))
        world.fetcher.configure(UsageDatabase("prometheus", "http://q"))
        await world.fetcher.first()
        assert world.clock.monotonic_s() == 67
        assert world.fetcher.newest is None
        running.cancel()

    virtually(story())


@pytest.mark.row(30)
def test_without_a_source_nothing_is_read_and_nobody_waits() -> None:
    async def story() -> None:
        world = World()
        await world.fetcher.first()
        assert world.clock.monotonic_s() == 0
        await world.run(1000)
        assert world.source.asked_s == []
        assert not world.fetcher.is_stale

    virtually(story())


def test_another_configuration_is_read_at_once_and_the_old_usage_no_longer_counts() -> None:
    async def story() -> None:
        world = World()
        world.fetcher.configure(DATABASE)
        running = asyncio.ensure_future(world.fetcher.run())
        await asyncio.sleep(10)
        old, world.source = world.source, Scripted()
        world.fetcher.configure(UsageDatabase("prometheus", "http://q"))
        assert world.heard[-1] is None
        await asyncio.sleep(0.1)
        assert len(world.source.asked_s) == 1
        assert old.is_closed
        world.fetcher.configure(None)
        await asyncio.sleep(1000)
        assert len(world.source.asked_s) == 1
        assert world.heard[-1] is None
        running.cancel()

    virtually(story())


def test_an_answer_that_comes_after_a_new_configuration_is_not_used() -> None:
    async def story() -> None:
        world = World()
        world.source.takes_s = 5
        world.fetcher.configure(DATABASE)
        running = asyncio.ensure_future(world.fetcher.run())
        await asyncio.sleep(1)
        world.fetcher.configure(None)
        await asyncio.sleep(30)
        assert world.fetcher.newest is None
        running.cancel()

    virtually(story())
