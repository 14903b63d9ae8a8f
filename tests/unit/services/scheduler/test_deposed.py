"""A scheduler that has lost its lease ends: it withdraws, repeats and reports nothing."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.scheduler_world import SchedulerWorld, group, node, pod, queue
from tests.support.virtual_time import virtually

from muster.api.kinds import POD
from muster.api.meta import Key
from muster.base.log import Level
from muster.client.errors import Deposed
from muster.model.status import TaskStatus
from muster.services.scheduler.status_updater import Update

STALE = {"annotations": {"kai.scheduler/stale-podgroup-timestamp": "2020-01-01T00:00:00Z"}}


def is_deposed(world: SchedulerWorld) -> None:
    world.supervisor.connection.leads_for_s = lambda: 0.0


def refused_meters(world: SchedulerWorld) -> float:
    """How many refusals of binds and evictions were counted, whatever their cause."""
    names = ("kai_gang_binds_refused_total", "kai_evictions_refused_total")
    samples = (one for family in world.supervisor.registry.collect() for one in family.samples)
    return sum(sample.value for sample in samples if sample.name in names)


def fill(world: SchedulerWorld, *, has_victim: bool) -> None:
    world.show(node("n1"), queue(), group("p", minimum=2))
    world.show(pod("p1", gpus=2, group="p"), pod("p2", gpus=2, group="p"))
    if has_victim:
        world.show(group("old", minimum=2, metadata=STALE), pod("o", group="old", node="n1"))


@pytest.mark.parametrize("has_victim", [False, True], ids=["binds", "evicts too"])
def test_a_deposed_scheduler_leaves_no_event_no_meter_and_no_withdrawal(has_victim: bool) -> None:
    async def scenario() -> None:
        world = SchedulerWorld()
        fill(world, has_victim=has_victim)
        is_deposed(world)
        unretrieved: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, one: unretrieved.append(one))
        await world.loop.cycle()
        resync: Any = world.loop._committer._resync
        assert (resync._withdrawn, len(resync._queue)) == ({}, 0)
        assert not world.recorder._pending, "no event"
        assert refused_meters(world) == 0
        assert world.cache.backoffs.binds() == {}
        assert world.statuses()["p1"] is TaskStatus.BINDING, "nobody knows what became of it"
        assert world.server.requests == []
        assert unretrieved == []
        assert not [event for event in world.log.events if event[0] >= Level.WARNING]

    virtually(scenario())


async def _history(world: SchedulerWorld) -> None:
    await world.loop._eviction_history.write()


async def _resync(world: SchedulerWorld) -> None:
    resync: Any = world.loop._committer._resync
    resync.withdraw("p1", "n1")
    world.server.stored["/apis/scheduling.run.ai/v1alpha2/namespaces/team/bindrequests/p1"] = {
        "metadata": {"name": "p1", "namespace": "team", "uid": "r"},
        "spec": {"podName": "p1", "selectedNode": "n1"},
    }
    await resync.run()


async def _update(world: SchedulerWorld) -> None:
    updater: Any = world.loop._committer._updater
    updater.put(Update(POD, Key("team", "p1"), "condition", {"status": {}}))
    await updater.run()


async def _loop(world: SchedulerWorld) -> None:
    async def decided(*_: object) -> None:
        raise Deposed("PATCH: not sent, this process does not lead")

    world.loop.on_decided = decided
    await world.loop.run()


@pytest.mark.parametrize("part", [_history, _resync, _update, _loop])
def test_whatever_part_meets_the_fence_ends(part: Callable[[SchedulerWorld], Any]) -> None:
    async def scenario() -> None:
        world = SchedulerWorld()
        fill(world, has_victim=False)
        is_deposed(world)
        async with asyncio.timeout(60.0):
            with pytest.raises((Deposed, ExceptionGroup)) as ended:
                await part(world)
        error = ended.value
        parts = error.exceptions if isinstance(error, ExceptionGroup) else (error,)
        assert {type(one) for one in parts} == {Deposed}

    virtually(scenario())
