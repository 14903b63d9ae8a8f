"""Deciding goes on while earlier decisions are written; each is written once, and nothing waits for
ever.
"""

import asyncio
from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from tests.support.lab import BY_REQUEST
from tests.support.scheduler_world import (
    Body,
    SchedulerWorld,
    group,
    node,
    pod,
    queue,
    request,
    told,
)
from tests.support.scripted import Answer, refused
from tests.support.virtual_time import LoopClock, virtually

from muster.base.log import Level
from muster.base.timefmt import rfc3339
from muster.client.transport import Request
from muster.engine.plan import Bind, Evict, Plan
from muster.model.status import TaskStatus
from muster.services.scheduler.write_turns import WriteTurns

POOL = "kai.scheduler/node-pool"
PODS = "/api/v1/namespaces/team/pods"


class SlowServer:
    """Takes a while for each write of a kind; notes when it began, by the name in its body."""

    def __init__(self, world: SchedulerWorld, part: str, takes_s: float) -> None:
        self._world = world
        self._part = part
        self.takes_s = takes_s
        self.begun_s: dict[str, float] = {}
        self._agree = world.server.handle
        world.supervisor.connection._transport._handle = self._handle  # type: ignore[attr-defined]

    async def _handle(self, asked: Request) -> Any:
        if asked.method != "GET" and self._part in asked.path:
            self.begun_s[f"{asked.path} {asked.body!r}"] = self._world.clock.monotonic_s()
            await asyncio.sleep(self.takes_s)
        return await self._agree(asked)

    def began_s(self, name: str) -> float:
        (found,) = [at_s for what, at_s in self.begun_s.items() if f'"podName":"{name}"' in what]
        return found


def alone(world: SchedulerWorld, *names: str, **more: Any) -> None:
    """Pods, each a job of its own, and on the server too."""
    for name in names:
        body = pod(name, **more)
        world.server.stored[f"{PODS}/{name}"] = body
        world.show(group(name), body)


def test_a_newcomer_is_decided_in_the_next_cycle_while_many_binds_are_being_written() -> None:
    pods = 2000

    async def scenario(world: SchedulerWorld) -> None:
        slow = SlowServer(world, "/bindrequests", takes_s=0.64)  # 50 writes a second
        world.show(queue(), *(node(f"n{number}", gpus=100) for number in range(30)))
        alone(world, *(f"p{number}" for number in range(pods)))
        running = asyncio.create_task(world.loop.run())
        await world.clock.sleep(2.0)
        assert len(slow.begun_s) < 200
        came_s = world.clock.monotonic_s()
        alone(world, "newcomer")
        await world.clock.sleep(1.1)
        assert world.task("newcomer").status is TaskStatus.BINDING
        await world.clock.sleep(3.0)
        assert slow.began_s("newcomer") - came_s < 3.0
        await world.clock.sleep(60.0)
        written = Counter(body["metadata"]["name"] for _, _, body in bind_requests(world))
        assert len(written) == pods + 1
        assert set(written.values()) == {1}
        world.loop.stop()
        await running

    told(scenario, replace(BY_REQUEST, write_workers=32))


def bind_requests(world: SchedulerWorld) -> list[tuple[str, str, Any]]:
    return [one for one in world.server.written("/bindrequests") if one[0] == "POST"]


def test_plans_take_turns_at_writing() -> None:
    async def scenario() -> list[int]:
        turns, clock, order = WriteTurns(at_once=1), LoopClock(), []

        async def write(plan: int) -> None:
            order.append(plan)
            await asyncio.sleep(1.0)

        async with asyncio.TaskGroup() as work:
            for plan, writes in ((1, 5), (2, 2), (3, 1)):
                for _ in range(writes):
                    work.create_task(
                        turns.until_unthrottled(plan, "ns", clock, partial(write, plan))
                    )
        return order

    assert virtually(scenario()) == [1, 1, 2, 3, 1, 2, 1, 1]


def test_writes_that_take_half_a_minute_in_one_namespace_keep_nobody_elses_turn() -> None:
    async def scenario() -> tuple[list[float], int]:
        turns, clock = WriteTurns(at_once=2), LoopClock()
        began_s: list[float] = []
        under_way = most = 0

        async def slow() -> None:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(29.0)
            under_way -= 1

        async def quick() -> None:
            began_s.append(clock.monotonic_s())

        async with asyncio.TaskGroup() as work:
            start_s = clock.monotonic_s()
            for _ in range(6):
                work.create_task(turns.until_unthrottled(1, "slow", clock, slow))
            for plan in (2, 3, 4):
                await asyncio.sleep(10.0)
                work.create_task(turns.until_unthrottled(plan, "ns", clock, quick))
        assert clock.monotonic_s() - start_s == 29.0 * 5, "one after the other, but for the first"
        return [at_s - start_s for at_s in began_s], most

    assert virtually(scenario()) == ([10.0, 20.0, 30.0], 2)


def test_a_write_that_is_cancelled_is_not_made_and_leaves_no_trace() -> None:
    async def scenario() -> None:
        turns, ended = WriteTurns(at_once=1), []

        async def slow() -> None:
            await asyncio.sleep(29.0)
            ended.append("slow")

        writing = [
            asyncio.create_task(turns.until_unthrottled(1, "ns", LoopClock(), slow))
            for _ in range(3)
        ]
        await asyncio.sleep(10.0)
        writing[0].cancel()
        await asyncio.gather(writing[0], return_exceptions=True)
        await asyncio.gather(*writing[1:])
        assert ended == ["slow", "slow"]

    virtually(scenario())


def test_a_turn_of_somebody_who_was_cancelled_goes_to_the_next() -> None:
    async def scenario() -> None:
        turns, clock = WriteTurns(at_once=1), LoopClock()

        async def write() -> None:
            await asyncio.sleep(1.0)

        first, second, third = (
            asyncio.create_task(turns.until_unthrottled(1, "ns", clock, write)) for _ in range(3)
        )
        await asyncio.sleep(0.5)
        second.cancel()
        await asyncio.sleep(0.5)  # The first ends in this very step.
        first.cancel()
        await asyncio.wait((first, second, third))
        assert not third.cancelled()

    virtually(scenario())


def test_victims_count_as_leaving_before_the_first_of_them_was_asked_to() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        SlowServer(world, "/pods/", takes_s=5.0)
        stale_gang(world, "a", "b", "c")
        await world.loop.decide()
        assert set(world.statuses().values()) == {TaskStatus.RELEASING}
        result = await world.loop.decide()
        assert result.plan.evictions == ()
        await world.clock.sleep(60.0)

    world = told(scenario)
    evicted = Counter(path for _, path, _ in world.server.written("/eviction"))
    assert evicted == {f"{PODS}/{name}/eviction": 1 for name in ("a", "b", "c")}


def stale_gang(world: SchedulerWorld, *names: str) -> None:
    """A gang that has been below its minimum for too long."""
    stale = {"annotations": {"kai.scheduler/stale-podgroup-timestamp": "2020-01-01T00:00:00Z"}}
    world.show(node("n1"), queue(), group("old", minimum=len(names) + 1, metadata=stale))
    for name in names:
        world.show(pod(name, group="old", node="n1"))


def test_victims_that_were_not_asked_to_leave_after_a_refusal_run_on() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        stale_gang(world, "a", "b", "c")
        for name in "abc":
            world.server.stored[f"{PODS}/{name}"] = pod(name, group="old", node="n1")
        world.server.react = lambda asked: (
            refused(403, "Forbidden", "no") if "/eviction" in asked.path else None
        )
        await world.loop.cycle()
        await world.settle()
        assert set(world.statuses().values()) == {TaskStatus.RUNNING}

    told(scenario)


@pytest.mark.parametrize("is_refused", [False, True])
def test_who_victims_make_room_for_is_bound_when_all_of_them_were_told_to_go(
    is_refused: bool,
) -> None:
    """One that stays still holds its part of the limit of the queue."""

    async def scenario(world: SchedulerWorld) -> None:
        world.show(node("n1"), queue(), group("old"))
        for name in ("a", "b"):
            world.show(pod(name, group="old", node="n1"))
        alone(world, "new")
        slow = SlowServer(world, "/eviction", takes_s=5.0)
        if is_refused:
            world.server.react = lambda asked: (
                refused(403, "Forbidden", "no") if asked.path.endswith("/b/eviction") else None
            )
        snapshot, start = world.snapshot(), world.loop._committer.start
        gone = [Evict(name, "team/old", "n1", "preempt", "team/new") for name in ("a", "b")]
        start(Plan(evictions=tuple(gone)), snapshot, {})
        start(Plan(binds=(Bind("new", "team/new", "n1"),)), snapshot, {})
        assert world.task("new").status is TaskStatus.BINDING
        await world.clock.sleep(slow.takes_s + 1.0)
        assert not world.server.written("/bindrequests"), "one victim was not asked yet"
        await world.loop._committer.written()
        assert len(world.server.written("/bindrequests")) == (0 if is_refused else 1)
        waits_on = TaskStatus.PENDING if is_refused else TaskStatus.BINDING
        assert world.task("new").status is waits_on
        assert not world.loop._committer._rooms

    told(scenario)


def test_a_stale_bind_request_is_deleted_once_while_that_takes_long() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        SlowServer(world, "/bindrequests", takes_s=5.0)
        world.show(queue(), node("n1"), group("p"), pod("p"))
        world.show(request("p", "gone"))
        for _ in range(3):
            await world.loop.decide()
            await world.clock.sleep(1.0)
        await world.clock.sleep(10.0)

    deleted = [one for one in told(scenario).server.written("/bindrequests") if one[0] == "DELETE"]
    assert len(deleted) == 1


def test_stopping_waits_for_writes_that_have_begun_and_begins_no_others() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        slow = SlowServer(world, "/bindrequests", takes_s=2.0)
        world.show(queue(), node("n1", gpus=100))
        alone(world, "a", "b", "c", "d")
        running = asyncio.create_task(world.loop.run())
        await world.clock.sleep(1.0)
        assert len(slow.begun_s) == 2
        world.loop.stop()
        await running
        assert len(bind_requests(world)) == 2
        assert (
            sorted(world.statuses().values()) == [TaskStatus.PENDING] * 2 + [TaskStatus.BINDING] * 2
        )

    told(scenario, replace(BY_REQUEST, write_workers=2))


def test_a_scheduler_that_is_killed_writes_no_more() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        slow = SlowServer(world, "/bindrequests", takes_s=2.0)
        world.show(queue(), node("n1", gpus=100))
        alone(world, "a", "b", "c", "d")
        running = asyncio.create_task(world.loop.run())
        await world.clock.sleep(1.0)
        running.cancel()
        await asyncio.wait((running,))
        await world.clock.sleep(30.0)
        assert len(slow.begun_s) == 2
        assert bind_requests(world) == []

    told(scenario, replace(BY_REQUEST, write_workers=2))


# -- what becomes stale between decision and commit -------------------------------------------


@pytest.mark.parametrize("gone", ["pod", "deleted"])
def test_a_gang_of_which_a_pod_vanished_while_it_was_decided_is_not_bound(gone: str) -> None:
    async def scenario(world: SchedulerWorld) -> None:
        world.show(queue(), node("n1"))
        alone(world, "alone")
        world.show(group("g", minimum=2), pod("a", group="g"), pod("b", group="g"))

        async def vanish(*_: Any) -> None:
            leaves = {"deletionTimestamp": "2023-11-14T22:13:20Z"}
            if gone == "pod":
                world.hide(pod("a", group="g"))
            else:
                world.show(pod("a", group="g", metadata=leaves))

        world.loop.on_decided = vanish
        result = await world.loop.cycle()
        assert len(result.plan.binds) == 3
        assert [body["metadata"]["name"] for _, _, body in bind_requests(world)] == ["alone"]
        assert world.cache.changed.is_set()
        assert world.task("b").status is TaskStatus.PENDING

    told(scenario)


def test_pods_decided_for_a_node_that_vanished_meanwhile_are_decided_anew() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        world.show(queue(), node("n1", gpus=2), node("n2", gpus=1))
        alone(world, "large", gpus=2)
        alone(world, "small", gpus=1)
        unheard = world.loop.on_decided

        async def vanish(*_: Any) -> None:
            world.hide(node("n1", gpus=2))

        world.loop.on_decided = vanish
        result = await world.loop.cycle()
        assert len(result.plan.binds) == 2
        assert [body["metadata"]["name"] for _, _, body in bind_requests(world)] == ["small"]
        world.loop.on_decided = unheard
        world.show(node("n3", gpus=2))
        await world.loop.cycle()
        assert world.task("large").node == "n3"

    told(scenario)


def in_pool(made: Body, pool: str) -> Body:
    made["metadata"].setdefault("labels", {})[POOL] = pool
    return made


def test_pods_decided_for_a_node_that_went_to_another_pool_meanwhile_are_decided_anew() -> None:
    """Its new scheduler gives the same room to others."""

    async def scenario(world: SchedulerWorld) -> None:
        world.show(in_pool(queue(), "a"), in_pool(node("n1"), "a"), in_pool(group("p"), "a"))
        world.show(pod("p", gpus=2))

        async def leave(*_: Any) -> None:
            world.show(in_pool(node("n1"), "b"))

        world.loop.on_decided = leave
        result = await world.loop.cycle()
        assert len(result.plan.binds) == 1
        assert bind_requests(world) == []
        assert world.cache.changed.is_set()
        assert world.task("p").status is TaskStatus.PENDING

    told(scenario, replace(BY_REQUEST, shard="a"))


def test_nobody_is_evicted_for_room_on_a_node_that_went_to_another_pool_meanwhile() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        stale = {"annotations": {"kai.scheduler/stale-podgroup-timestamp": "2020-01-01T00:00:00Z"}}
        for name in ("n1", "n2"):
            world.show(in_pool(node(name), "a"))
        world.show(in_pool(queue(), "a"))
        for job, on in (("old", "n1"), ("other", "n2")):
            world.show(in_pool(group(job, minimum=2, metadata=stale), "a"))
            world.show(pod(f"{job}-0", group=job, node=on))

        async def leave(*_: Any) -> None:
            world.show(in_pool(node("n1"), "b"))

        world.loop.on_decided = leave
        result = await world.loop.cycle()
        assert len(result.plan.evictions) == 2
        await world.settle()
        evicted = [path for _, path, _ in world.server.written("/eviction")]
        assert evicted == [f"{PODS}/other-0/eviction"]
        assert world.cache.changed.is_set()

    told(scenario, replace(BY_REQUEST, shard="a"))


# -- writes that raise what nobody foresaw -----------------------------------------------------

UNFORESEEN = (TimeoutError("exec plugin"), OSError("token"), ValueError("not encoded"))


@pytest.mark.parametrize("error", UNFORESEEN, ids=repr)
@pytest.mark.parametrize("part", ["POST /bindrequests", "DELETE /bindrequests", "GET /pods"])
def test_pods_whose_writes_raised_something_unforeseen_run_when_it_is_over(
    error: Exception, part: str
) -> None:
    names = [f"p{number}" for number in range(100)]
    method, _, path = part.partition(" ")

    async def scenario(world: SchedulerWorld) -> None:
        world.show(queue(), node("n1", gpus=50), node("n2", gpus=50))
        alone(world, *names)
        broken = True

        def react(asked: Request) -> Answer | Exception | None:
            is_first = asked.method == "POST" and "/bindrequests" in asked.path
            is_struck = asked.method == method and path in asked.path
            return error if broken and (is_first or is_struck) else None

        world.server.react = react
        running = asyncio.create_task(world.loop.run())
        await world.clock.sleep(30.0)
        broken = False
        tried = len(bind_requests(world))
        await world.clock.sleep(50.0)
        made = Counter(body["metadata"]["name"] for _, _, body in bind_requests(world)[tried:])
        assert made == dict.fromkeys(names, 1)
        assert set(world.statuses().values()) == {TaskStatus.BINDING}
        assert world.idle_gpus() == {"n1": 0, "n2": 0}
        assert not running.done()
        world.loop.stop()
        await running

    told(scenario)


def test_one_write_that_raises_leaves_those_of_other_jobs_alone() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        world.show(queue(), node("n1"))
        alone(world, "a", "b", "c")
        world.server.react = lambda asked: (
            ValueError("x") if b'"podName":"b"' in (asked.body or b"") else None
        )
        await world.loop.cycle()
        await world.binder_has_heard()
        assert world.task("b").status is TaskStatus.PENDING
        assert {world.task("a").status, world.task("c").status} == {TaskStatus.BINDING}

    world = told(scenario)
    of_pod, of_group = sorted(event["message"] for event in world.server.events("FailedBinding"))
    why = "pod team/b: the API server gave no clear answer: ValueError"
    assert why in of_pod
    assert why in of_group


@pytest.mark.parametrize("error", UNFORESEEN, ids=repr)
@pytest.mark.parametrize("part", ["PATCH /status", "POST /eviction"])
def test_victims_whose_evictions_raised_something_unforeseen_are_read_again(
    error: Exception, part: str
) -> None:
    method, _, path = part.partition(" ")

    async def scenario(world: SchedulerWorld) -> None:
        stale_gang(world, "a", "b")
        for name in "ab":
            world.server.stored[f"{PODS}/{name}"] = pod(name, group="old", node="n1")
        world.server.react = lambda asked: (
            error if asked.method == method and path in asked.path else None
        )
        await world.loop.cycle()
        await world.settle()
        assert set(world.statuses().values()) == {TaskStatus.RUNNING}

    told(scenario)


# -- assumptions have an age -------------------------------------------------------------------


def test_an_assumption_that_nothing_confirms_is_read_again_and_given_up() -> None:
    """The answer said that the request was made, and then it was gone before any watch saw it."""

    async def scenario(world: SchedulerWorld) -> None:
        world.show(queue(), node("n1"))
        alone(world, "p", gpus=2)
        await world.loop.cycle()
        del world.server.stored[
            next(path for path in world.server.stored if "/bindrequests/" in path)
        ]
        await world.clock.sleep(50.0)
        assert world.task("p").status is TaskStatus.BINDING
        assert sample(world, "kai_oldest_assumption_seconds") == pytest.approx(50.0)
        await world.clock.sleep(25.0)
        assert world.task("p").status is TaskStatus.PENDING
        assert world.idle_gpus() == {"n1": 8000}
        assert sample(world, "kai_oldest_assumption_seconds") == 0.0
        assert sample(world, "kai_overdue_assumptions_total") == 1.0

    told(scenario)


def sample(world: SchedulerWorld, name: str) -> float | None:
    return world.supervisor.registry.get_sample_value(name)


def test_an_assumption_that_the_server_confirms_is_kept_though_the_watch_is_deaf() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        world.show(queue(), node("n1"))
        alone(world, "p", gpus=2)
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p"}
        made = request("p", "n1", metadata={"ownerReferences": [owner]})
        path = "/apis/scheduling.run.ai/v1alpha2/namespaces/team/bindrequests/p"
        world.server.stored[path] = made
        await world.loop.cycle()
        await world.clock.sleep(300.0)
        assert world.task("p").status is TaskStatus.BINDING

    told(scenario)


def test_what_waits_in_line_to_be_written_is_not_taken_for_overdue() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        SlowServer(world, "/bindrequests", takes_s=20.0)
        world.show(queue(), node("n1"))
        alone(world, "a", "b", "c", "d", "e", "f")
        running = asyncio.create_task(world.loop.run())
        for _ in range(15):
            await world.clock.sleep(10.0)
            for _, _, body in bind_requests(world):
                world.show(request(body["metadata"]["name"], "n1"))
        made = Counter(body["metadata"]["name"] for _, _, body in bind_requests(world))
        assert made == dict.fromkeys("abcdef", 1)
        running.cancel()
        await asyncio.wait((running,))

    told(scenario, replace(BY_REQUEST, write_workers=1))


# -- the passing of time -----------------------------------------------------------------------


def test_a_victim_that_becomes_stuck_in_terminating_wakes_a_quiet_scheduler() -> None:
    """The watch shows nothing new when it confirms what was assumed; the moment comes all the
    same.
    """

    async def scenario(world: SchedulerWorld) -> None:
        stale_gang(world, "a")
        running = asyncio.create_task(world.loop.run())
        await world.clock.sleep(10.0)
        assert world.task("a").status is TaskStatus.RELEASING
        world.cache.changed.clear()
        leaves = {"deletionTimestamp": rfc3339(world.clock.now_s() + 1)}
        world.show(pod("a", group="old", node="n1", metadata=leaves))
        assert not world.cache.changed.is_set()
        before = world.loop.cycles
        await world.clock.sleep(200.0)
        assert world.loop.cycles > before
        assert world.loop.last is not None
        (record,) = world.loop.last[0].to_records().tasks
        assert record.status is TaskStatus.STUCK_IN_RELEASING
        world.loop.stop()
        await running

    told(scenario)


def test_binds_and_evictions_share_the_writes_that_may_be_made_at_once() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        world.show(node("n1"), queue(), group("g", minimum=4), group("old"))
        world.show(*(pod(f"p{one}", group="g") for one in range(4)))
        world.show(*(pod(f"v{one}", gpus=0, group="old", node="n1") for one in range(4)))
        handle, under_way, most = world.server.handle, 0, 0

        async def slow(asked: Request) -> Any:
            nonlocal under_way, most
            if not asked.path.endswith(("/eviction", "/bindrequests")):
                return await handle(asked)
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(1.0)
            under_way -= 1
            return await handle(asked)

        transport: Any = world.supervisor.connection._transport
        evictor = world.loop._committer._evictor
        victims = [Evict(f"v{one}", "team/old", "n1", "reclaim", "team/g") for one in range(4)]
        await world.loop.decide()
        transport._handle = slow
        await evictor.evict_for("team/g", victims, 1)
        await world.loop._committer.written()
        transport._handle = handle
        assert most == 2

    world = told(scenario, replace(BY_REQUEST, write_workers=2, marks_evicted_pods=False))
    assert len(world.server.written("/eviction")) == 4
    assert len(world.server.written("/bindrequests")) == 4


def test_a_gang_of_which_a_pod_vanishes_while_it_is_written_is_withdrawn_without_blame() -> None:
    """Nobody refused anything: nothing is counted, said or held back."""

    async def scenario(world: SchedulerWorld) -> None:
        world.show(node("n1"), queue(), group("g", minimum=2))
        for name in ("a", "b"):
            world.show(pod(name, group="g"))
            world.server.stored[f"{PODS}/{name}"] = pod(name, group="g")

        def vanish(asked: Request) -> None:
            if asked.path.endswith("/bindrequests"):
                world.hide(pod("b", group="g"))

        world.server.react = vanish
        await world.loop.cycle()
        assert world.cache.backoffs.binds() == {}
        await world.binder_has_heard()
        assert world.statuses() == {"a": TaskStatus.PENDING}
        samples = (one for family in world.supervisor.registry.collect() for one in family.samples)
        assert sum(one.value for one in samples if one.name == "kai_gang_binds_refused_total") == 0

    world = told(scenario, replace(BY_REQUEST, write_workers=1))
    assert [method for method, _, _ in world.server.written("/bindrequests")] == ["POST", "DELETE"]
    assert world.server.events("FailedBinding") == []
    assert world.server.written("/status") == []
    said = [(message, level) for level, _, message, _ in world.log.events]
    assert ("gang bind withdrawn", Level.INFO) in said


def test_the_age_of_an_assumption_counts_from_the_end_of_its_write() -> None:
    """Until then nobody could have confirmed it."""

    async def scenario(world: SchedulerWorld) -> None:
        SlowServer(world, "/bindrequests", takes_s=25.0)
        world.show(queue(), node("n1"))
        alone(world, "p", gpus=2)
        await world.loop.cycle()
        assert sample(world, "kai_oldest_assumption_seconds") == pytest.approx(0.0)
        await world.clock.sleep(50.0)
        assert world.task("p").status is TaskStatus.BINDING
        assert sample(world, "kai_overdue_assumptions_total") == 0.0

    told(scenario)


def test_a_gang_whose_node_vanishes_while_it_is_refused_is_withdrawn_all_the_same() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        world.show(node("n1"), queue(), group("g", minimum=2))
        for name in ("a", "b"):
            world.show(pod(name, group="g"))
            world.server.stored[f"{PODS}/{name}"] = pod(name, group="g")

        def vanish(asked: Request) -> Answer | None:
            if asked.method != "POST" or b'"podName":"b"' not in asked.body:
                return None
            world.hide(node("n1"))
            return refused(403, "Forbidden", "no")

        world.server.react = vanish
        await world.loop.cycle()
        await world.binder_has_heard()
        assert world.statuses() == dict.fromkeys("ab", TaskStatus.PENDING)

    world = told(scenario)
    removed = [path for method, path, _ in world.server.written() if method == "DELETE"]
    assert [path.rpartition("/")[2] for path in removed] == ["a"]
    assert len(world.server.events("FailedBinding")) == 3, "each pod, and their group"


def test_victims_that_have_left_while_the_plan_was_made_count_as_nothing() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        world.show(node("n1"), queue(), group("old"))
        for name in ("stays", "ends", "goes"):
            world.show(pod(name, group="old", node="n1"))
        snapshot = world.snapshot()
        world.show(pod("ends", group="old", node="n1", phase="Succeeded"))
        world.hide(pod("goes", group="old"))
        victims = tuple(
            Evict(name, "team/old", "n1", "reclaim", "team/actor")
            for name in ("ends", "goes", "stays")
        )
        world.loop._committer.start(Plan(evictions=victims), snapshot, {})
        assert [uid for uid in ("stays", "ends", "goes") if world.cache.assumptions.get(uid)] == [
            "stays"
        ]
        await world.loop._committer.written()

    paths = [path for _, path, _ in told(scenario).server.written("/eviction")]
    assert paths == [f"{PODS}/stays/eviction"]


def test_a_stale_bind_request_whose_deletion_raises_something_unforeseen_is_tried_again() -> None:
    left = [OSError("the token cannot be read")]

    async def scenario(world: SchedulerWorld) -> None:
        world.show(node("n1"), request("p", "n1", status={"phase": "Failed"}, backoffLimit=0))
        world.server.react = lambda asked: left.pop() if left else None
        unretrieved: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, one: unretrieved.append(one))
        await world.loop.cycle()
        await world.loop.cycle()
        assert unretrieved == []

    world = told(scenario)
    assert [method for method, _, _ in world.server.written("/bindrequests")] == ["DELETE"] * 2
    assert world.log.messages().count("bind request not deleted") == 1


def test_a_gang_that_was_refused_is_handed_over_again_though_nothing_happens_meanwhile() -> None:
    """The end of its pause alone wakes a quiet scheduler."""

    async def scenario(world: SchedulerWorld) -> None:
        world.show(queue(), node("n1"))
        alone(world, "p", gpus=2)
        asked_s: list[float] = []

        def refuse_first(asked: Request) -> Answer | None:
            if not asked.path.endswith("/bindrequests"):
                return None
            asked_s.append(world.clock.monotonic_s())
            return refused(403, "Forbidden", "no") if len(asked_s) == 1 else None

        world.server.react = refuse_first
        running = asyncio.create_task(world.loop.run())
        await world.clock.sleep(60.0)
        # The binder's lag, in which nobody may give its place away, and a first pause.
        assert asked_s == [0.0, pytest.approx(10.0, abs=1.1)]
        assert world.loop.cycles < 8, "and it does not look in vain meanwhile"
        world.loop.stop()
        await running

    told(scenario)
