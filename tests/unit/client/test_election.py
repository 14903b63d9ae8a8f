"""At most one candidate leads at any time, and another soon after the last one stopped."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.small_store import SmallStore
from tests.support.virtual_time import LoopClock, virtually

from muster.api.meta import Key
from muster.base.log import Log, MemorySink
from muster.base.rand import Rand
from muster.client.connection import Connection
from muster.client.election import Elector, LeadershipLost, Timing
from muster.client.errors import BadAccess
from muster.client.read import Reader
from muster.client.transport import InProcessTransport, Request, Response
from muster.client.write import Writer

LEASE = Key("system", "scheduler")
PATH = "/apis/coordination.k8s.io/v1/namespaces/system/leases/scheduler"


def candidate(store: SmallStore, name: str, seed: int = 1) -> Elector:
    connection = Connection(InProcessTransport(store.handle), LoopClock(), Rand(seed))
    log = Log(name, MemorySink())
    return Elector(Reader(connection), Writer(connection), LEASE, name, log=log)


async def lead(elector: Elector) -> None:
    await elector.acquire()
    await elector.renew()


@contextlib.asynccontextmanager
async def leading(elector: Elector) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(lead(elector))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_the_first_candidate_leads_and_the_second_waits() -> None:
    async def run() -> None:
        store, clock = SmallStore(), LoopClock()
        first, second = candidate(store, "first"), candidate(store, "second")
        async with leading(first), leading(second):
            await clock.sleep(100)
            assert (first.is_leader, second.is_leader) == (True, False)
            assert second.leader == "first"
            spec = store.objects[PATH]["spec"]
            assert spec["holderIdentity"] == "first"
            assert spec["leaseDurationSeconds"] == 15
            assert spec["leaseTransitions"] == 0

    virtually(run())


def test_a_lost_leader_is_replaced_within_the_lease_and_a_retry_period() -> None:
    async def run() -> None:
        store, clock = SmallStore(), LoopClock()
        first, second = candidate(store, "first"), candidate(store, "second")
        async with leading(first) as gone:
            await clock.sleep(7)
            async with leading(second):
                await clock.sleep(20)
                gone.cancel()
                vanished_s = clock.monotonic_s()
                while not second.is_leader:
                    await clock.sleep(0.1)
                assert clock.monotonic_s() - vanished_s < 15 + 5.6
                assert store.objects[PATH]["spec"]["leaseTransitions"] == 1

    virtually(run())


def test_a_released_lease_is_acquired_at_the_next_retry() -> None:
    async def run() -> None:
        store, clock = SmallStore(), LoopClock()
        first, second = candidate(store, "first"), candidate(store, "second")
        async with leading(first):
            await clock.sleep(20)
        async with leading(second):
            await clock.sleep(3)
            assert not second.is_leader
            await first.release()
            assert not first.is_leader
            await clock.sleep(6)
            assert second.is_leader

    virtually(run())


def test_a_leader_without_server_stops_by_its_renew_deadline() -> None:
    async def run() -> None:
        store, clock = SmallStore(), LoopClock()
        elector = candidate(store, "first")
        async with leading(elector) as task:
            await clock.sleep(11)
            store.away = True
            cut_s = clock.monotonic_s()
            with pytest.raises(LeadershipLost, match=r"not renewed for 10\.0 s"):
                await task
            assert clock.monotonic_s() - cut_s <= 10
            assert not elector.is_leader

    virtually(run())


def test_a_short_outage_of_the_server_does_not_lose_the_lease() -> None:
    async def run() -> None:
        store, clock = SmallStore(), LoopClock()
        elector = candidate(store, "first")
        async with leading(elector):
            await clock.sleep(11)
            store.away = True
            await clock.sleep(8)
            store.away = False
            await clock.sleep(50)
            assert elector.is_leader

    virtually(run())


def test_a_leader_whose_lease_has_another_holder_stops() -> None:
    async def run() -> None:
        store, clock = SmallStore(), LoopClock()
        elector = candidate(store, "first")
        async with leading(elector) as task:
            await clock.sleep(11)
            store.version += 1
            store.objects[PATH]["metadata"]["resourceVersion"] = str(store.version)
            store.objects[PATH]["spec"]["holderIdentity"] = "thief"
            with pytest.raises(LeadershipLost, match="thief leads"):
                await task

    virtually(run())


@pytest.mark.parametrize(
    "error",
    [BadAccess("token", "the token file is empty"), TypeError("codec"), RuntimeError("closed")],
    ids=repr,
)
def test_a_failure_of_any_kind_that_passes_does_not_lose_the_lease(error: Exception) -> None:
    async def run() -> None:
        store, clock = SmallStore(), LoopClock()
        broken: list[Exception] = []

        async def handle(request: Request) -> Response:
            if broken:
                raise broken.pop()
            return await store.handle(request)

        connection = Connection(InProcessTransport(handle), clock, Rand(1))
        log = Log("t", MemorySink())
        elector = Elector(Reader(connection), Writer(connection), LEASE, "one", log=log)
        broken.append(error)
        async with leading(elector):
            await clock.sleep(11)
            broken.append(error)
            await clock.sleep(11)
            assert elector.is_leader

    virtually(run())


@pytest.mark.parametrize("bad", [(10, 10, 5), (15, 5, 5), (15, 10, 0)])
def test_lease_timing_that_allows_two_leaders_is_refused(bad: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="must outlast"):
        Timing(*bad)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from(["cut", "heal", "wait"]), st.integers(1, 40)),
        max_size=12,
    )
)
def test_there_are_never_two_leaders(script: list[tuple[int, str, int]]) -> None:
    async def run() -> None:
        clock = LoopClock()
        store = SmallStore()
        cut: set[int] = set()

        def seen_by(number: int) -> Elector:
            async def handle(request: object) -> object:
                store.away = number in cut
                return await store.handle(request)  # type: ignore[arg-type]

            connection = Connection(
                InProcessTransport(handle),  # type: ignore[arg-type]
                clock,
                Rand(number),
            )
            log = Log("t", MemorySink())
            return Elector(Reader(connection), Writer(connection), LEASE, f"c{number}", log=log)

        electors = [seen_by(number) for number in range(3)]

        async def forever(elector: Elector) -> None:
            while True:
                with contextlib.suppress(LeadershipLost):
                    await lead(elector)

        tasks = [asyncio.create_task(forever(elector)) for elector in electors]
        for number, what, seconds in script:
            if what == "cut":
                cut.add(number)
            if what == "heal":
                cut.discard(number)
            for _ in range(seconds * 4):
                await clock.sleep(0.25)
                assert sum(elector.is_leader for elector in electors) <= 1
        cut.clear()
        await clock.sleep(60)
        assert sum(elector.is_leader for elector in electors) == 1
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    virtually(run())


def test_a_lease_counts_from_when_it_was_asked_for_however_late_the_answer_is() -> None:
    """Others count from when the server stored it, which may be right after we asked."""

    async def run() -> None:
        store = SmallStore()

        async def late(request: Request) -> Response:
            answer = await store.handle(request)
            await asyncio.sleep(2.0)  # It is stored already.
            return answer

        connection = Connection(InProcessTransport(late), LoopClock(), Rand(1))
        log = Log("one", MemorySink())
        elector = Elector(Reader(connection), Writer(connection), LEASE, "one", log=log)
        await elector.acquire()
        # The look that found no lease, and the lease that was made then.
        assert elector.leads_for_s() == pytest.approx(10.0 - 2 * 2.0)

    virtually(run())
