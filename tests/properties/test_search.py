"""What must hold after any cycle of all five actions, on any small cluster."""

import pytest
from benchmarks.cases.search_loads import mixed
from hypothesis import HealthCheck, given, settings

from muster.engine.config.conf import parse_conf
from muster.engine.config.settings import EngineSettings
from muster.engine.cycle import CycleResult, run_cycle
from muster.engine.memory import EMPTY, Memory
from muster.engine.plan import Plan
from muster.engine.registry import build_actions, build_policy
from muster.engine.search import action as search_action
from muster.model.records import ClusterRecords
from muster.model.status import TaskStatus
from muster.model.tables import snapshot_of
from muster.testing import make
from muster.testing.contended import contended_clusters
from muster.testing.invariants import EvictionHistory, broken
from muster.testing.outcome import carried_out
from muster.testing.run_scenario import shuffled
from muster.testing.shared_gpus import shared_clusters

_CONF = parse_conf("")
_POLICY = build_policy(_CONF, EngineSettings(max_consolidation_victims=None))
_ACTIONS = build_actions(_CONF)
_SLOWLY = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def cycle(records: ClusterRecords, memory: Memory = EMPTY) -> CycleResult:
    return run_cycle(snapshot_of(records), _POLICY, _ACTIONS, make.NOW_S, memory)


@pytest.fixture(params=[False, True], ids=["searched", "constructed"])
def is_large(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in small clusters, and as in large ones, where sets are not tried one after another."""
    if request.param:
        monkeypatch.setattr(search_action, "is_large", lambda *_: True)


_BOTH_WAYS = settings(_SLOWLY, suppress_health_check=list(HealthCheck))


@pytest.mark.usefixtures("is_large")
@_BOTH_WAYS
@given(contended_clusters(has_racks=True))
def test_no_cycle_breaks_an_invariant(world: ClusterRecords) -> None:
    assert broken(world, cycle(world).plan) == []


@pytest.mark.usefixtures("is_large")
@settings(_BOTH_WAYS, max_examples=400)
@given(shared_clusters())
def test_no_cycle_promises_a_shared_gpu_twice(world: ClusterRecords) -> None:
    """Several searches of a cycle find room on the same devices, whose tenants leave and join."""
    assert broken(world, cycle(world).plan) == []


@pytest.mark.usefixtures("is_large")
@_BOTH_WAYS
@given(contended_clusters(running=8))
def test_a_pod_moved_by_consolidation_is_not_evicted_by_a_later_action(
    world: ClusterRecords,
) -> None:
    """What the actions before it moved, no later action of the cycle evicts."""
    conf = parse_conf("actions: allocate, consolidation")
    before = run_cycle(snapshot_of(world), _POLICY, build_actions(conf), make.NOW_S).plan
    moved = {evict.task: evict.moves_to for evict in before.evictions}
    plan = cycle(world).plan
    assert moved.items() <= {evict.task: evict.moves_to for evict in plan.evictions}.items()
    waits = {nominate.task: nominate.node for nominate in plan.nominations}
    assert all(waits.get(e.task) == e.moves_to for e in plan.evictions if e.moves_to)


@_SLOWLY
@given(contended_clusters())
def test_the_order_of_the_input_changes_no_decision(world: ClusterRecords) -> None:
    assert cycle(shuffled(world)).plan == cycle(world).plan


@_SLOWLY
@given(contended_clusters())
def test_the_refusal_cache_changes_no_decision(world: ClusterRecords) -> None:
    snapshot = snapshot_of(world)
    first = run_cycle(snapshot, _POLICY, _ACTIONS, make.NOW_S)
    again = run_cycle(snapshot, _POLICY, _ACTIONS, make.NOW_S + 1, first.memory)
    fresh = run_cycle(snapshot, _POLICY, _ACTIONS, make.NOW_S + 1)
    assert again.plan == fresh.plan
    assert again.explanation.refusals == fresh.explanation.refusals


@pytest.mark.usefixtures("is_large")
@_BOTH_WAYS
@given(contended_clusters())
def test_no_queue_within_its_quota_is_reclaimed_from(world: ClusterRecords) -> None:
    """Unless it was above it somewhere: a queue that holds at most its quota in everything, and
    all whose ancestors do, with all that the cycle gives them, keeps what it has.
    """
    snapshot = snapshot_of(world)
    queues = snapshot.queues
    queue_of = {job.key: job.queue for job in world.jobs}
    plan = cycle(world).plan
    most = queues.allocated.copy()
    given_a_place = [(bind.job, bind.task) for bind in plan.binds]
    given_a_place += [(waits.job, waits.task) for waits in plan.nominations]
    for job, task in given_a_place:
        above = queues.chain[queues.row[queue_of[job]]]
        shape = snapshot.tasks.shape[snapshot.tasks.row[task]]
        most[above[above >= 0]] += snapshot.demand.queue_units[shape]
    protected = set()
    for row, name in enumerate(queues.names):
        chain = [above for above in queues.chain[row] if above >= 0]
        if bool(((queues.quota[chain] == -1) | (most[chain] <= queues.quota[chain])).all()):
            protected.add(name)
    for evict in plan.evictions:
        if evict.action == "reclaim" and not evict.moves_to:
            assert queue_of[evict.job] not in protected


@pytest.mark.usefixtures("is_large")
@_BOTH_WAYS
@given(contended_clusters(has_racks=True) | shared_clusters())
def test_repeated_cycles_stop_binding_and_evicting(world: ClusterRecords) -> None:
    """Evicted pods come back as pending and compete again; bound ones run."""
    assert cycles_until_rest(world, 10) is not None


def test_a_busy_cluster_comes_to_rest_and_evicts_nobody_twice() -> None:
    """Queues stand as their first job lets them, so victims may come before whom they left for."""
    assert cycles_until_rest(mixed(500, 1000, 50), 10) == 4


def cycles_until_rest(world: ClusterRecords, most: int) -> int | None:
    """How many cycles it takes until nothing is bound or evicted any more; None: more than `most`.
    Nobody is evicted twice before the first actor has started.
    """
    memory, history = EMPTY, EvictionHistory()
    for count in range(1, most + 1):
        result = cycle(world, memory)
        assert broken(world, result.plan) == []
        assert history.broken_by(result.plan) == []
        if not result.plan.binds and not result.plan.evictions:
            return count
        world, memory = settled(world, result.plan), result.memory
    return None


def settled(world: ClusterRecords, plan: Plan) -> ClusterRecords:
    """The world after everybody did as the plan says and the evicted pods were made anew."""
    after = carried_out(world, plan)
    tasks = []
    for task in after.tasks:
        if task.status in (TaskStatus.BINDING, TaskStatus.ALLOCATED):
            tasks.append(make.with_fields(task, status=TaskStatus.RUNNING))
        elif task.status in (TaskStatus.PIPELINED, TaskStatus.RELEASING):
            tasks.append(make.with_fields(task, status=TaskStatus.PENDING, node="", gpu_shares=()))
        else:
            tasks.append(task)
    return make.with_fields(after, tasks=tuple(tasks))
