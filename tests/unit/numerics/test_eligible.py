"""Of the units of a pool those may go that are active where they were."""

import numpy as np

from muster.model.status import IS_ACTIVE_ALLOCATED, TaskStatus
from muster.numerics.eligible import Homes, still_there

# Job 0 has two units, job 1 none, job 2 one; each unit is one task of the same number.
HOMES = Homes(
    first_of_job=np.array([0, 0, 2]),
    units_of_job=np.array([2, 0, 1]),
    task=np.array([0, 1, 2]),
    node=np.array([5, 5, 6]),
)


def standing(jobs: list[int], statuses: list[TaskStatus], nodes: list[int]) -> list[int]:
    rows, status = np.array(jobs, dtype=np.int64), np.array(statuses, dtype=np.int8)
    found = still_there(HOMES, rows, status, np.array(nodes), IS_ACTIVE_ALLOCATED)
    return np.flatnonzero(found).tolist()


def test_units_of_other_jobs_are_left_out() -> None:
    assert standing([0, 1], [TaskStatus.RUNNING] * 3, [5, 5, 6]) == [0, 1]
    assert standing([2], [TaskStatus.RUNNING] * 3, [5, 5, 6]) == [2]


def test_who_left_or_moved_meanwhile_cannot_go_again() -> None:
    statuses = [TaskStatus.RELEASING, TaskStatus.RUNNING, TaskStatus.PIPELINED]
    assert standing([0, 2], statuses, [5, 5, 5]) == [1]
