"""Virtual time: jumps, order, and what cannot be under it."""

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from tests.support.virtual_time import virtually

from muster.base.clock import SystemClock
from muster.lab.simulate.gates import GatedLoop
from muster.lab.virtual_loop import (
    CountedTurns,
    LoopClock,
    Stuck,
    TimeStandsStill,
    run_virtually,
)


def test_an_hour_of_virtual_time_passes_at_once() -> None:
    async def main(clock: LoopClock) -> float:
        await clock.sleep(3600)
        return clock.monotonic_s()

    started_s = SystemClock().monotonic_s()
    assert run_virtually(main) == 3600
    assert SystemClock().monotonic_s() - started_s < 60


def test_sleepers_wake_in_the_order_of_their_times() -> None:
    async def main(clock: LoopClock) -> list[tuple[float, str]]:
        woken: list[tuple[float, str]] = []

        async def sleeper(name: str, *delays_s: float) -> None:
            for delay_s in delays_s:
                await clock.sleep(delay_s)
                woken.append((clock.monotonic_s(), name))

        await asyncio.gather(sleeper("a", 3, 3), sleeper("b", 1, 1, 5), sleeper("c", 2))
        return woken

    assert run_virtually(main) == [
        (1, "b"),
        (2, "c"),
        (2, "b"),
        (3, "a"),
        (6, "a"),
        (7, "b"),
    ]


def test_the_virtual_clock_never_falls_short_of_a_timer() -> None:
    async def main(clock: LoopClock) -> None:
        loop = asyncio.get_running_loop()
        for number in range(1, 400):
            await clock.sleep(0.1 / 3)
            until = loop.time() + number * 0.7
            woken = loop.create_future()
            loop.call_at(until, woken.set_result, None)
            await woken
            assert loop.time() >= until

    run_virtually(main)


def test_ready_callbacks_do_not_advance_virtual_time() -> None:
    async def main(clock: LoopClock) -> float:
        queue: asyncio.Queue[int] = asyncio.Queue()

        async def produce() -> None:
            for number in range(1000):
                await queue.put(number)
                await asyncio.sleep(0)

        task = asyncio.create_task(produce())
        assert [await queue.get() for _ in range(1000)] == list(range(1000))
        await task
        return clock.monotonic_s()

    assert run_virtually(main) == 0


@pytest.mark.parametrize("dropped", range(0, 40, 7))
def test_timers_of_the_same_time_fire_in_the_order_in_which_they_were_set(dropped: int) -> None:
    """Also when others were dropped in between, which reshapes the heap they are kept in."""

    async def main(clock: LoopClock) -> list[int]:
        loop, fired = asyncio.get_running_loop(), list[int]()
        others = [loop.call_later(1 + number % 5, fired.clear) for number in range(60)]
        for number in range(40):
            loop.call_at(10.0, fired.append, number)
            if number < dropped:
                others.pop().cancel()
        await clock.sleep(20)
        return fired

    assert run_virtually(main) == list(range(40))


def test_sets_of_tasks_and_futures_iterate_in_the_same_order_every_time() -> None:
    """Task groups, for one, cancel what is in a set; addresses differ from run to run."""
    kept: list[asyncio.Future[None]] = []

    async def main(clock: LoopClock) -> list[int]:
        loop = asyncio.get_running_loop()
        futures = [loop.create_future() for _ in range(50)]
        made = [*futures, *(loop.create_task(clock.sleep(1)) for _ in range(50))]
        kept.extend(made)
        await clock.sleep(2)
        return [made.index(one) for one in set(made)]

    assert run_virtually(main) == run_virtually(main)


def test_timeouts_are_virtual_too() -> None:
    async def main(clock: LoopClock) -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await asyncio.Event().wait()
        return clock.monotonic_s()

    assert run_virtually(main) == 30


def test_a_deadlock_is_an_error_and_not_a_hang() -> None:
    async def main(clock: LoopClock) -> None:
        await asyncio.Event().wait()

    with pytest.raises(Stuck, match=r"waits at: .*<locals>.main \(test_virtual_loop.py:\d+\)"):
        run_virtually(main)


Run = Callable[[Coroutine[Any, Any, None]], None]


def _gated(main: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=GatedLoop) as runner:
        runner.run(main)


every_loop = pytest.mark.parametrize(
    "run",
    [lambda main: run_virtually(lambda _: main), _gated, virtually],
    ids=["of the lab", "of a simulation", "of tests"],
)


@every_loop
def test_a_moment_that_does_not_end_is_an_error_and_says_who_is_busy(run: Run) -> None:
    async def spinning() -> None:
        for _ in itertools.count():
            await asyncio.sleep(0)

    async def main() -> None:
        # Also where whoever spins is somebody whom the story does not wait for.
        spins = asyncio.create_task(spinning())
        await asyncio.sleep(1.0)
        spins.cancel()

    busy_and_waiting = r"turns in one moment, busy at: \S+\.spinning \(.*waits at: \S+\.main \("
    with pytest.raises(TimeStandsStill, match=busy_and_waiting):
        run(main())


@every_loop
def test_waiting_beside_a_clock_that_ticks_for_what_never_comes_is_an_error(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for loop in (CountedTurns, *CountedTurns.__subclasses__()):
        monkeypatch.setattr(loop, "turns_max", 1000)

    async def ticking() -> None:
        for _ in itertools.count():
            await asyncio.sleep(1.0)

    async def main() -> None:
        ticks = asyncio.create_task(ticking())
        await asyncio.Event().wait()
        ticks.cancel()

    with pytest.raises(TimeStandsStill, match=r"1000 turns in all, \d+ s, .* waits at: \S+\.main"):
        run(main())


def test_threads_are_refused_under_virtual_time() -> None:
    async def main(clock: LoopClock) -> None:
        await asyncio.to_thread(print)

    with pytest.raises(RuntimeError, match="no threads"):
        run_virtually(main)
