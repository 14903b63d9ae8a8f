"""Of the units of a pool those may go that are active where they were, with all their tasks."""

import numpy as np

from muster.model.status import IS_ACTIVE_ALLOCATED, IS_ALLOCATED, TaskStatus
from muster.numerics.eligible import Homes, has_come_to, still_there, tasks_of

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


def test_victims_that_are_releasing_or_moved_are_not_eligible_again() -> None:
    statuses = [TaskStatus.RELEASING, TaskStatus.RUNNING, TaskStatus.PIPELINED]
    assert standing([0, 2], statuses, [5, 5, 5]) == [1]


def test_the_tasks_of_chosen_units_come_in_the_order_of_the_units() -> None:
    start, tasks = np.array([0, 2, 3, 5]), np.array([9, 8, 7, 6, 5])
    assert tasks_of(np.array([True, False, True]), start, tasks).tolist() == [9, 8, 6, 5]
    assert tasks_of(np.zeros(3, dtype=np.bool_), start, tasks).tolist() == []


def test_a_pipelined_task_has_moved_only_if_it_was_allocated_before() -> None:
    status = np.array([TaskStatus.PIPELINED, TaskStatus.PIPELINED, TaskStatus.RUNNING], np.int8)
    before = np.array([TaskStatus.PENDING, TaskStatus.RUNNING, TaskStatus.RUNNING], np.int8)
    waits = int(TaskStatus.PIPELINED)
    moved = [
        task
        for task in range(3)
        if has_come_to(np.array([task]), status, waits, before, IS_ALLOCATED)
    ]
    assert moved == [1]
