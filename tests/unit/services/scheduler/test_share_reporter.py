"""Fair shares in the status of queues and as gauges: what people can check "has its share" by."""

import asyncio
from typing import Any

import pytest
from tests.support.scheduler_world import SchedulerWorld, group, node, pod, told
from tests.support.scheduler_world import queue as unbounded
from tests.support.virtual_time import SetClock, virtually

QUEUES = "/apis/scheduling.run.ai/v2/queues/"


def queue(name: str, quota: float) -> dict[str, Any]:
    made = unbounded(name)
    gpu = {"quota": quota, "limit": -1, "overQuotaWeight": 1}
    made["spec"]["resources"] = {**made["spec"]["resources"], "gpu": gpu}
    return made


def written(world: SchedulerWorld, name: str) -> list[Any]:
    return [
        body["status"]["fairShare"]["gpu"] for _, _, body in world.server.written(QUEUES + name)
    ]


def test_a_queue_that_borrows_shows_its_share_where_it_comes_from_and_what_is_borrowed() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        world.show(node("n1", gpus=8), queue("a", 2), queue("b", 2), group("g", queue="a"))
        for at in range(6):
            world.show(pod(f"p{at}", group="g", gpus=1, node="n1"))
        await world.loop.cycle()

    world = told(scenario)
    (gpu,) = written(world, "a")
    assert gpu == {"share": 6.0, "fromQuota": 2.0, "overQuota": 4.0, "borrowed": 4.0}
    value = world.supervisor.registry.get_sample_value
    assert value("kai_queue_fair_share_gpu", {"queue_name": "a"}) == 6.0
    assert value("kai_queue_fair_share_cpu_cores", {"queue_name": "a"}) is not None
    assert value("kai_queue_fair_share_memory_gb", {"queue_name": "a"}) is not None


def test_shares_are_written_when_they_change_and_at_most_once_a_minute() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        world.show(node("n1", gpus=8), queue("a", 2), group("g", queue="a"))
        for at in range(6):
            world.show(pod(f"p{at}", group="g", gpus=1, node="n1"))
            await world.loop.cycle()
            await world.settle()
        assert len(written(world, "a")) == 1
        await asyncio.sleep(61)
        await world.loop.cycle()
        await asyncio.sleep(61)
        await world.loop.cycle()

    first, second = written(told(scenario), "a")
    assert (first["borrowed"], second["borrowed"]) == (0.0, 4.0)


@pytest.mark.parametrize("by_s", [3600.0, -3600.0])
def test_a_minute_between_two_writes_is_one_whatever_the_clock_is_set_to(by_s: float) -> None:
    async def main() -> None:
        clock = SetClock()
        world = SchedulerWorld(clock=clock)
        async with world.writing():
            world.show(node("n1", gpus=8), queue("a", 2), group("g", queue="a"))
            await world.loop.cycle()
            clock.set_by_s = by_s
            world.show(*(pod(f"p{at}", group="g", gpus=1, node="n1") for at in range(6)))
            await world.loop.cycle()
            await world.settle()
            assert len(written(world, "a")) == 1
            await asyncio.sleep(61)
            await world.loop.cycle()
            await world.settle()
        assert [gpu["borrowed"] for gpu in written(world, "a")] == [0.0, 4.0]

    virtually(main())


def test_the_gauges_of_a_queue_that_is_gone_go() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        world.show(node("n1", gpus=8), queue("a", 2), queue("b", 2))
        await world.loop.cycle()
        world.hide(queue("b", 2))
        await world.loop.cycle()
        value = world.supervisor.registry.get_sample_value
        assert value("kai_queue_fair_share_gpu", {"queue_name": "b"}) is None
        assert value("kai_queue_fair_share_gpu", {"queue_name": "a"}) is not None

    told(scenario)
