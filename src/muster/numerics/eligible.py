"""Units of a pool as things stand now: which of them may still go, and who would leave with them.

Axes: J jobs, U units, T tasks.
"""

from typing import NamedTuple

import numba
import numpy as np

from muster.numerics.arrays import Ints


class Homes(NamedTuple):
    """Where units were when their pool was made. The units of a job follow each other."""

    first_of_job: Ints  # [J]: its first unit
    units_of_job: Ints  # [J]: how many it has
    task: Ints  # [U]: the first task of each unit
    node: Ints  # [U]: where that was


@numba.njit(cache=True)
def still_there(homes, jobs, status, node, is_active):  # type: ignore[no-untyped-def]
    """Units of `jobs` int64[*] whose first task is active where it was: bool[U].

    `status` uint8[T] and `node` int64[T] are as they are now, `is_active` bool[statuses].
    """
    first_of_job, units_of_job = homes.first_of_job, homes.units_of_job
    task_of, home = homes.task, homes.node
    eligible = np.zeros(len(task_of), dtype=np.bool_)
    for job in jobs:
        first = first_of_job[job]
        for unit in range(first, first + units_of_job[job]):
            task = task_of[unit]
            eligible[unit] = is_active[status[task]] and node[task] == home[unit]
    return eligible


@numba.njit(cache=True)
def tasks_of(chosen, start, tasks):  # type: ignore[no-untyped-def]
    """The tasks int64[*] of the units that are `chosen` bool[U]; those of unit u are
    `tasks[start[u] : start[u + 1]]`.
    """
    count = 0
    for unit in range(len(chosen)):
        if chosen[unit]:
            count += start[unit + 1] - start[unit]
    found = np.empty(count, dtype=np.int64)
    at = 0
    for unit in range(len(chosen)):
        if chosen[unit]:
            for place in range(start[unit], start[unit + 1]):
                found[at] = tasks[place]
                at += 1
    return found


@numba.njit(cache=True)
def has_come_to(tasks, status, wanted, before, is_allocated):  # type: ignore[no-untyped-def]
    """Whether some of `tasks` int64[*] is in `wanted` and was allocated `before` int8[T].

    `is_allocated` is bool[statuses].
    """
    found = False
    for task in tasks:
        found = found or (status[task] == wanted and is_allocated[before[task]])
    return found
