"""Large searches where GPUs are shared: as few go as in a small cluster."""

import pytest

from muster.engine.config.conf import parse_conf
from muster.engine.cycle import run_cycle
from muster.engine.plan import Plan
from muster.engine.registry import build_actions, build_policy
from muster.model.records import ClusterRecords
from muster.model.status import TaskStatus
from muster.model.tables import snapshot_of
from muster.testing import make

_SIZES = [6, 60]
"""Searched set by set, and from columns."""


def _plan(world: ClusterRecords, action: str) -> Plan:
    conf = parse_conf(f'actions: "allocate, {action}"\n')
    snapshot = snapshot_of(world)
    return run_cycle(snapshot, build_policy(conf), build_actions(conf), make.NOW_S).plan


def _world(
    nodes: int, shares: tuple[float, ...], *more: make.Part, cpu: float = 64
) -> ClusterRecords:
    """One-GPU nodes with tenants that hold these parts, newest on the last node."""
    parts: list[make.Part] = [
        make.queue("has", quota_gpu=0, created_s=0.0),
        make.queue("wants", quota_gpu=nodes, created_s=1.0),
    ]
    for at in range(nodes):
        parts.append(make.node(f"n{at:02}", gpu=1, cpu=cpu))
        parts += [
            make.gang(
                f"v{at:02}-{place}", 1, queue="has", gpu=share, cpu=1, nodes=(f"n{at:02}",),
                created_s=make.NOW_S - 9000 + at, last_start_s=make.NOW_S - 5000,
            )
            for place, share in enumerate(shares)
        ]  # fmt: skip
    world = make.cluster(*parts, *more)
    tasks = tuple(
        make.with_fields(task, gpu_shares=(f"{task.node}.0",) if task.gpu.is_shared else ())
        if task.status is TaskStatus.RUNNING
        else task
        for task in world.tasks
    )
    return make.with_fields(world, tasks=tasks)


def _wants(action: str, gpu: float, cpu: float = 1) -> make.Workload:
    queue = "wants" if action == "reclaim" else "has"
    return make.gang("wants", 1, queue=queue, gpu=gpu, cpu=cpu, priority=90)


@pytest.mark.parametrize("nodes", _SIZES)
@pytest.mark.parametrize("action", ["reclaim", "preempt"])
def test_a_part_of_a_gpu_is_made_free_by_one_of_its_tenants(nodes: int, action: str) -> None:
    plan = _plan(_world(nodes, (0.5, 0.5), _wants(action, 0.5)), action)
    assert len(plan.evictions) == 1
    assert [each.job for each in plan.nominations] == ["default/wants"]


@pytest.mark.parametrize("nodes", _SIZES)
@pytest.mark.parametrize("action", ["reclaim", "preempt"])
def test_a_whole_gpu_is_made_free_by_all_of_its_tenants(nodes: int, action: str) -> None:
    plan = _plan(_world(nodes, (0.5, 0.5), _wants(action, 1)), action)
    assert len({evict.node for evict in plan.evictions}) == 1
    assert len(plan.evictions) == 2


@pytest.mark.parametrize("nodes", _SIZES)
@pytest.mark.parametrize("action", ["reclaim", "preempt"])
def test_the_smallest_tenant_goes_that_makes_room(nodes: int, action: str) -> None:
    plan = _plan(_world(nodes, (0.6, 0.3, 0.1), _wants(action, 0.3)), action)
    assert [evict.job[-2:] for evict in plan.evictions] == ["-1"]


@pytest.mark.parametrize("nodes", _SIZES)
def test_who_lacks_only_cpu_on_a_gpu_with_room_takes_no_gpu(nodes: int) -> None:
    cpus = [
        make.gang(
            f"cpu{at:02}", 1, queue="has", cpu=3, nodes=(f"n{at:02}",), last_start_s=1.0
        )
        for at in range(nodes)
    ]  # fmt: skip
    world = _world(nodes, (0.5,), *cpus, _wants("preempt", 0.5, cpu=2), cpu=4)
    assert [evict.job[:11] for evict in _plan(world, "preempt").evictions] == ["default/cpu"]


@pytest.mark.parametrize("nodes", _SIZES)
def test_each_of_several_jobs_gets_a_gpu_of_its_own(nodes: int) -> None:
    """What was made free for one is not offered to the next."""
    more = [make.gang(f"wants{at}", 1, queue="wants", gpu=1) for at in range(5)]
    plan = _plan(_world(nodes, (0.5, 0.5), *more), "reclaim")
    assert len({each.node for each in plan.nominations}) == 5
    assert len(plan.evictions) == 10
