"""Shared GPUs as columns: who is on which device, what is left of it, and which one to take.

A GPU that is shared is a row. Its use is three sums of MiB: `physical` (tasks that are there,
leaving ones included), `releasing` (the leaving part of it) and `pipelined` (tasks that wait for
what will be free). What it takes of the node's idle and releasing GPUs follows from the sums alone,
so taking a task away undoes exactly what putting it there did, in any order.

Rows are opened one after another and given back last first, as the journal is undone; one that
nobody uses any more stays and counts for nothing. Axes: N nodes, T tasks, G shared GPUs, H shares
held by tasks.
"""

import numba
import numpy as np

from muster.numerics.axis import GPU, GPU_UNIT
from muster.numerics.ledger_size import HELD, SHARES
from muster.numerics.status import IS_ALLOCATED, PIPELINED, RELEASING, STUCK_IN_RELEASING

TOO_LARGE = 1 << 62
"""MiB that no GPU has."""
OPEN = -1
"""In place of a row: a whole GPU that becomes a shared one."""


# -- one shared GPU ----------------------------------------------------------------------------


@numba.njit(cache=True)
def use_of(status, amount):  # type: ignore[no-untyped-def]
    """(physical, releasing, pipelined) of a task with this status on each of its GPUs."""
    if status == RELEASING:
        return amount, amount, 0
    if status == PIPELINED:
        return 0, 0, amount
    if IS_ALLOCATED[status] or status == STUCK_IN_RELEASING:
        return amount, 0, 0
    return 0, 0, 0


@numba.njit(cache=True)
def footprint(physical, releasing, pipelined):  # type: ignore[no-untyped-def]
    """What a GPU that is used so adds to the node's (idle, releasing) gpu columns."""
    if physical > 0:
        return -GPU_UNIT, GPU_UNIT if _all_leave(physical, releasing, pipelined) else 0
    return 0, -GPU_UNIT if pipelined > 0 else 0


@numba.njit(cache=True)
def _all_leave(physical, releasing, pipelined):  # type: ignore[no-untyped-def]
    """Everybody on it is leaving and nobody waits for it: it will be a whole GPU again."""
    return physical > 0 and releasing == physical and pipelined == 0


@numba.njit(cache=True)
def used(ledger, row):  # type: ignore[no-untyped-def]
    """What all its tenants together hold or wait for."""
    return ledger.share_physical[row] + ledger.share_pipelined[row]


@numba.njit(cache=True)
def free_later(ledger, row):  # type: ignore[no-untyped-def]
    """MiB that one more tenant could have once those who leave have left; -1 of a GPU that nobody
    shares then.
    """
    physical, pipelined = ledger.share_physical[row], ledger.share_pipelined[row]
    releasing = ledger.share_releasing[row]
    if physical + pipelined <= 0 or _all_leave(physical, releasing, pipelined):
        return -1
    return ledger.gpu_memory_mib[ledger.share_node[row]] - physical + releasing - pipelined


@numba.njit(cache=True)
def takes_now(ledger, row, need_mib):  # type: ignore[no-untyped-def]
    """Whether one more tenant fits without waiting."""
    physical = ledger.share_physical[row]
    return physical > 0 and ledger.gpu_memory_mib[ledger.share_node[row]] - physical >= need_mib


@numba.njit(cache=True)
def change(ledger, row, node, by_physical, by_releasing, by_pipelined):  # type: ignore[no-untyped-def]
    """Add to the use of a GPU, and to its node's columns what follows from it."""
    physical, releasing = ledger.share_physical, ledger.share_releasing
    pipelined = ledger.share_pipelined
    now, later = footprint(physical[row], releasing[row], pipelined[row])
    physical[row] += by_physical
    releasing[row] += by_releasing
    pipelined[row] += by_pipelined
    then_now, then_later = footprint(physical[row], releasing[row], pipelined[row])
    ledger.idle[node, GPU] += then_now - now
    ledger.releasing[node, GPU] += then_later - later


# -- rows --------------------------------------------------------------------------------------


@numba.njit(cache=True)
def can_hold(ledger, count):  # type: ignore[no-untyped-def]
    """Whether the columns have room for so many more shared GPUs and shares held."""
    size = ledger.size
    has_rows = size[SHARES] + count <= len(ledger.share_physical)
    return has_rows and size[HELD] + count <= len(ledger.held)


@numba.njit(cache=True)
def hold(ledger, task, node, rows):  # type: ignore[no-untyped-def]
    """Let the task hold these rows from now on; OPEN ones are made."""
    size, opened = ledger.size, 0
    start = size[HELD]
    for at in range(len(rows)):
        row = rows[at]
        if row == OPEN:
            row = size[SHARES]
            size[SHARES] += 1
            _open(ledger, row, task, node, opened)
            opened += 1
        ledger.held[start + at] = row
    ledger.held_start[task] = start
    size[HELD] += len(rows)


@numba.njit(cache=True)
def _open(ledger, row, task, node, number):  # type: ignore[no-untyped-def]
    ledger.share_physical[row] = 0
    ledger.share_releasing[row] = 0
    ledger.share_pipelined[row] = 0
    ledger.share_node[row] = node
    ledger.share_opener[row] = task
    ledger.share_number[row] = number
    ledger.share_next[row] = ledger.newest_share[node]
    ledger.newest_share[node] = row


@numba.njit(cache=True)
def drop(ledger, count, held):  # type: ignore[no-untyped-def]
    """Take back rows, last first, until there are as many as before."""
    size = ledger.size
    while size[SHARES] > count:
        size[SHARES] -= 1
        row = size[SHARES]
        ledger.newest_share[ledger.share_node[row]] = ledger.share_next[row]
    size[HELD] = held


@numba.njit(cache=True)
def held(ledger, task, at):  # type: ignore[no-untyped-def]
    """The row of one of a task's shares; -1: it has none."""
    if ledger.held_start[task] >= 0:
        return ledger.held[ledger.held_start[task] + at]
    if ledger.first_start[task] >= 0:
        return ledger.first_held[ledger.first_start[task] + at]
    return -1


@numba.njit(cache=True)
def update_free(ledger, node):  # type: ignore[no-untyped-def]
    """Find again what the emptiest shared GPU of a node has left."""
    most, row = -1, ledger.newest_share[node]
    while row >= 0:
        most = max(most, free_later(ledger, row))
        row = ledger.share_next[row]
    ledger.share_free_mib[node] = most


@numba.njit(cache=True)
def update_all_free(ledger):  # type: ignore[no-untyped-def]
    """The same of all nodes that have shared GPUs."""
    for node in range(len(ledger.newest_share)):
        if ledger.newest_share[node] >= 0:
            update_free(ledger, node)


@numba.njit(cache=True)
def is_emptied(ledger, row):  # type: ignore[no-untyped-def]
    """Whether everybody on it leaves and nobody waits for it: then it is a whole GPU."""
    physical, releasing = ledger.share_physical[row], ledger.share_releasing[row]
    return _all_leave(physical, releasing, ledger.share_pipelined[row])


# -- questions about nodes ---------------------------------------------------------------------


@numba.njit(cache=True)
def tenancies(ledger, node, need_mib, most):  # type: ignore[no-untyped-def]
    """How many shared GPUs of a node could take one more tenant, counted up to `most`."""
    count, row = 0, ledger.newest_share[node]
    while row >= 0 and count < most:
        count += free_later(ledger, row) >= need_mib
        row = ledger.share_next[row]
    return count


@numba.njit(cache=True)
def free_units(ledger):  # type: ignore[no-untyped-def]
    """Free parts of shared GPUs that stay shared, in GPU units: int64[N]."""
    memory_mib = ledger.gpu_memory_mib
    units = np.zeros(len(memory_mib), dtype=np.int64)
    for row in range(ledger.size[SHARES]):
        node = ledger.share_node[row]
        units[node] += max(0, free_later(ledger, row)) * GPU_UNIT // memory_mib[node]
    return units


@numba.njit(cache=True)
def in_use(ledger):  # type: ignore[no-untyped-def]
    """How many shared GPUs of each node somebody uses or waits for: int64[N]."""
    count = np.zeros(len(ledger.newest_share), dtype=np.int64)
    for row in range(ledger.size[SHARES]):
        count[ledger.share_node[row]] += used(ledger, row) > 0
    return count


@numba.njit(cache=True)
def candidates(ledger, node, need_mib):  # type: ignore[no-untyped-def]
    """Shared GPUs of a node that take one more tenant, in the order of their rows: int64[C]."""
    newest, following = ledger.newest_share[node], ledger.share_next
    count, row = 0, newest
    while row >= 0:
        count += free_later(ledger, row) >= need_mib
        row = following[row]
    rows = np.empty(count, dtype=np.int64)
    row = newest
    while row >= 0:
        if free_later(ledger, row) >= need_mib:
            count -= 1
            rows[count] = row
        row = following[row]
    return rows


@numba.njit(cache=True)
def free_part(ledger, node, devices):  # type: ignore[no-untyped-def]
    """How many MiB as many GPUs of the node as are wanted have free, each of them."""
    whole = whole_gpus(ledger.idle[node, GPU] + ledger.releasing[node, GPU])
    if whole >= devices:
        return ledger.gpu_memory_mib[node]
    rows = candidates(ledger, node, 0)
    missing = devices - whole
    if len(rows) < missing:
        return 0
    for at in range(len(rows)):
        rows[at] = free_later(ledger, rows[at])
    rows.sort()
    return rows[len(rows) - missing]


@numba.njit(cache=True)
def whole_gpus(units):  # type: ignore[no-untyped-def]
    """How many whole GPUs so many units are."""
    return max(units, 0) // GPU_UNIT


# -- which to take -----------------------------------------------------------------------------


@numba.njit(cache=True)
def packing_scores(ledger, rows, slope):  # type: ignore[no-untyped-def]
    """How good each GPU is by how full it is, float64[C + 1]; the last is that of a whole one."""
    scores = np.zeros(len(rows) + 1)
    for at in range(len(rows)):
        memory_mib = ledger.gpu_memory_mib[ledger.share_node[rows[at]]]
        scores[at] = slope * used(ledger, rows[at]) / memory_mib
    return scores


@numba.njit(cache=True)
def choose(ledger, node, rows, scores, need_mib, devices):  # type: ignore[no-untyped-def]
    """(rows int64[devices], fewer where there are too few; whether all of them have room now).

    `rows` are the candidates with their scores, a whole GPU last. The best go first; of equal ones
    those with room now, then those in use, then the oldest. A GPU on which tasks only wait is as
    free as a whole one, as long as one is idle.
    """
    idle = whole_gpus(ledger.idle[node, GPU])
    later = whole_gpus(ledger.idle[node, GPU] + ledger.releasing[node, GPU])
    chosen = np.empty(min(devices, len(rows) + later), dtype=np.int64)
    is_taken = np.zeros(len(rows), dtype=np.bool_)
    opened, starts_now = 0, True
    for place in range(len(chosen)):
        best = _best(ledger, rows, scores, is_taken, need_mib)
        if best < 0 or (opened < later and scores[-1] > scores[best]):
            chosen[place] = OPEN
            opened += 1
            idle -= 1
            continue
        row = rows[best]
        is_taken[best] = True
        chosen[place] = row
        if ledger.share_physical[row] == 0:
            idle -= 1
        elif not takes_now(ledger, row, need_mib):
            starts_now = False
    return chosen, starts_now and idle >= 0


@numba.njit(cache=True)
def _best(ledger, rows, scores, is_taken, need_mib):  # type: ignore[no-untyped-def]
    """The best candidate that is left; -1: none is."""
    best, has_room_now = -1, False
    for at in range(len(rows)):
        if is_taken[at] or (best >= 0 and scores[at] < scores[best]):
            continue
        takes = takes_now(ledger, rows[at], need_mib)
        if best < 0 or scores[at] > scores[best] or (takes and not has_room_now):
            best, has_room_now = at, takes
    return best
