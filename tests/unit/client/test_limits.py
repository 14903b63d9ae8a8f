"""Client-side rate limits: lanes by priority, slots in flight, cancelled calls."""

import asyncio

import pytest
from tests.support.virtual_time import LoopClock, virtually

from muster.client.limits import Lane, Limiter, Limits


def test_after_the_burst_calls_go_at_the_configured_rate() -> None:
    async def times_s() -> list[float]:
        clock = LoopClock()
        limiter = Limiter(clock, Limits(per_s=10, burst=3))
        gone: list[float] = []

        async def call() -> None:
            async with limiter.turn(Lane.NORMAL):
                gone.append(round(clock.monotonic_s(), 3))

        await asyncio.gather(*(call() for _ in range(6)))
        return gone

    assert virtually(times_s()) == [0, 0, 0, 0.1, 0.2, 0.3]


def test_urgent_calls_overtake_those_that_wait() -> None:
    async def order() -> list[str]:
        limiter = Limiter(LoopClock(), Limits(per_s=10, burst=1))
        gone: list[str] = []

        async def call(name: str, lane: Lane) -> None:
            async with limiter.turn(lane):
                gone.append(name)

        await asyncio.gather(
            call("first", Lane.BACKGROUND),
            call("event", Lane.BACKGROUND),
            call("status", Lane.NORMAL),
            call("bind a", Lane.URGENT),
            call("lease", Lane.LEASE),
            call("bind b", Lane.URGENT),
        )
        return gone

    assert virtually(order()) == ["first", "lease", "bind a", "bind b", "status", "event"]


def test_a_burst_of_urgent_calls_does_not_starve_the_others() -> None:
    """10,000 binds at 50 a second last 200 s; nobody else waits for as long as that."""

    async def waits_s() -> dict[str, float]:
        clock = LoopClock()
        limiter = Limiter(clock, Limits(per_s=50, burst=300, in_flight=64))
        gone: dict[str, float] = {}

        async def call(name: str, lane: Lane) -> None:
            async with limiter.turn(lane):
                gone[name] = clock.monotonic_s()

        binds = [call(f"bind {number}", Lane.URGENT) for number in range(10_000)]
        others = [call("event", Lane.BACKGROUND), call("status", Lane.NORMAL)]
        await asyncio.gather(*binds, *others, call("lease", Lane.LEASE))
        return gone

    gone = virtually(waits_s())
    assert gone["lease"] == 0
    assert gone["status"] < 3
    assert gone["event"] < 3
    assert max(gone.values()) == pytest.approx((10_002 - 300) / 50, rel=0.01)


def test_those_who_aged_get_a_part_of_the_turns_and_urgent_calls_the_rest() -> None:
    async def order() -> list[str]:
        limiter = Limiter(LoopClock(), Limits(per_s=10, burst=1))
        gone: list[str] = []

        async def call(name: str, lane: Lane) -> None:
            async with limiter.turn(lane):
                gone.append(name)

        binds = [call("bind", Lane.URGENT) for _ in range(100)]
        await asyncio.gather(*binds, *(call("event", Lane.BACKGROUND) for _ in range(100)))
        return gone

    gone = virtually(order())
    assert gone[:20].count("event") == 0
    assert gone[25:75].count("event") == 10


def test_no_more_calls_are_in_flight_than_the_limit() -> None:
    async def most() -> int:
        clock = LoopClock()
        limiter = Limiter(clock, Limits(per_s=1000, burst=1000, in_flight=4))
        running, peak = 0, 0

        async def call() -> None:
            nonlocal running, peak
            async with limiter.turn(Lane.NORMAL):
                running += 1
                peak = max(peak, running)
                await clock.sleep(1)
                running -= 1

        await asyncio.gather(*(call() for _ in range(11)))
        assert clock.monotonic_s() == pytest.approx(3)
        return peak

    assert virtually(most()) == 4


def test_a_cancelled_call_leaves_its_turn_to_the_next() -> None:
    async def order() -> list[str]:
        clock = LoopClock()
        limiter = Limiter(clock, Limits(per_s=1000, burst=1000, in_flight=1))
        gone: list[str] = []

        async def call(name: str) -> None:
            async with limiter.turn(Lane.NORMAL):
                gone.append(name)
                await clock.sleep(1)

        tasks = [asyncio.create_task(call(name)) for name in "abc"]
        await clock.sleep(0.5)
        tasks[1].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return gone

    assert virtually(order()) == ["a", "c"]


def test_cancelling_in_the_very_step_of_the_grant_frees_the_slot() -> None:
    async def order() -> list[str]:
        clock = LoopClock()
        limiter = Limiter(clock, Limits(per_s=1000, burst=1000, in_flight=1))
        gone: list[str] = []

        async def call(name: str) -> None:
            async with limiter.turn(Lane.NORMAL):
                gone.append(name)

        async with limiter.turn(Lane.NORMAL):
            waiting = asyncio.create_task(call("cancelled"))
            behind = asyncio.create_task(call("behind"))
            await clock.sleep(0.1)
        waiting.cancel()
        await asyncio.gather(waiting, behind, return_exceptions=True)
        return gone

    assert virtually(order()) == ["behind"]


@pytest.mark.parametrize("bad", [{"per_s": 0.0}, {"burst": 0}, {"in_flight": -1}])
def test_non_positive_limits_are_refused(bad: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        Limits(**bad)


def test_few_in_the_background_are_under_way_beside_urgent_calls_and_none_waits_for_long() -> None:
    async def story() -> tuple[list[str], list[str], dict[str, float]]:
        clock = LoopClock()
        limiter = Limiter(clock, yields_to_urgent=True)
        under_way, gone = list[str](), dict[str, float]()

        async def call(name: str, lane: Lane, takes_s: float) -> None:
            async with limiter.turn(lane):
                gone[name] = clock.monotonic_s()
                under_way.append(name)
                await clock.sleep(takes_s)
                under_way.remove(name)

        async with asyncio.TaskGroup() as calls:
            calls.create_task(call("bind", Lane.URGENT, 1.0))
            for number in range(5):
                calls.create_task(call(f"map {number}", Lane.NORMAL, 0.1))
                calls.create_task(call(f"event {number}", Lane.BACKGROUND, 10.0))
            await clock.sleep(0.5)
            beside = sorted(under_way)
            await clock.sleep(1.0)
            after = sorted(under_way)
            calls.create_task(call("bind that hangs", Lane.URGENT, 100.0))
            for number in range(10, 13):
                calls.create_task(call(f"event {number}", Lane.BACKGROUND, 100.0))
        return beside, after, gone

    beside, after, gone = virtually(story())
    assert beside == ["bind", "event 0", "event 1", "event 2"]
    assert len(after) == 5
    assert max(at_s for name, at_s in gone.items() if name.startswith("map")) == 0
    assert 3 < gone["event 12"] < 5
