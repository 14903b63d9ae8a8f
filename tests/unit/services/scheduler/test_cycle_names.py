"""What one cycle decides can be followed: through the log, the writes, the events, the metrics."""

from tests.support.scheduler_world import SchedulerWorld, group, node, pod, queue, told


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
