"""The work queue: each key once, never concurrently, delayed when requested, with backoff."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.virtual_time import LoopClock, virtually

from muster.api.meta import Key
from muster.base.backoff import Backoff
from muster.client.limits import LONG_S
from muster.runtime.lanes import LONG_AT_ONCE, Lanes, namespace_of
from muster.runtime.workqueue import Closed, WorkQueue, work_off


def test_a_key_added_often_is_dispatched_once() -> None:
    async def run() -> list[str]:
        queue: WorkQueue[str] = WorkQueue(LoopClock())
        for key in ("a", "b", "a", "a", "c", "b"):
            queue.add(key)
        return [await queue.get() for _ in range(len(queue))]

    assert virtually(run()) == ["a", "b", "c"]


def test_a_key_added_while_it_is_processed_is_dispatched_again_afterwards() -> None:
    async def run() -> None:
        queue: WorkQueue[str] = WorkQueue(LoopClock())
        queue.add("a")
        assert await queue.get() == "a"
        queue.add("a")
        assert len(queue) == 0, "never twice at the same time"
        queue.done("a")
        assert await queue.get() == "a"
        queue.done("a")
        assert len(queue) == 0

    virtually(run())


def test_a_delayed_key_is_dispatched_when_due_and_the_earliest_time_counts() -> None:
    async def run() -> list[tuple[str, float]]:
        clock = LoopClock()
        queue: WorkQueue[str] = WorkQueue(clock)
        queue.add_after("late", 9)
        queue.add_after("early", 2)
        queue.add_after("moved", 8)
        queue.add_after("moved", 1)
        queue.add_after("moved", 5)
        queue.add_after("now", 0)
        came = []
        for _ in range(4):
            key = await queue.get()
            came.append((key, round(clock.monotonic_s(), 3)))
            queue.done(key)
        assert queue.delayed == 0
        await clock.sleep(100)
        assert len(queue) == 0
        return came

    assert virtually(run()) == [("now", 0), ("moved", 1), ("early", 2), ("late", 9)]


def test_a_failing_key_backs_off_until_it_is_forgotten() -> None:
    async def run() -> None:
        queue: WorkQueue[str] = WorkQueue(LoopClock(), Backoff(first_s=1, longest_s=5))
        assert [queue.retry("a") for _ in range(4)] == [1, 2, 4, 5]
        queue.forget("a")
        assert queue.retry("a") == 1
        queue.close()

    virtually(run())


def test_the_key_of_a_cancelled_worker_is_dispatched_to_another() -> None:
    async def run() -> None:
        queue: WorkQueue[str] = WorkQueue(LoopClock())
        first, second = (asyncio.create_task(queue.get()) for _ in range(2))
        await asyncio.sleep(0)
        queue.add("a")
        first.cancel()
        assert await second == "a"

    virtually(run())


def test_a_closed_queue_dispatches_nothing_more() -> None:
    async def run() -> None:
        queue: WorkQueue[str] = WorkQueue(LoopClock())
        waiting = asyncio.create_task(queue.get())
        await asyncio.sleep(0)
        queue.add_after("later", 5)
        queue.close()
        queue.add("a")
        with pytest.raises(Closed):
            await waiting
        with pytest.raises(Closed):
            await queue.get()

    virtually(run())


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "after", "sleep"]), st.integers(0, 3), st.integers(0, 5)),
        max_size=40,
    ),
    st.integers(1, 3),
)
def test_every_key_is_processed_after_its_last_add_and_never_concurrently(
    script: list[tuple[str, int, int]], workers: int
) -> None:
    async def run() -> None:
        clock = LoopClock()
        queue: WorkQueue[int] = WorkQueue(clock)
        busy: set[int] = set()
        worked_s: dict[int, float] = {}
        wanted_s: dict[int, float] = {}

        async def do(key: int) -> None:
            assert key not in busy
            busy.add(key)
            worked_s[key] = clock.monotonic_s()
            await clock.sleep(0.5)
            busy.discard(key)

        working = asyncio.create_task(work_off(queue, workers, do))
        for what, key, amount in script:
            if what == "add":
                queue.add(key)
                wanted_s[key] = clock.monotonic_s()
            elif what == "after":
                queue.add_after(key, amount)
                wanted_s.setdefault(key, clock.monotonic_s())
            else:
                await clock.sleep(amount / 2)
        await clock.sleep(100)
        assert len(queue) == queue.delayed == queue.working == 0
        assert all(worked_s[key] >= at_s for key, at_s in wanted_s.items())
        queue.close()
        await working

    virtually(run())


def test_a_key_whose_work_is_broken_off_is_no_longer_in_work() -> None:
    async def run() -> None:
        queue: WorkQueue[str] = WorkQueue(LoopClock())

        async def do(key: str) -> None:
            if key == "bad":
                raise OSError("broken")
            await asyncio.Event().wait()

        queue.add("waits")
        queue.add("bad")
        with pytest.raises(ExceptionGroup):
            await work_off(queue, 2, do)
        assert queue.working == 0

    virtually(run())


def test_work_that_waits_for_nothing_lets_others_have_their_turn() -> None:
    async def run() -> None:
        queue: WorkQueue[int] = WorkQueue(LoopClock())
        done: list[int] = []

        async def do(key: int) -> None:
            done.append(key)

        for key in range(100):
            queue.add(key)
        working = asyncio.create_task(work_off(queue, 1, do))
        for _ in range(10):
            await asyncio.sleep(0)
        assert 0 < len(done) < 100
        queue.close()
        await working

    virtually(run())


def by_namespace() -> Lanes[Any]:
    return Lanes(namespace_of)


def _keys(namespace: str, count: int) -> list[Key]:
    return [Key(namespace, f"{number:02}") for number in range(count)]


def test_work_of_one_namespace_that_lasts_long_keeps_no_worker_from_others() -> None:
    async def run() -> None:
        clock = LoopClock()
        queue: WorkQueue[Key] = WorkQueue(clock)
        begun: dict[Key, float] = {}
        most = under_way = 0

        async def do(key: Key) -> None:
            nonlocal most, under_way
            begun[key] = clock.monotonic_s()
            if key.namespace == "slow":
                under_way += 1
                most = max(most, under_way)
                await clock.sleep(30.0)
                under_way -= 1

        for key in (*_keys("slow", 40), *_keys("quick", 5)):
            queue.add(key)
        working = asyncio.create_task(work_off(queue, 4, do, by_namespace()))
        await clock.sleep(10.0)
        assert all(begun[key] <= 2 * LONG_S for key in _keys("quick", 5))
        late = Key("quick", "late")
        queue.add(late)
        await clock.sleep(1.0)
        assert begun[late] == 10.0
        await clock.sleep(300.0)
        assert len(begun) == 46, "whoever was held is begun when others have ended"
        assert most < LONG_AT_ONCE + 4
        queue.close()
        await working

    virtually(run())


def test_a_key_whose_work_lasts_long_is_not_begun_a_second_time_meanwhile() -> None:
    async def run() -> None:
        clock = LoopClock()
        queue: WorkQueue[Key] = WorkQueue(clock)
        begun: list[float] = []

        async def do(key: Key) -> None:
            begun.append(clock.monotonic_s())
            await clock.sleep(10.0)

        working = asyncio.create_task(work_off(queue, 4, do, by_namespace()))
        for _ in range(3):
            queue.add(Key("slow", "a"))
            await clock.sleep(3.0)
        await clock.sleep(12.0)
        queue.close()
        await working
        assert begun == [0.0, 10.0]

    virtually(run())


def test_keys_of_no_namespace_keep_their_workers() -> None:
    async def run() -> None:
        clock = LoopClock()
        queue: WorkQueue[str] = WorkQueue(clock)
        begun: list[float] = []

        async def do(key: str) -> None:
            begun.append(clock.monotonic_s())
            await clock.sleep(10.0)

        for key in ("a", "b", "c"):
            queue.add(key)
        working = asyncio.create_task(work_off(queue, 2, do, by_namespace()))
        await clock.sleep(15.0)
        queue.close()
        await working
        assert begun == [0.0, 0.0, 10.0]

    virtually(run())
