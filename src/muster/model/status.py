"""TaskStatus, its groups, and the transitions that the engine may make.

Which group a status is in decides what a task counts for: see the table below `GROUPS`. Statuses
are small integers so that a column of them is an array and a group is a mask over it.
"""

from collections.abc import Mapping
from enum import IntEnum

import numpy as np

from muster.numerics import status as numbers
from muster.numerics.arrays import Bools


class TaskStatus(IntEnum):
    """Where a task is in its life, as the scheduler sees it."""

    PENDING = numbers.PENDING
    GATED = numbers.GATED
    ALLOCATED = numbers.ALLOCATED
    PIPELINED = numbers.PIPELINED
    BINDING = numbers.BINDING
    BOUND = numbers.BOUND
    RUNNING = numbers.RUNNING
    RELEASING = numbers.RELEASING
    STUCK_IN_RELEASING = numbers.STUCK_IN_RELEASING
    SUCCEEDED = numbers.SUCCEEDED
    FAILED = numbers.FAILED
    UNKNOWN = numbers.UNKNOWN
    DELETED = numbers.DELETED


STATUSES = numbers.STATUSES
_S = TaskStatus

ALLOCATED = frozenset(status for status in _S if numbers.IS_ALLOCATED[status])
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


IS_ALLOCATED = numbers.IS_ALLOCATED
IS_ACTIVE_ALLOCATED = mask(ACTIVE_ALLOCATED)
IS_ACTIVE_USED = mask(ACTIVE_USED)
IS_ALIVE = mask(ALIVE)
