"""Worlds as no author of a scenario writes them: half of an object is gone, or says what cannot be.

Whatever the cluster, a cycle ends with a plan that keeps the promises of all plans, and no plugin
fails in it. The plan is the same when the objects come in another order or beside others that
matter to nobody, and whatever was remembered of the cycle before.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from muster.engine.config.settings import EngineSettings
from muster.engine.cycle import CycleResult, run_cycle
from muster.engine.memory import EMPTY, Memory
from muster.engine.plan import Plan
from muster.engine.policy import Policy
from muster.engine.profiles.known import conf_of, profile_of
from muster.engine.registry import build_actions, build_policy
from muster.engine.search import action as search_action
from muster.foresight.situation import Actions
from muster.model.records import (
    ClusterRecords,
    Disruption,
    GpuKind,
    GpuRequest,
    JobRecord,
    NodeRecord,
    QueueRecord,
    SubGroupRecord,
    TaskKind,
    TaskRecord,
    TopologyConstraint,
    queue_amounts,
)
from muster.model.status import TaskStatus
from muster.model.tables import ClusterTables, snapshot_of
from muster.numerics.axis import LARGEST_AMOUNT
from muster.testing import make
from muster.testing.contended import contended_clusters
from muster.testing.invariants import broken
from muster.testing.outcome import carried_out
from muster.testing.shared_gpus import shared_clusters
from muster.testing.strategies import ALL, clusters

_SLOWLY = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
_ALL_OF_VOLCANO = "enqueue, allocate, backfill, preempt, reclaim, gangpreempt, gangreclaim, shuffle"
_VOLCANO = """
actions: "{actions}"
tiers:
- plugins: [{{name: priority}}, {{name: gang}}, {{name: conformance}}]
- plugins:
  - {{name: drf}}
  - {{name: predicates}}
  - {{name: {queues}}}
  - {{name: nodeorder}}
  - {{name: binpack}}
  - name: rescheduling
    arguments:
      interval: 1s
      strategies:
      - name: lowNodeUtilization
        params:
          thresholds: {{cpu: 90, memory: 90, pods: 90}}
          targetThresholds: {{cpu: 95, memory: 95, pods: 95}}
"""
_KUBE_BATCH = """
actions: "reclaim, allocate, backfill, preempt"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""
_CONFS = {
    "muster": ("muster", ""),
    "kai": ("kai", ""),
    "volcano": ("volcano", _VOLCANO.format(actions=_ALL_OF_VOLCANO, queues="proportion")),
    "volcano capacity": ("volcano", _VOLCANO.format(actions=_ALL_OF_VOLCANO, queues="capacity")),
    "kube-batch": ("kube-batch", _KUBE_BATCH),
}
_IN_KAIS_WORDS = ("muster", "kai")
_Record = TypeVar("_Record", NodeRecord, QueueRecord, JobRecord, TaskRecord)


@cache
def _rules(name: str) -> tuple[Policy, Actions]:
    profile, text = _CONFS[name]
    conf, known = conf_of(profile, text, "test"), profile_of(profile)
    unbounded = EngineSettings(max_consolidation_victims=None)
    return build_policy(conf, unbounded, known), build_actions(conf, known)


def decided(world: ClusterRecords, conf: str) -> CycleResult:
    policy, actions = _rules(conf)
    return run_cycle(snapshot_of(world), policy, actions, make.NOW_S)


_HUGE = (2**40, 2**50, LARGEST_AMOUNT - 1, LARGEST_AMOUNT)
_STATUSES = tuple(s for s in TaskStatus if s not in (TaskStatus.ALLOCATED, TaskStatus.DELETED))


def _odd_node(draw: st.DrawFn, node: NodeRecord) -> NodeRecord | None:
    how = draw(
        st.sampled_from(
            [
                "gone",
                "empty",
                "bare",
                "shrunk",
                "gpus",
                "no memory",
                "renamed",
                "not ready",
                "mib",
                "huge",
            ]
        )
    )
    if how == "gone":
        return None
    if how == "empty":
        return replace(node, allocatable=dict.fromkeys(node.allocatable, 0))
    if how == "bare":
        return replace(node, allocatable={})
    if how == "shrunk":
        return replace(node, allocatable={n: a // 2 for n, a in node.allocatable.items()})
    if how == "gpus":
        gpu = draw(st.sampled_from([0, 1, 500, 1000, 1500]))
        return replace(node, allocatable={**node.allocatable, "gpu": gpu})
    if how == "no memory":
        return replace(node, gpu_memory_mib=0)
    if how == "mib":
        return replace(node, gpu_memory_mib=draw(st.sampled_from([1, 100, 40_000, 2**40])))
    if how == "renamed":
        return replace(node, name=f"z-{node.name}")
    if how == "huge":
        return replace(
            node, allocatable=dict.fromkeys(node.allocatable, draw(st.sampled_from(_HUGE)))
        )
    return replace(node, is_ready=False)


def _odd_queue(draw: st.DrawFn, queue: QueueRecord, names: Sequence[str]) -> QueueRecord | None:
    how = draw(
        st.sampled_from(
            ["gone", "orphan", "below", "itself", "nothing", "limit", "quota", "bare", "weight"]
        )
    )
    if how == "gone":
        return None
    if how == "orphan":
        return replace(queue, parent="nobody")
    if how == "below":
        return replace(queue, parent=draw(st.sampled_from(list(names))))
    if how == "itself":
        return replace(queue, parent=queue.name)
    if how == "nothing":
        return replace(queue, quota=queue_amounts(0), limit=queue_amounts(0))
    if how == "limit":
        return replace(
            queue, limit=queue_amounts(-1, gpu=draw(st.sampled_from([0, 1, 1000, 2000])))
        )
    if how == "quota":
        return replace(queue, quota=queue_amounts(draw(st.sampled_from([0.0, -1.0, 2.0**62]))))
    if how == "weight":
        return replace(queue, weight=queue_amounts(draw(st.sampled_from([0.0, 1e300, 1e-300]))))
    return replace(queue, quota={}, limit={}, weight={})


_TREES = (
    SubGroupRecord("", None, (SubGroupRecord("other", 1),)),
    SubGroupRecord("", None, (SubGroupRecord("default", 0), SubGroupRecord("other", 2))),
    SubGroupRecord(
        "",
        1,
        (
            SubGroupRecord("a", 1, (SubGroupRecord("default", 1), SubGroupRecord("b", 1))),
            SubGroupRecord("c", 2),
        ),
    ),
    SubGroupRecord(
        "", None, (SubGroupRecord("default", 1, (), TopologyConstraint("nowhere", "zone")),)
    ),
    SubGroupRecord("", None, (SubGroupRecord("default", 2**40),)),
    SubGroupRecord("", 2**40, (SubGroupRecord("default", 1),)),
)


def _odd_job(draw: st.DrawFn, job: JobRecord) -> JobRecord | None:
    how = draw(
        st.sampled_from(
            [
                "gone",
                "queue",
                "tree",
                "priority",
                "stale",
                "never",
                "fixed",
                "empty queue",
                "disruption",
            ]
        )
    )
    if how == "gone":
        return None
    if how == "queue":
        return replace(job, queue="nobody's")
    if how == "empty queue":
        return replace(job, queue="")
    if how == "tree":
        return replace(job, sub_groups=draw(st.sampled_from(_TREES)))
    if how == "priority":
        return replace(job, priority=draw(st.sampled_from([-(2**31), 2**31, 100, 0])))
    if how == "stale":
        return replace(job, stale_since_s=make.NOW_S - 1e6)
    if how == "disruption":
        return replace(job, disruption=draw(st.sampled_from(list(Disruption))))
    if how == "never":
        return replace(job, never_preempts=True)
    return replace(job, is_preemptible=False)


def _odd_task(draw: st.DrawFn, task: TaskRecord, nodes: Sequence[str]) -> TaskRecord | None:
    how = draw(
        st.sampled_from(
            [
                "status",
                "node",
                "no node",
                "group",
                "no job",
                "shares",
                "strange shares",
                "huge",
                "reservation",
                "scaling",
                "stranger",
                "gpu",
                "job",
                "nominated",
                "gone",
            ]
        )
    )
    if how == "gone":
        return None
    if how == "status":
        return replace(task, status=draw(st.sampled_from(_STATUSES)))
    if how == "node":
        return replace(task, node=draw(st.sampled_from([*nodes, "lost"])))
    if how == "no node":
        return replace(task, node="")
    if how == "group":
        return replace(task, sub_group="unheard of")
    if how == "no job":
        return replace(task, job="")
    if how == "job":
        return replace(task, job="default/nobody")
    if how == "shares":
        return replace(task, gpu_shares=())
    if how == "strange shares":
        return replace(task, gpu_shares=("x", "x", "y"))
    if how == "huge":
        name = draw(st.sampled_from(["cpu", "memory", "gpu", "pods", "example.com/x"]))
        return replace(task, request={**task.request, name: draw(st.sampled_from(_HUGE))})
    if how == "reservation":
        return replace(task, kind=TaskKind.RESERVATION)
    if how == "scaling":
        return replace(task, kind=TaskKind.SCALING)
    if how == "stranger":
        return replace(task, is_ours=False, job="")
    if how == "nominated":
        return replace(task, nominated_node=draw(st.sampled_from([*nodes, "lost"])))
    gpu = draw(
        st.sampled_from(
            [
                GpuRequest(GpuKind.FRACTION, 0, portion=500),
                GpuRequest(GpuKind.FRACTION, 3, portion=999),
                GpuRequest(GpuKind.MEMORY, 1, memory_mib=50),
                GpuRequest(GpuKind.MEMORY, 2, memory_mib=2**40),
                GpuRequest(GpuKind.LEGACY_MIG, 1),
                GpuRequest(GpuKind.CLAIM, 0, claimed=("c", "d")),
                GpuRequest(GpuKind.FRACTION, 1, portion=0),
                GpuRequest(GpuKind.MEMORY, 1, memory_mib=0),
            ]
        )
    )
    return replace(task, gpu=gpu)


def _some(
    draw: st.DrawFn, records: Sequence[_Record], odd: Callable[[_Record], _Record | None]
) -> tuple[_Record, ...]:
    """The records, up to three of them made odd."""
    at = set(draw(st.lists(st.integers(0, len(records) - 1), max_size=3))) if records else set()
    found = (odd(one) if i in at else one for i, one in enumerate(records))
    return tuple(one for one in found if one is not None)


@st.composite
def odd_worlds(draw: st.DrawFn) -> ClusterRecords:
    """Contended clusters, clusters that share GPUs, and such with everything, with odd objects."""
    world = draw(st.one_of(contended_clusters(running=8), shared_clusters(), clusters(ALL)))
    nodes = [node.name for node in world.nodes]
    queues = [queue.name for queue in world.queues]
    return replace(
        world,
        nodes=_some(draw, world.nodes, lambda node: _odd_node(draw, node)),
        queues=_some(draw, world.queues, lambda queue: _odd_queue(draw, queue, queues)),
        jobs=_some(draw, world.jobs, lambda job: _odd_job(draw, job)),
        tasks=_some(draw, world.tasks, lambda task: _odd_task(draw, task, nodes)),
    )


@pytest.fixture(params=[False, True], ids=["searched", "constructed"])
def is_large(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in small clusters, and as in large ones, where sets are not tried one after another."""
    if request.param:
        monkeypatch.setattr(search_action, "is_large", lambda *_: True)


BY_ALL = pytest.mark.parametrize("conf", sorted(_CONFS))


@pytest.mark.usefixtures("is_large")
@pytest.mark.parametrize("conf", _IN_KAIS_WORDS)
@_SLOWLY
@given(odd_worlds())
def test_a_cycle_keeps_its_promises_in_any_world(conf: str, world: ClusterRecords) -> None:
    result = decided(world, conf)
    assert result.plugin_failures == ()
    assert broken(world, result.plan) == []


@pytest.mark.parametrize("conf", sorted(_CONFS.keys() - set(_IN_KAIS_WORDS)))
@_SLOWLY
@given(odd_worlds())
def test_no_plugin_of_other_schedulers_fails_in_any_world(conf: str, world: ClusterRecords) -> None:
    result = decided(world, conf)
    assert result.plugin_failures == ()
    there = {node.name for node in world.nodes}
    assert {bind.node for bind in result.plan.binds} <= there
    assert {each.node for each in result.plan.nominations} <= there


@BY_ALL
@_SLOWLY
@given(odd_worlds())
def test_what_matters_to_nobody_changes_nothing(conf: str, world: ClusterRecords) -> None:
    """Another order of all objects; a closed node, an unused queue, labels that nobody reads."""
    other = replace(
        world,
        nodes=(*world.nodes[::-1], make.node("zz-closed", is_unschedulable=True, allocatable={})),
        queues=(*world.queues[::-1], make.queue("zz-unused", weight=0)),
        jobs=world.jobs[::-1],
        tasks=tuple(
            replace(task, labels={**task.labels, "number": str(at)})
            for at, task in enumerate(world.tasks[::-1])
        ),
    )
    expected, found = decided(world, conf).plan, decided(other, conf).plan
    assert _as_sets(found) == _as_sets(expected)


def _as_sets(plan: Plan) -> tuple[list[str], ...]:
    """What is done, in whatever order it is written down."""
    parts: tuple[Iterable[object], ...] = (plan.binds, plan.nominations, plan.evictions)
    return tuple(sorted(map(repr, part)) for part in parts)


@pytest.mark.usefixtures("is_large")
@_SLOWLY
@given(odd_worlds(), odd_worlds())
def test_what_is_remembered_of_another_world_changes_no_plan(
    world: ClusterRecords, later: ClusterRecords
) -> None:
    """Objects of the second world replace those of the first that have their names."""
    policy, actions = _rules("kai")
    tables = ClusterTables()
    tables.extend(world)
    first = run_cycle(tables.snapshot(), policy, actions, make.NOW_S, EMPTY)
    for records in (carried_out(tables.records(), first.plan), later):
        tables.extend(records)
        holds = Memory(holds=first.memory.holds, acted_s=first.memory.acted_s)
        snapshot, now_s = tables.snapshot(), make.NOW_S + 1
        again = run_cycle(snapshot, policy, actions, now_s, first.memory)
        assert again.plan == run_cycle(snapshot, policy, actions, now_s, holds).plan
        built = snapshot_of(tables.records())
        assert again.plan == run_cycle(built, policy, actions, now_s, holds).plan
