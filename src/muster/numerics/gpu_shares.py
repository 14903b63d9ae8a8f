"""Shared GPUs as columns: who is on which device, what is left of it, and which one to take.

A GPU that is shared is a row. Its use is three sums of MiB: `physical` (tasks that are there,
leaving ones included), `releasing` (the leaving part of it) and `pipelined` (tasks that wait for
what will be free). What it takes of the node's idle and releasing GPUs follows from the sums alone,
so taking a task away undoes exactly what putting it there did, in any order.

Rows are opened one after another and given back last first, as the journal is undone; one that
nobody uses any more stays and counts for nothing. Axes: N nodes, T tasks, G shared GPUs, H shares
held by tasks.
"""

from typing import NamedTuple

import numba
import numpy as np

from muster.numerics.arrays import Ints
from muster.numerics.axis import GPU, GPU_UNIT
from muster.numerics.status import IS_ALLOCATED, PIPELINED, RELEASING, STUCK_IN_RELEASING

COUNT, HELD = range(2)
OPEN = -1
"""In place of a row: a whole GPU that becomes a shared one."""


class GpuShares(NamedTuple):
    """Shared GPUs of all nodes. Which GPUs a task was on when the cycle began is in `first_*`."""

    physical: Ints  # [G]
    releasing: Ints  # [G]
    pipelined: Ints  # [G]
    node: Ints  # [G]
    next: Ints  # [G]: the next one of the same node, -1 behind the last
    opener: Ints  # [G]: the task that opened it in this cycle, -1 where it was there before
    number: Ints  # [G]: which of the GPUs that its opener opened
    newest: Ints  # [N]: the latest of each node, -1 for none
    free_mib: Ints  # [N]: the most that one of them has left for one more tenant; -1: none has
    held_start: Ints  # [T]: where the shares a task got in this cycle are in `held`, -1: none
    held: Ints  # [H]
    first_start: Ints  # [T]: likewise in `first_held`
    first_held: Ints
    size: Ints  # [2]: how many rows, how many held


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
def is_leaving(shares, row):  # type: ignore[no-untyped-def]
    """Everybody on it is leaving and nobody waits for it: it will be a whole GPU again."""
    physical = shares.physical[row]
    return physical > 0 and shares.releasing[row] == physical and shares.pipelined[row] == 0


@numba.njit(cache=True)
def used(shares, row):  # type: ignore[no-untyped-def]
    """What all its tenants together hold or wait for."""
    return shares.physical[row] + shares.pipelined[row]


@numba.njit(cache=True)
def free_later(shares, row, memory_mib):  # type: ignore[no-untyped-def]
    """MiB that are free once those who leave have left."""
    return memory_mib - shares.physical[row] + shares.releasing[row] - shares.pipelined[row]


@numba.njit(cache=True)
def takes(shares, row, need_mib, memory_mib):  # type: ignore[no-untyped-def]
    """Whether one more tenant fits, perhaps after waiting."""
    if used(shares, row) <= 0 or is_leaving(shares, row):
        return False
    return free_later(shares, row, memory_mib) >= need_mib


@numba.njit(cache=True)
def takes_now(shares, row, need_mib, memory_mib):  # type: ignore[no-untyped-def]
    """Whether one more tenant fits without waiting."""
    return shares.physical[row] > 0 and memory_mib - shares.physical[row] >= need_mib


@numba.njit(cache=True)
def footprint(physical, releasing, pipelined):  # type: ignore[no-untyped-def]
    """What such a GPU adds to the node's (idle, releasing) gpu columns."""
    if physical > 0:
        is_leaving = releasing == physical and pipelined == 0
        return -GPU_UNIT, GPU_UNIT if is_leaving else 0
    return 0, -GPU_UNIT if pipelined > 0 else 0


@numba.njit(cache=True)
def change(shares, row, idle, releasing, by_physical, by_releasing, by_pipelined):  # type: ignore[no-untyped-def]
    """Add to the use of a GPU, and to its node's columns what follows from it."""
    now, later = footprint(shares.physical[row], shares.releasing[row], shares.pipelined[row])
    shares.physical[row] += by_physical
    shares.releasing[row] += by_releasing
    shares.pipelined[row] += by_pipelined
    then = footprint(shares.physical[row], shares.releasing[row], shares.pipelined[row])
    idle[GPU] += then[0] - now
    releasing[GPU] += then[1] - later


# -- rows --------------------------------------------------------------------------------------


@numba.njit(cache=True)
def hold(shares, task, node, rows):  # type: ignore[no-untyped-def]
    """Let the task hold these rows from now on; OPEN ones are made."""
    start, opened = shares.size[HELD], 0
    for at in range(len(rows)):
        row = rows[at]
        if row == OPEN:
            row = shares.size[COUNT]
            shares.size[COUNT] += 1
            shares.physical[row], shares.releasing[row], shares.pipelined[row] = 0, 0, 0
            shares.node[row], shares.opener[row], shares.number[row] = node, task, opened
            shares.next[row], shares.newest[node] = shares.newest[node], row
            opened += 1
        shares.held[start + at] = row
    shares.held_start[task] = start
    shares.size[HELD] += len(rows)


@numba.njit(cache=True)
def drop(shares, count, held):  # type: ignore[no-untyped-def]
    """Take back rows, last first, until there are as many as before."""
    while shares.size[COUNT] > count:
        shares.size[COUNT] -= 1
        row = shares.size[COUNT]
        shares.newest[shares.node[row]] = shares.next[row]
    shares.size[HELD] = held


@numba.njit(cache=True)
def held(shares, task, at):  # type: ignore[no-untyped-def]
    """The row of one of a task's shares; -1: it has none."""
    if shares.held_start[task] >= 0:
        return shares.held[shares.held_start[task] + at]
    if shares.first_start[task] >= 0:
        return shares.first_held[shares.first_start[task] + at]
    return -1


@numba.njit(cache=True)
def update_free(shares, node, memory_mib):  # type: ignore[no-untyped-def]
    """Find again what the emptiest shared GPU of a node has left."""
    most, row = -1, shares.newest[node]
    while row >= 0:
        if takes(shares, row, 0, memory_mib):
            most = max(most, free_later(shares, row, memory_mib))
        row = shares.next[row]
    shares.free_mib[node] = most


@numba.njit(cache=True)
def update_all_free(shares, memory_mib):  # type: ignore[no-untyped-def]
    for node in range(len(shares.newest)):
        shares.free_mib[node] = -1
        if shares.newest[node] >= 0:
            update_free(shares, node, memory_mib[node])


# -- questions about nodes ---------------------------------------------------------------------


@numba.njit(cache=True)
def tenancies(shares, node, need_mib, memory_mib, most):  # type: ignore[no-untyped-def]
    """How many shared GPUs of a node could take one more tenant, counted up to `most`."""
    if shares.free_mib[node] < need_mib:
        return 0
    if most == 1:
        return 1
    count, row = 0, shares.newest[node]
    while row >= 0 and count < most:
        count += takes(shares, row, need_mib, memory_mib)
        row = shares.next[row]
    return count


@numba.njit(cache=True)
def free_units(shares, memory_mib):  # type: ignore[no-untyped-def]
    """Free parts of shared GPUs that stay shared, in GPU units: int64[N]."""
    units = np.zeros(len(shares.newest), dtype=np.int64)
    for row in range(shares.size[COUNT]):
        node = shares.node[row]
        if used(shares, row) > 0 and not is_leaving(shares, row):
            part = max(0, free_later(shares, row, memory_mib[node]))
            units[node] += part * GPU_UNIT // memory_mib[node]
    return units


@numba.njit(cache=True)
def in_use(shares):  # type: ignore[no-untyped-def]
    """How many shared GPUs of each node somebody uses or waits for: int64[N]."""
    count = np.zeros(len(shares.newest), dtype=np.int64)
    for row in range(shares.size[COUNT]):
        count[shares.node[row]] += used(shares, row) > 0
    return count


@numba.njit(cache=True)
def candidates(shares, node, need_mib, memory_mib):  # type: ignore[no-untyped-def]
    """Shared GPUs of a node that take one more tenant, in the order of their rows: int64[C]."""
    count, row = 0, shares.newest[node]
    while row >= 0:
        count += takes(shares, row, need_mib, memory_mib)
        row = shares.next[row]
    rows = np.empty(count, dtype=np.int64)
    row = shares.newest[node]
    while row >= 0:
        if takes(shares, row, need_mib, memory_mib):
            count -= 1
            rows[count] = row
        row = shares.next[row]
    return rows


@numba.njit(cache=True)
def free_part(shares, node, whole, devices, memory_mib):  # type: ignore[no-untyped-def]
    """How many MiB as many GPUs of the node as are wanted have free, each of them."""
    if whole >= devices:
        return memory_mib
    rows = candidates(shares, node, 0, memory_mib)
    missing = devices - max(whole, 0)
    if len(rows) < missing:
        return 0
    for at in range(len(rows)):
        rows[at] = free_later(shares, rows[at], memory_mib)
    rows.sort()
    return rows[len(rows) - missing]


@numba.njit(cache=True)
def packing_scores(shares, rows, memory_mib, slope):  # type: ignore[no-untyped-def]
    """How good each GPU is by how full it is, float64[C + 1]; the last is that of a whole one."""
    scores = np.zeros(len(rows) + 1)
    for at in range(len(rows)):
        scores[at] = slope * used(shares, rows[at]) / memory_mib
    return scores


@numba.njit(cache=True)
def choose(shares, rows, scores, idle, later, need_mib, memory_mib, devices):  # type: ignore[no-untyped-def]
    """(rows int64[devices] or fewer where there are too few, whether all of them have room now).

    `rows` are the candidates with their scores; `idle` and `later` are the whole GPUs that are or
    will be free. The best go first; of equal ones those with room now, then those in use, then the
    oldest. A GPU on which tasks only wait is as free as a whole one, as long as one is idle.
    """
    chosen = np.empty(min(devices, len(rows) + max(later, 0)), dtype=np.int64)
    is_taken = np.zeros(len(rows), dtype=np.bool_)
    opened, starts_now = 0, True
    for place in range(len(chosen)):
        best = -1
        for at in range(len(rows)):
            if not is_taken[at] and (
                best < 0 or _is_better(shares, rows, scores, at, best, need_mib, memory_mib)
            ):
                best = at
        may_open = opened < later
        if best < 0 or (may_open and scores[-1] > scores[best]):
            chosen[place] = OPEN
            opened += 1
            continue
        is_taken[best] = True
        chosen[place] = rows[best]
        starts_now = starts_now and _has_room_now(shares, rows[best], need_mib, memory_mib)
    wanted_idle = opened
    for at in range(len(rows)):
        wanted_idle += is_taken[at] and shares.physical[rows[at]] == 0
    return chosen, starts_now and idle >= wanted_idle


@numba.njit(cache=True)
def _is_better(shares, rows, scores, at, other, need_mib, memory_mib):  # type: ignore[no-untyped-def]
    if scores[at] != scores[other]:
        return scores[at] > scores[other]
    ours = takes_now(shares, rows[at], need_mib, memory_mib)
    return ours and not takes_now(shares, rows[other], need_mib, memory_mib)


@numba.njit(cache=True)
def _has_room_now(shares, row, need_mib, memory_mib):  # type: ignore[no-untyped-def]
    return shares.physical[row] == 0 or takes_now(shares, row, need_mib, memory_mib)
