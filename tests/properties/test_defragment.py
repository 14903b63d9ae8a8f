"""Defragmentation on drawn clusters: every round is a gain, within its budget, and rounds end."""

from collections.abc import Iterator

import msgspec
import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.engine.config.conf import parse_conf
from muster.engine.config.defragmentation import NAME
from muster.engine.cycle import CycleResult, run_cycle
from muster.engine.memory import Memory
from muster.engine.registry import build_policy
from muster.engine.session import Session
from muster.foresight.aftermath import carried_out
from muster.model.records import ClusterRecords
from muster.model.status import TaskStatus
from muster.model.tables import snapshot_of
from muster.numerics import fragmentation
from muster.numerics.axis import GPU_UNIT, QUEUE_GPU
from muster.testing import make
from muster.testing.invariants import broken

_MOST = 3
_CONF = f"""
actions: allocate
placement: least-fragmentation
defragmentation: {{every: 1h, mostMoves: {_MOST}}}
"""
_POLICY = build_policy(parse_conf(_CONF))
_MOST_ROUNDS = 40


@st.composite
def worlds(draw: st.DrawFn) -> ClusterRecords:
    """Nodes on which jobs of some sizes run, whole GPUs and parts, and nobody waits."""
    names = [f"n{at}" for at in range(draw(st.integers(2, 5)))]
    parts: list[make.Part] = [make.queue("q")]
    free = {name: draw(st.sampled_from((2, 4, 8))) for name in names}
    parts += [make.node(name, gpu=count, cpu=4 * count) for name, count in free.items()]
    for at in range(draw(st.integers(1, 14))):
        gpu = draw(st.sampled_from((0.3, 0.5, 1, 1, 2, 4)))
        node = draw(st.sampled_from(names))
        if free[node] >= max(gpu, 1):
            free[node] -= max(int(gpu), 1)
            fixed = draw(st.integers(0, 4)) == 0
            parts.append(
                make.gang(
                    f"j{at:02}", 1, queue="q", gpu=gpu, cpu=draw(st.integers(0, 4)),
                    nodes=(node,), is_preemptible=not fixed,
                )
            )  # fmt: skip
    return make.cluster(*parts)


def _round(world: ClusterRecords, now_s: float) -> CycleResult:
    return run_cycle(snapshot_of(world), _POLICY, (), now_s, Memory(acted_s={NAME: now_s - 3600}))


def _lost(world: ClusterRecords) -> float:
    """GPUs that the mix could not use."""
    session = Session(snapshot_of(world), _POLICY, make.NOW_S)
    nodes = np.arange(len(world.nodes))
    return float(fragmentation.node_losses(session.ledger.handle, session.mix, nodes).sum())


def _held(world: ClusterRecords, tasks: set[str]) -> float:
    snapshot = snapshot_of(world)
    rows = [snapshot.tasks.row[uid] for uid in tasks]
    units = snapshot.demand.queue_units[snapshot.tasks.shape[rows], QUEUE_GPU]
    return float(units.sum()) / GPU_UNIT


def _arrived(world: ClusterRecords, result: CycleResult) -> ClusterRecords:
    """Who moved runs at its new place, and remembers no eviction."""
    after = carried_out(world, result.plan)
    tasks = tuple(
        msgspec.structs.replace(task, status=TaskStatus.RUNNING)
        if task.status is TaskStatus.PIPELINED
        else task
        for task in after.tasks
    )
    return msgspec.structs.replace(after, tasks=tasks)


def _rounds(world: ClusterRecords) -> Iterator[tuple[ClusterRecords, CycleResult, ClusterRecords]]:
    for at in range(_MOST_ROUNDS):
        result = _round(world, make.NOW_S + 3600 * at)
        after = _arrived(world, result)
        yield world, result, after
        if not result.plan.evictions:
            return
        world = after
    raise AssertionError("rounds go on for ever in a cluster that does not change")


@given(worlds())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_round_frees_what_it_promises_within_its_budget_and_rounds_end(
    world: ClusterRecords,
) -> None:
    for before, result, after in _rounds(world):
        moved = {evict.task for evict in result.plan.evictions}
        assert broken(before, result.plan) == []
        assert len(moved) <= _MOST
        assert all(evict.moves_to and not evict.actor for evict in result.plan.evictions)
        if moved:
            gain = _lost(before) - _lost(after)
            assert gain >= max(_held(before, moved), len(moved) / 2) - 1e-6
