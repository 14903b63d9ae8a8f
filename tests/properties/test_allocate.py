"""Allocate on random clusters: three ways agree, and what must hold always holds."""

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.engine.actions import allocate
from muster.engine.config.conf import parse_conf
from muster.engine.config.reader import Reader
from muster.engine.cycle import run_cycle
from muster.engine.hooks import SessionPlugin, View, WithoutArguments
from muster.engine.ordering import JobQueue
from muster.engine.registry import build_policy
from muster.engine.session import Session
from muster.model.gpu_request import device_mib
from muster.model.reasons import Reason, Refusal
from muster.model.records import ClusterRecords
from muster.model.shapes import Shape
from muster.model.snapshot import ClusterSnapshot
from muster.model.status import IS_ACTIVE_ALLOCATED, TaskStatus
from muster.model.tables import ClusterTables, snapshot_of
from muster.numerics.arrays import Bools
from muster.numerics.axis import GPU, GPU_UNIT
from muster.testing import make
from muster.testing.reference import Reference
from muster.testing.strategies import ALL, PLAIN, Features, clusters

POLICIES = {
    name: build_policy(parse_conf(f"actions: allocate\nplacement: {name}\n"))
    for name in ("binpack", "least-fragmentation")
}
POLICY = POLICIES["binpack"]
ACTIONS = (("allocate", allocate.execute),)


def _session(records: ClusterRecords, placement: str = "binpack") -> Session:
    return Session(snapshot_of(records), POLICIES[placement], make.NOW_S)


def _decisions(session: Session) -> dict[str, tuple[str, str]]:
    snapshot, ledger = session.snapshot, session.ledger
    return {
        uid: (
            TaskStatus(int(ledger.status[row])).name,
            snapshot.nodes.names[ledger.node[row]] if ledger.node[row] >= 0 else "",
        )
        for uid, row in snapshot.tasks.row.items()
        if snapshot.tasks.status[row] == TaskStatus.PENDING
    }


def _compiled(records: ClusterRecords, placement: str = "binpack") -> Session:
    session = _session(records, placement)
    allocate.execute(session)
    return session


def _general(records: ClusterRecords, placement: str = "binpack") -> Session:
    session = _session(records, placement)
    allocate.execute_generally(session, JobQueue(session, allocate.NAME))
    return session


@given(clusters(PLAIN))
@settings(max_examples=60, deadline=None)
def test_kernel_general_path_and_reference_decide_alike(records: ClusterRecords) -> None:
    compiled, general = _compiled(records), _general(records)
    assert _decisions(compiled) == _decisions(general)
    assert _decisions(general) == Reference(_session(records)).decisions()
    for column in (
        "idle",
        "releasing",
        "counts",
        "queue_allocated",
        "queue_allocated_non_preemptible",
        "node",
    ):
        assert np.array_equal(getattr(compiled.ledger, column), getattr(general.ledger, column))


@given(clusters(ALL), st.sampled_from(sorted(POLICIES)))
@settings(max_examples=200, deadline=None)
def test_kernel_and_general_path_decide_and_refuse_alike(
    records: ClusterRecords, placement: str
) -> None:
    compiled, general = _compiled(records, placement), _general(records, placement)
    assert _decisions(compiled) == _decisions(general)
    assert compiled.refusals == general.refusals
    nodes = range(len(compiled.snapshot.nodes))
    shares = [[session.ledger.gpu_shares_on(n) for n in nodes] for session in (compiled, general)]
    assert shares[0] == shares[1]


class _OneQueueOnly(WithoutArguments):
    """Refuses every shape to the jobs of all queues but the first."""

    name: ClassVar[str] = "onequeueonly"

    def open(self, view: View) -> SessionPlugin:
        return _Refusing(view.snapshot)


class _Refusing(SessionPlugin):
    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._jobs, self._favoured = snapshot.jobs, min(snapshot.queues.names, default="")

    def pre_filter(self, shape: Shape, job: int) -> Refusal | None:
        queue = self._jobs.records[job].queue
        if queue == self._favoured:
            return None
        return Refusal(Reason.BAD_REQUEST, subject=queue)


_PARTIAL = replace(POLICY, plugins=(*POLICY.plugins, (0, _OneQueueOnly(Reader({}, "test")))))


@given(clusters(ALL))
@settings(max_examples=80, deadline=None)
def test_a_shape_that_is_refused_to_one_queue_is_not_refused_to_another(
    records: ClusterRecords,
) -> None:
    sessions = []
    for is_compiled in (True, False):
        session = Session(snapshot_of(records), _PARTIAL, make.NOW_S)
        if is_compiled:
            allocate.execute(session)
        else:
            allocate.execute_generally(session, JobQueue(session, allocate.NAME))
        sessions.append(session)
    assert _decisions(sessions[0]) == _decisions(sessions[1])
    assert sessions[0].refusals == sessions[1].refusals


@given(clusters(ALL))
@settings(max_examples=40, deadline=None)
def test_no_node_is_allocated_beyond_its_capacity(records: ClusterRecords) -> None:
    session = _compiled(records)
    before = session.snapshot.nodes
    free = session.ledger.idle + session.ledger.releasing
    assert (free >= np.minimum(before.idle + before.releasing, 0)).all()
    assert (session.ledger.idle >= np.minimum(before.idle, 0)).all()


@given(clusters(ALL))
@settings(max_examples=40, deadline=None)
def test_no_gpu_is_shared_beyond_its_memory(records: ClusterRecords) -> None:
    session = _compiled(records)
    for node, memory in enumerate(session.snapshot.nodes.gpu_memory_mib.tolist()):
        for use in session.ledger.gpu_shares_on(node).values():
            assert use.physical <= memory
            assert memory - use.physical + use.releasing - use.pipelined >= 0


def _packed(records: ClusterRecords) -> ClusterRecords:
    """The same with tasks that run on a part of one GPU put together, as many as fit."""
    memory_mib = {node.name: node.gpu_memory_mib for node in records.nodes}
    left: dict[tuple[str, str], int] = {}
    tasks = []
    for task in records.tasks:
        if task.node and task.gpu.is_shared and task.gpu.devices == 1:
            need = device_mib(task.gpu, memory_mib[task.node])
            fits = (
                name for (node, name), free in left.items() if node == task.node and free >= need
            )
            share = next(fits, f"shared by {task.uid}")
            left.setdefault((task.node, share), memory_mib[task.node])
            left[task.node, share] -= need
            task = make.with_fields(task, gpu_shares=(share,))
        tasks.append(task)
    return make.with_fields(records, tasks=tuple(tasks))


def _gpus_of(session: Session, node: int, statuses: Bools) -> float:
    """GPUs of a node that tasks of these statuses are on, whole ones and shared ones: counted from
    the tasks, not from the sums of the ledger.
    """
    ledger, records = session.ledger, session.snapshot.tasks.records
    rows = np.flatnonzero(session.snapshot.tasks.live & (ledger.node == node))
    there = [row for row in rows.tolist() if statuses[ledger.status[row]]]
    whole = sum(records[row].request.get("gpu", 0) for row in there) / GPU_UNIT
    shared = {
        name for row in there if records[row].gpu.is_shared for name in ledger.gpu_shares_of(row)
    }
    return whole + len(shared)


@given(clusters(ALL))
@settings(max_examples=150, deadline=None)
def test_no_gpu_is_promised_twice(records: ClusterRecords) -> None:
    """Neither now, with those who are leaving, nor later, with those who wait."""
    now, later = IS_ACTIVE_ALLOCATED.copy(), IS_ACTIVE_ALLOCATED.copy()
    now[[TaskStatus.RELEASING, TaskStatus.PIPELINED]] = True, False
    later[TaskStatus.PIPELINED] = True
    session = _compiled(_packed(records))
    nodes = session.snapshot.nodes
    for node in range(len(nodes)):
        gpus = nodes.allocatable[node, GPU] / GPU_UNIT
        assert _gpus_of(session, node, now) <= gpus
        assert _gpus_of(session, node, later) <= gpus
        for use in session.ledger.gpu_shares_on(node).values():
            assert use.physical <= nodes.gpu_memory_mib[node]


@given(clusters(ALL))
@settings(max_examples=100, deadline=None)
def test_kernel_and_general_path_decide_alike_beside_gpus_with_several_tenants(
    records: ClusterRecords,
) -> None:
    together = _packed(records)
    compiled, general = _compiled(together), _general(together)
    assert _decisions(compiled) == _decisions(general)
    assert compiled.refusals == general.refusals


@given(clusters(ALL))
@settings(max_examples=40, deadline=None)
def test_a_gang_is_placed_entirely_or_not_at_all(records: ClusterRecords) -> None:
    session = _compiled(records)
    snapshot, ledger = session.snapshot, session.ledger
    for leaf in snapshot.jobs.leaves.tolist():
        tasks = snapshot.tasks_of_leaf(leaf)
        touched = (ledger.decided_at[tasks] >= 0).any()
        held = IS_ACTIVE_ALLOCATED[ledger.status[tasks]].sum()
        assert not touched or held >= snapshot.leaves.minimum[leaf]


@given(clusters(ALL), st.randoms(use_true_random=False))
@settings(max_examples=30, deadline=None)
def test_the_order_of_the_input_changes_no_decision(
    records: ClusterRecords, random: st.DataObject
) -> None:
    shuffled = {
        name: tuple(random.sample(getattr(records, name), len(getattr(records, name))))  # type: ignore[attr-defined]
        for name in ("nodes", "tasks", "jobs", "queues")
    }
    other = make.with_fields(records, **shuffled)
    policy = POLICIES["least-fragmentation"]
    first = run_cycle(snapshot_of(records), policy, ACTIONS, make.NOW_S)
    second = run_cycle(snapshot_of(other), policy, ACTIONS, make.NOW_S)
    assert first.plan == second.plan
    assert first.explanation == second.explanation


@given(clusters(ALL))
@settings(max_examples=30, deadline=None)
def test_every_unplaced_job_has_a_reason(records: ClusterRecords) -> None:
    snapshot = snapshot_of(records)
    result = run_cycle(snapshot, POLICY, ACTIONS, make.NOW_S)
    placed = {bind.task for bind in result.plan.binds}
    placed |= {nomination.task for nomination in result.plan.nominations}
    for task in records.tasks:
        if task.status is TaskStatus.PENDING and task.uid not in placed:
            assert all(result.explanation.sentences(task.job))
            assert result.explanation.refusals[task.job]


@given(clusters(ALL))
@settings(max_examples=30, deadline=None)
def test_the_refusal_cache_changes_no_decision(records: ClusterRecords) -> None:
    tables = ClusterTables()
    tables.extend(records)
    snapshot: ClusterSnapshot = tables.snapshot()
    first = run_cycle(snapshot, POLICY, ACTIONS, make.NOW_S)
    again = run_cycle(tables.snapshot(), POLICY, ACTIONS, make.NOW_S + 1, first.memory)
    fresh = run_cycle(snapshot, POLICY, ACTIONS, make.NOW_S + 1)
    assert again.plan == fresh.plan
    assert again.explanation == fresh.explanation


@pytest.mark.parametrize("features", [PLAIN, ALL])
def test_strategies_draw_clusters_in_which_pods_are_placed(features: Features) -> None:
    """Guards the tests above against a strategy that draws only empty worlds."""
    placed = []

    @given(clusters(features))
    @settings(max_examples=100, deadline=None, database=None)
    def draw(records: ClusterRecords) -> None:
        placed.append(_compiled(records).ledger.version)

    draw()
    assert sum(count > 0 for count in placed) > 25
