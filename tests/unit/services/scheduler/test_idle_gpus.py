"""Idle GPUs are shown on the pod group, and are a reason to be preempted only as long as known."""

from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.scheduler_world import SchedulerWorld, group, node, pod, queue, told

from muster.api.names import ANNOTATION_IDLE_GPUS_SINCE
from muster.base.clock import SystemClock
from muster.base.log import Log, MemorySink
from muster.model.cluster_objects import PodUtilisation
from muster.model.usage import IdlePolicy
from muster.services.scheduler.idle_gpus import IdleGpus
from muster.services.scheduler.options import SchedulerServiceConfig
from muster.services.scheduler.wiring import real_utilisation
from muster.usage.idle import GpuReading
from muster.usage.utilisation import Utilisation

SHOWN = IdlePolicy(after_s=3600.0)
MAY_GO = IdlePolicy(after_s=3600.0, is_preemptible=True)
OLD = {"creationTimestamp": "2020-01-01T00:00:00Z"}


def reading(at_s: float, **peaks: float) -> Utilisation:
    gpus = {f"team/{name}": GpuReading(peak, 1, 60) for name, peak in peaks.items()}
    pods = {key: PodUtilisation(gpu=one.peak_percent / 100) for key, one in gpus.items()}
    return Utilisation(at_s, pods, gpus)


def begin(world: SchedulerWorld, gpus: int = 8) -> IdleGpus:
    world.show(queue(), node("n1", gpus))
    for name in ("sleeper", "worker"):
        world.show(group(name, preemptibility="non-preemptible"))
        world.show(pod(name, node="n1", metadata=OLD))
    return IdleGpus(world.cache, world.loop._reporter, world.clock)


def preemptible(world: SchedulerWorld) -> dict[str, bool]:
    return {job.key: job.is_preemptible for job in world.snapshot().to_records().jobs}


def marks(world: SchedulerWorld) -> list[tuple[str, Any]]:
    return [
        (path.rsplit("/", 1)[-1], body["metadata"]["annotations"][ANNOTATION_IDLE_GPUS_SINCE])
        for _, path, body in world.server.written("/podgroups/")
        if ANNOTATION_IDLE_GPUS_SINCE in (body["metadata"].get("annotations") or {})
    ]


def test_an_idle_job_is_marked_once_and_keeps_its_right_to_stay() -> None:
    async def story(world: SchedulerWorld) -> None:
        idle = begin(world)
        for _ in range(2):
            idle.heard(reading(world.clock.now_s(), sleeper=0.0, worker=70.0), SHOWN)
            await world.settle()
        assert not any(preemptible(world).values())

    world = told(story)
    ((name, since),) = marks(world)
    assert name == "sleeper"
    assert since < "2023-11-14T22:13:20Z", "it has been so for an hour"
    (event,) = world.server.events("IdleGpus")
    assert event["message"] == "its GPUs have been below 5% for 1h0m0s"


def test_by_policy_an_idle_job_may_be_preempted_until_it_works_again() -> None:
    async def story(world: SchedulerWorld) -> None:
        idle = begin(world)
        world.snapshot()
        idle.heard(reading(world.clock.now_s(), sleeper=0.0, worker=70.0), MAY_GO)
        assert world.cache.changed.is_set(), "somebody may want what it holds"
        assert preemptible(world) == {"team/sleeper": True, "team/worker": False}
        idle.heard(reading(world.clock.now_s(), sleeper=50.0, worker=70.0), MAY_GO)
        assert preemptible(world) == {"team/sleeper": False, "team/worker": False}

    told(story)


def test_when_nothing_is_known_any_more_nobody_is_idle() -> None:
    async def story(world: SchedulerWorld) -> None:
        idle = begin(world)
        idle.heard(reading(world.clock.now_s(), sleeper=0.0), MAY_GO)
        assert world.snapshot().cluster_objects.utilisation["team/sleeper"].gpu == 0
        await world.settle()
        marked = group("sleeper", preemptibility="non-preemptible", metadata={
            "annotations": {ANNOTATION_IDLE_GPUS_SINCE: "2023-11-14T21:13:20Z"}
        })  # fmt: skip
        world.show(marked)
        idle.heard(None, MAY_GO)
        assert preemptible(world)["team/sleeper"] is False
        assert world.snapshot().cluster_objects.utilisation == {}

    assert marks(told(story))[-1] == ("sleeper", None)


def test_a_mark_of_an_earlier_scheduler_is_no_reason_to_be_preempted() -> None:
    async def story(world: SchedulerWorld) -> None:
        begin(world)
        notes = {"annotations": {ANNOTATION_IDLE_GPUS_SINCE: "2023-11-14T21:13:20Z"}}
        world.show(group("sleeper", preemptibility="non-preemptible", metadata=notes))
        assert preemptible(world)["team/sleeper"] is False

    told(story)


def test_another_job_that_gets_the_name_of_an_idle_one_may_not_be_preempted() -> None:
    async def story(world: SchedulerWorld) -> None:
        idle = begin(world)
        idle.heard(reading(world.clock.now_s(), sleeper=0.0), MAY_GO)
        assert preemptible(world)["team/sleeper"] is True
        another = {"uid": "another"}
        world.show(group("sleeper", preemptibility="non-preemptible", metadata=another))
        assert preemptible(world)["team/sleeper"] is False

    told(story)


def evicted(world: SchedulerWorld) -> list[str]:
    return [path.split("/")[-2] for _, path, _ in world.server.written("/eviction")]


@pytest.mark.parametrize(
    ("last", "gone"), [({"sleeper": 0.0, "worker": 70.0}, ["sleeper"]), ({}, []), (None, [])]
)
def test_who_is_idle_makes_way_for_others_and_nobody_does_on_missing_data(
    last: dict[str, float] | None, gone: list[str]
) -> None:
    """A full node, nobody on it preemptible, and a pod of higher priority that waits."""

    async def story(world: SchedulerWorld) -> None:
        idle = begin(world, gpus=2)
        high = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 90}
        world.show(high, group("urgent", priorityClassName="high"), pod("urgent"))
        now_s = world.clock.now_s()
        idle.heard(reading(now_s, sleeper=0.0, worker=70.0), MAY_GO)
        idle.heard(None if last is None else reading(now_s, **last), MAY_GO)
        await world.loop.cycle()

    assert evicted(told(story)) == gone


def test_a_reading_that_has_become_stale_is_heard_as_none() -> None:
    """Prometheus is away: whoever was idle when it was last asked may be at work by now."""
    heard: list[Utilisation | None] = []
    listener: Any = SimpleNamespace(heard=lambda reading, _: heard.append(reading))
    supervisor: Any = SimpleNamespace(clock=SystemClock(), log=Log("test", MemorySink()))
    fetcher = real_utilisation(supervisor, SchedulerServiceConfig(), listener, listener)
    last = reading(0.0, sleeper=0.0)
    fetcher.on_reading(last)
    assert heard == [last, last], "idle GPUs and spare room"
    fetcher.on_stale()
    assert heard[2:] == [None, None]
