"""What is counted for each pod group does not grow with every group that ever was."""

import asyncio

from prometheus_client import CollectorRegistry
from tests.support.virtual_time import LoopClock, virtually

from muster.api.meta import ObjectMeta
from muster.api.podgroup import PodGroup
from muster.services.scheduler.meters import SchedulerMeters


def test_evictions_are_counted_for_the_latest_pod_groups() -> None:
    registry = CollectorRegistry()
    meters = SchedulerMeters(registry)
    for number in range(6000):
        meta = ObjectMeta(name=f"g-{number}", namespace="team", uid=f"u-{number}")
        meters.evicted(PodGroup(metadata=meta), "default", "reclaim", 0.0)
    counted = _counted(registry)
    assert len(counted) == 5000
    assert counted[-1] == "g-5999"


def test_evictions_of_a_group_are_let_go_when_they_have_long_been_read() -> None:
    registry, clock = CollectorRegistry(), LoopClock()
    meters = SchedulerMeters(registry)

    def evict(name: str) -> None:
        meta = ObjectMeta(name=name, namespace="team", uid=name)
        meters.evicted(PodGroup(metadata=meta), "default", "reclaim", clock.monotonic_s())

    async def scenario() -> None:
        ageing = asyncio.create_task(meters.age(clock))
        evict("old")
        evict("again")
        await asyncio.sleep(500)
        evict("again")
        assert _counted(registry) == ["old", "again"]
        await asyncio.sleep(200)
        assert _counted(registry) == ["again"]
        await asyncio.sleep(500)
        assert _counted(registry) == []
        ageing.cancel()

    virtually(scenario())


def _counted(registry: CollectorRegistry) -> list[str]:
    """The groups whose evictions are shown."""
    (family,) = [one for one in registry.collect() if "evicted_pods" in one.name]
    return [one.labels["podgroup"] for one in family.samples if one.name.endswith("_total")]
