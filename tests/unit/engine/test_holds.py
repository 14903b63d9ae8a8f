"""Room that was made is held for whom it was made, and until when."""

from dataclasses import replace

from benchmarks.cases.search_loads import mixed

from muster.engine.config.conf import parse_conf
from muster.engine.cycle import CycleResult, run_cycle
from muster.engine.holds import HELD_S, Hold, next_holds
from muster.engine.memory import EMPTY, Memory
from muster.engine.outcome import next_change_s
from muster.engine.plan import NOTHING, Evict, Nominate
from muster.engine.registry import build_actions, build_policy
from muster.engine.session import Session
from muster.model.records import ClusterRecords
from muster.model.status import TaskStatus
from muster.model.tables import snapshot_of
from muster.testing import make
from muster.testing.invariants import broken
from muster.testing.outcome import carried_out

_CONF = parse_conf("")
_POLICY, _ACTIONS = build_policy(_CONF), build_actions(_CONF)
_VICTIM = Evict("victim-0", "default/victim", "n", "reclaim", "default/actor")
_HOLD = Hold("default/actor", ("n",), (_VICTIM,))


def _cycle(world: ClusterRecords, memory: Memory = EMPTY, later_s: float = 0.0) -> CycleResult:
    result = run_cycle(snapshot_of(world), _POLICY, _ACTIONS, make.NOW_S + later_s, memory)
    assert broken(world, result.plan) == []
    return result


def _world(victim: TaskStatus, where: str = "n", is_cordoned: bool = False) -> ClusterRecords:
    """One GPU, and two jobs of one queue that want it; the older one has been evicted from it."""
    old = make.gang("victim", 1, queue="q", gpu=1, created_s=make.NOW_S - 1000)
    task = make.with_fields(old.tasks[0], status=victim, node=where)
    return make.cluster(
        make.node("n", gpu=1, is_unschedulable=is_cordoned),
        make.queue("q", quota_gpu=1),
        make.Workload(old.job, (task,)),
        make.gang("actor", 1, queue="q", gpu=1, created_s=make.NOW_S - 10),
    )


_VICTIM_IS_BACK = _world(TaskStatus.PENDING, "")


def _bound(result: CycleResult) -> list[str]:
    return [bind.task for bind in result.plan.binds]


def test_a_job_that_others_were_evicted_for_gets_the_room_before_them() -> None:
    assert _bound(_cycle(_VICTIM_IS_BACK)) == ["victim-0"]
    result = _cycle(_VICTIM_IS_BACK, Memory(holds=(_HOLD,)))
    assert _bound(result) == ["actor-0"]
    assert result.memory.holds == ()


def test_a_job_waits_at_its_place_as_long_as_a_victim_is_leaving() -> None:
    result = _cycle(_world(TaskStatus.RELEASING), Memory(holds=(_HOLD,)))
    assert [(each.task, each.node) for each in result.plan.nominations] == [("actor-0", "n")]
    assert result.memory.holds == (_HOLD,)


def test_no_room_is_held_where_the_victims_stay_after_all() -> None:
    world = make.cluster(
        make.node("n", gpu=2),
        make.queue("q", quota_gpu=2),
        make.gang("victim", 1, queue="q", gpu=1, nodes=("n",)),
        make.gang("older", 1, queue="q", gpu=1, created_s=make.NOW_S - 1000),
        make.gang("actor", 1, queue="q", gpu=1, created_s=make.NOW_S - 10),
    )
    result = _cycle(world, Memory(holds=(_HOLD,)))
    assert _bound(result) == ["older-0"]
    assert result.memory.holds == ()


def test_room_is_held_for_five_minutes_after_the_last_victim_left() -> None:
    memory = Memory(holds=(replace(_HOLD, left_at_s=make.NOW_S),))
    assert _bound(_cycle(_VICTIM_IS_BACK, memory, HELD_S - 1)) == ["actor-0"]
    assert _bound(_cycle(_VICTIM_IS_BACK, memory, HELD_S)) == ["victim-0"]


def test_no_room_is_held_on_a_node_that_takes_the_job_no_longer() -> None:
    world = _world(TaskStatus.PENDING, "", is_cordoned=True)
    result = _cycle(world, Memory(holds=(_HOLD,)))
    assert result.plan.binds == ()
    assert result.memory.holds == ()


def test_who_was_evicted_is_not_evicted_again_before_the_actor_starts() -> None:
    """The victim runs elsewhere, while another one has not left yet."""
    world = make.cluster(
        make.node("n", gpu=1),
        make.node("elsewhere", gpu=1),
        make.queue("q", quota_gpu=2),
        make.gang("victim", 1, queue="q", gpu=1, priority=50, nodes=("elsewhere",)),
        make.gang("leaves", 1, queue="q", gpu=1, priority=50, nodes=("n",)),
        make.gang("actor", 1, queue="q", gpu=1, priority=100),
        make.gang("high", 1, queue="q", gpu=1, priority=75),
    )
    leaving = {"leaves-0": TaskStatus.RELEASING}
    tasks = (make.with_fields(t, status=leaving.get(t.uid, t.status)) for t in world.tasks)
    world = make.with_fields(world, tasks=tuple(tasks))
    victims = (_VICTIM, Evict("leaves-0", "default/leaves", "n", "reclaim", "default/actor"))
    held = Memory(holds=(Hold("default/actor", ("n",), victims),))
    assert [evict.task for evict in _cycle(world).plan.evictions] == ["victim-0"]
    assert _cycle(world, held).plan.evictions == ()


def test_a_pod_that_was_moved_finds_its_new_place_when_it_is_back() -> None:
    """Consolidation frees a node; the room that it moves to is not given to others meanwhile."""
    moved = Hold(
        "default/victim",
        ("n",),
        (Evict("old-pod", "default/victim", "m", "consolidation", "a", "n"),),
    )
    rival = make.gang("rival", 1, queue="q", gpu=1, priority=100)
    gone = make.cluster(
        make.node("n", gpu=1),
        make.queue("q", quota_gpu=1),
        rival,
        make.gang("victim", 1, queue="q", gpu=1, priority=50),
    )
    assert _bound(_cycle(gone)) == ["rival-0"]
    assert _bound(_cycle(gone, Memory(holds=(moved,)))) == ["victim-0"]


def test_what_a_cycle_frees_is_held_from_the_next_one_on() -> None:
    world = make.cluster(
        make.node("n", gpu=1),
        make.queue("q", quota_gpu=1),
        make.gang("low", 1, queue="q", gpu=1, priority=50, nodes=("n",)),
        make.gang("high", 1, queue="q", gpu=1, priority=100),
    )
    first = _cycle(world)
    hold = Hold("default/high", ("n",), first.plan.evictions)
    assert first.memory.holds == (hold,)
    waits = [t for t in carried_out(world, first.plan).tasks if t.uid != "low-0"]
    waits = [make.with_fields(t, status=TaskStatus.PENDING, node="") for t in waits]
    second = _cycle(make.with_fields(world, tasks=tuple(waits)), first.memory)
    assert _bound(second) == ["high-0"]


def test_a_place_that_is_given_and_taken_back_in_one_cycle_is_given_in_the_next() -> None:
    """Nobody has to leave for whoever a search moved before it had started."""
    world = make.cluster(
        make.node("n1", gpu=4),
        make.node("n2", gpu=8),
        make.queue("q", quota_gpu=12),
        make.gang("first", 1, queue="q", gpu=2),
    )
    plan = replace(NOTHING, nominations=(Nominate("first-0", "default/first", "n2", ()),))
    holds = next_holds(snapshot_of(world), (), plan, ["default/first", "default/placed"])
    assert holds == (Hold("default/first", ("n2",), ()),)
    (bind,) = _cycle(world, Memory(holds=holds)).plan.binds
    assert (bind.task, bind.node) == ("first-0", "n2")
    (bind,) = _cycle(world).plan.binds
    assert (bind.task, bind.node) == ("first-0", "n1")


def test_whoever_waits_for_nobody_is_served_at_once_and_only_once() -> None:
    """One that could not be served must not keep the loop awake."""
    world = make.cluster(
        make.node("n1", gpu=1),
        make.queue("q", quota_gpu=12),
        make.gang("first", 1, queue="q", gpu=2),
    )
    hold = Hold("default/first", ("n1",), ())
    session = Session(snapshot_of(world), _POLICY, make.NOW_S)
    soon_s = next_change_s(session, (hold,))
    assert soon_s is not None
    assert make.NOW_S < soon_s < make.NOW_S + 1
    assert next_change_s(session, (hold,), holds_before=(hold,)) is None
    assert next_change_s(session, (_HOLD,)) is None
    served = _cycle(world, Memory(holds=(hold,)))
    assert (served.memory.holds, served.next_change_s) == ((), None)


def test_a_small_search_after_large_ones_passes_over_who_is_gone() -> None:
    """In one action victims are constructed for some jobs and searched for others."""
    world = mixed(100, 200, 50)
    after = carried_out(world, _cycle(world).plan)
    tasks = [
        make.with_fields(task, status=TaskStatus.PENDING, node="", gpu_shares=())
        if task.status in (TaskStatus.PIPELINED, TaskStatus.RELEASING)
        else task
        for task in after.tasks
    ]
    assert _cycle(make.with_fields(after, tasks=tuple(tasks))).plan.evictions


def test_a_gang_that_lost_its_minimum_takes_nothing_with_the_rest_of_it() -> None:
    """Two of three go together in reclaim; the third, which waits, is no gang."""
    torn = make.gang("torn", 3, queue="poor", gpu=1, minimum=2, nodes=("n1", "n0"))
    world = make.cluster(
        make.node("n0", gpu=2),
        make.node("n1", gpu=1),
        make.queue("poor", quota_gpu=1, weight=0),
        make.queue("rich", quota_gpu=1, weight=2),
        torn,
        make.gang("grows", 2, queue="rich", gpu=1, minimum=1, nodes=("n0",)),
    )
    plan = _cycle(world).plan
    assert {evict.task for evict in plan.evictions} == {"torn-0", "torn-1"}
    assert [each.task for each in plan.nominations] == ["grows-1"]
