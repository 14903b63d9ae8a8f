"""What a search in vain costs, counted in placements: no more than linear in who might go."""

from collections.abc import Sequence
from typing import Any

import pytest

from muster.engine.config.conf import parse_conf
from muster.engine.cycle import run_cycle
from muster.engine.registry import build_actions, build_policy
from muster.engine.search import simulation, solver
from muster.model.records import ClusterRecords
from muster.model.status import TaskStatus
from muster.model.tables import snapshot_of
from muster.testing import make

_PER_NODE = 16
"""Two tenants on each of eight GPUs."""


def _shared(nodes: int) -> ClusterRecords:
    """Free parts of GPUs that add up to a lot, and no order of moves that joins them."""
    parts: list[make.Part] = [make.queue("q"), make.gang("wants", 1, queue="q", gpu=0.7)]
    for node in range(nodes):
        parts.append(make.node(f"n{node}", gpu=8))
        for slot in range(_PER_NODE):
            gpu = (0.5, 0.3)[slot % 2]
            name = f"v{node}-{slot // 2}-{slot % 2}"
            parts.append(make.gang(name, 1, queue="q", gpu=gpu, nodes=(f"n{node}",)))
    world = make.cluster(*parts)
    tasks = tuple(
        make.with_fields(task, gpu_shares=(f"{task.node}.{task.job.split('-')[-2]}",))
        if task.status is TaskStatus.RUNNING
        else task
        for task in world.tasks
    )
    return make.with_fields(world, tasks=tasks)


@pytest.mark.parametrize("nodes", [2, 4])
def test_a_search_in_vain_costs_at_most_so_much_for_each_who_might_go(
    nodes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    placements: list[int] = []
    simulate = simulation.dry_run

    def counted(
        search: Any, statement: Any, tasks: Sequence[int], victims: Sequence[int], *more: Any,
        **named: Any,
    ) -> bool:  # fmt: skip
        placements.append(len(tasks) + len(victims))
        return simulate(search, statement, tasks, victims, *more, **named)

    monkeypatch.setattr(solver, "dry_run", counted)
    conf = parse_conf("actions: allocate, consolidation")
    result = run_cycle(
        snapshot_of(_shared(nodes)), build_policy(conf), build_actions(conf), make.NOW_S
    )
    assert not result.plan.evictions
    assert sum(placements) > 100 * nodes  # it was looked for
    most = solver.LEAST_WORK + solver.WORK_PER_TASK * _PER_NODE * nodes
    assert sum(placements) <= most + max(placements)
