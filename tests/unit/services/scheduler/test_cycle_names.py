"""What one cycle decides can be followed: through the log, the writes, the events, the metrics."""

import asyncio

from tests.support.scheduler_world import SchedulerWorld, group, node, pod, queue, told

from muster.base.spans import Span
from muster.services.scheduler.bind_requests import TimedBinder


def _show(world: SchedulerWorld) -> None:
    world.show(queue(), node("n1", gpus=2))
    world.show(group("a"), pod("a"), group("b"), pod("b", gpus=2))


def _cycles(world: SchedulerWorld) -> list[object]:
    return [
        fields["cycle"] for _, _, message, fields in world.log.events if message == "cycle decided"
    ]


def test_a_cycle_has_one_name_in_the_log_the_writes_and_the_events() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        _show(world)
        await world.loop.cycle()

    world = told(scenario)
    (cycle,) = _cycles(world)
    requests = [one for one in world.server.requests if one.path.endswith("/bindrequests")]
    assert {one.headers["user-agent"] for one in requests} == {f"muster cycle/{cycle}"}
    events = world.server.events("Scheduled")
    assert {one["metadata"]["annotations"]["kai.scheduler/cycle"] for one in events} == {cycle}


def test_no_two_cycles_have_the_same_name() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        _show(world)
        await world.loop.cycle()
        world.show(group("c"), pod("c"))
        await world.loop.cycle()

    assert len(set(_cycles(told(scenario)))) == 2


def test_decisions_and_what_waits_are_counted_by_reason() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        _show(world)
        await world.loop.cycle()
        value = world.supervisor.registry.get_sample_value
        assert value("kai_decisions_total", {"result": "bound", "reason": ""}) == 1
        assert value("kai_waiting_podgroups", {"reason": "resources"}) == 1
        world.hide(pod("b", gpus=2))
        world.hide(group("b"))
        await world.loop.cycle()
        assert value("kai_waiting_podgroups", {"reason": "resources"}) is None
        assert value("kai_resync_depth") == 0

    told(scenario)


def test_a_cycle_and_the_pod_that_it_binds_can_be_traced() -> None:
    spans: list[Span] = []

    async def scenario(world: SchedulerWorld) -> None:
        world.loop.collect = spans.append
        binder = world.loop._committer._binder
        assert isinstance(binder, TimedBinder)
        binder._collect = spans.append
        created = {"creationTimestamp": "1970-01-01T00:00:00Z"}
        world.show(queue(), node("n1"), group("a"), pod("a", metadata=created))
        await asyncio.sleep(30.0)
        await world.loop.cycle()

    world = told(scenario)
    by_name = {span.name: span for span in spans}
    cycle, bound = by_name["cycle"], by_name["pod"]
    assert cycle.attributes["cycle"] == bound.attributes["cycle"] == _cycles(world)[0]
    assert [part.name for part in cycle.within] == ["snapshot", "decide", "hand over"]
    assert "allocate" in [part.name for part in cycle.within[1].within]
    assert bound.start_s == 0.0
    assert bound.end_s >= 30.0
    assert bound.attributes["k8s.node.name"] == "n1"
    for whole in (cycle, bound):
        for part in whole.within:
            assert whole.start_s <= part.start_s <= part.end_s <= whole.end_s
