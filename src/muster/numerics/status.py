"""Statuses of tasks as numbers, and which of them count as what, for kernels.

`model.status.TaskStatus` names the same numbers for everybody else.
"""

import numpy as np

PENDING, GATED, ALLOCATED, PIPELINED, BINDING, BOUND, RUNNING = range(7)
RELEASING, STUCK_IN_RELEASING, SUCCEEDED, FAILED, UNKNOWN, DELETED = range(7, 13)
STATUSES = 13

IS_ALLOCATED = np.zeros(STATUSES, dtype=np.bool_)
"""Holds its resources and is charged to its queue."""
IS_ALLOCATED[[ALLOCATED, BINDING, BOUND, RUNNING]] = True
