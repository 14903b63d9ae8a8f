"""TaskStatus, its groups, and the transitions that the engine may make.

Which group a status is in decides what a task counts for: see the table below `GROUPS`. Statuses
are small integers so that a column of them is an array and a group is a mask over it.
"""

from collections.abc import Mapping
from enum import IntEnum

import numpy as np

from muster.numerics.arrays import Bools


class TaskStatus(IntEnum):
    """Where a task is in its life, as the scheduler sees it."""

    PENDING = 0
    GATED = 1
    ALLOCATED = 2
    PIPELINED = 3
    BINDING = 4
    BOUND = 5
    RUNNING = 6
    RELEASING = 7
    STUCK_IN_RELEASING = 8
    SUCCEEDED = 9
    FAILED = 10
    UNKNOWN = 11
    DELETED = 12


STATUSES = len(TaskStatus)
_S = TaskStatus

ALLOCATED = frozenset({_S.ALLOCATED, _S.BINDING, _S.BOUND, _S.RUNNING})
"""Holds its resources and is charged to its queue."""
ACTIVE_ALLOCATED = ALLOCATED | {_S.PIPELINED}
"""Counts towards the minimum of its gang; may be evicted."""
ACTIVE_USED = ACTIVE_ALLOCATED | {_S.RELEASING, _S.STUCK_IN_RELEASING}
"""Sits on its node."""
ALIVE = ACTIVE_ALLOCATED | {_S.PENDING, _S.GATED}
"""Will need resources, or has them."""

LEGAL: Mapping[TaskStatus, frozenset[TaskStatus]] = {
    _S.PENDING: frozenset({_S.ALLOCATED, _S.PIPELINED}),
    _S.ALLOCATED: frozenset({_S.BINDING, _S.PENDING, _S.PIPELINED, _S.RELEASING}),
    _S.PIPELINED: frozenset({_S.PENDING, _S.RELEASING}),
    _S.BINDING: frozenset({_S.RELEASING}),
    _S.BOUND: frozenset({_S.RELEASING}),
    _S.RUNNING: frozenset({_S.RELEASING}),
    _S.RELEASING: frozenset({_S.PIPELINED, _S.ALLOCATED, _S.BINDING, _S.BOUND, _S.RUNNING}),
}
"""What one entry of the ledger, or its inverse, may do. A status that is missing stays as it is."""


class IllegalTransition(Exception):
    """A task was to change its status in a way that makes no sense: a defect of the caller."""

    def __init__(self, task: str, old: TaskStatus, new: TaskStatus) -> None:
        super().__init__(f"task {task} cannot go from {old.name} to {new.name}")
        self.task, self.old, self.new = task, old, new


def mask(group: frozenset[TaskStatus]) -> Bools:
    """The group as bool[STATUSES]: `mask(ALLOCATED)[status_column]` says who is in it."""
    members = np.zeros(STATUSES, dtype=np.bool_)
    members[[int(status) for status in group]] = True
    return members


IS_ALLOCATED = mask(ALLOCATED)
IS_ACTIVE_ALLOCATED = mask(ACTIVE_ALLOCATED)
IS_ACTIVE_USED = mask(ACTIVE_USED)
IS_ALIVE = mask(ALIVE)
