"""Many changes of one kind applied to the columns of a ledger at once.

Axes: T tasks, N nodes, R resources, L leaves, J jobs, Q queues, D depth of the queue tree, S
shapes, E changes. Names are those of `model.ledger`; what a kind of change does is told by signs.
"""

from typing import NamedTuple

import numba

from muster.numerics.arrays import Bools, Bytes, Ints


class Fixed(NamedTuple):
    """Columns that no cycle writes to."""

    shape: Ints  # [T]
    leaf: Ints  # [T]
    job: Ints  # [T]
    request: Ints  # [S, R]
    queue_units: Ints  # [S, 3]
    allocatable: Ints  # [N, R]
    queue: Ints  # [J]
    is_preemptible: Bools  # [J]
    chain: Ints  # [Q, D]


class Live(NamedTuple):
    """Columns that postings change."""

    idle: Ints  # [N, R]
    releasing: Ints  # [N, R]
    status: Bytes  # [T]
    node: Ints  # [T]
    counts: Ints  # [L, statuses]
    queue_allocated: Ints  # [Q, 3]
    queue_allocated_non_preemptible: Ints  # [Q, 3]
    node_version: Ints  # [N]
    decided_at: Ints  # [T]


class Signs(NamedTuple):
    """What one kind of change adds to idle, to releasing and to the queues: -1, 0 or 1."""

    idle: int
    releasing: int
    queue: int


@numba.njit(cache=True)
def post(fixed, live, signs, tasks, nodes, units, status, version):  # type: ignore[no-untyped-def]
    """Let `tasks` int64[E] be in `status` on `nodes` int64[E]; queues are charged `units` [E, 3],
    or, if that is [0, 3], what the shapes of the tasks say.

    `version` is the number of the first change.
    """
    for at in range(len(tasks)):
        task, node = tasks[at], nodes[at]
        shape = fixed.shape[task]
        request = fixed.request[shape]
        for column in range(len(request)):
            if fixed.allocatable[node, column] > 0:
                live.idle[node, column] += signs.idle * request[column]
                live.releasing[node, column] += signs.releasing * request[column]
        leaf = fixed.leaf[task]
        if leaf >= 0:
            live.counts[leaf, live.status[task]] -= 1
            live.counts[leaf, status] += 1
        if len(units):
            _charge(fixed, live, fixed.job[task], signs.queue, units, at)
        else:
            _charge(fixed, live, fixed.job[task], signs.queue, fixed.queue_units, shape)
        live.status[task] = status
        live.node[task] = node
        live.decided_at[task] = version + at
        live.node_version[node] += 1


@numba.njit(cache=True)
def _charge(fixed, live, job, sign, units, row):  # type: ignore[no-untyped-def]
    """Charge the queue of a job and all above it a row of `units`."""
    if job < 0 or fixed.queue[job] < 0:
        return
    for queue in fixed.chain[fixed.queue[job]]:
        if queue < 0:
            return
        for resource in range(3):
            live.queue_allocated[queue, resource] += sign * units[row, resource]
            if not fixed.is_preemptible[job]:
                live.queue_allocated_non_preemptible[queue, resource] += sign * units[row, resource]
