"""The columns of a ledger, and the one way to change them: entries, which are posted and undone.

Everything that changes what a task holds goes through `post`: the allocate loop, the general path,
victims that are evicted and placed again, every simulation. An entry changes one task by its kind:

| kind | status | idle | releasing | queue | its shares of GPUs |
|---|---|---|---|---|---|
| ALLOCATE | PENDING to ALLOCATED | - request | | + | physical |
| PIPELINE | PENDING or RELEASING to PIPELINED | | - request | + | pipelined |
| EVICT | active to RELEASING | | + request | - | releasing, or no longer pipelined |
| RESTORE | RELEASING back to what it was | | - request | + | the inverse of EVICT |
| POSTPONE | ALLOCATED to PIPELINED | + request | - request | | pipelined, not physical |

An evicted task that is pipelined elsewhere keeps releasing its old place. The journal keeps what is
not committed; `undo_to` takes it back, last first, and restores every column to the last bit.
Nothing here decides anything or checks whether it fits.

Axes: T tasks, N nodes, R resources, L leaves, J jobs, Q queues, D depth of the queue tree, S
shapes, K shapes with shared GPUs, M sizes of GPU memory, G shared GPUs, H shares held by tasks, E
entries.
"""

from typing import NamedTuple

import numba
import numpy as np

from muster.numerics import gpu_shares
from muster.numerics.arrays import Bools, Bytes, Ints
from muster.numerics.axis import QUEUE_WIDTH
from muster.numerics.gpu_shares import GpuShares
from muster.numerics.status import PIPELINED, RELEASING

ALLOCATE, PIPELINE, EVICT, RESTORE, POSTPONE = range(5)
_IDLE = (-1, 0, 0, 0, 1)
_RELEASING = (0, -1, 1, -1, -1)
_QUEUE = (1, 1, -1, 1, 0)

VERSION, JOURNAL = range(2)
"""Scalars of a ledger: how many entries stand, how many of them can still be undone."""


class Fixed(NamedTuple):
    """Columns that no cycle writes to."""

    shape: Ints  # [T]
    leaf: Ints  # [T]
    job: Ints  # [T]
    request: Ints  # [S, R]
    queue_units: Ints  # [S, queue resources], before the node is known
    sharing: Ints  # [S]: the row among shapes with shared GPUs, -1 for the others
    shares: Ints  # [K]: how many shared GPUs each holds
    devices: Ints  # [K]: of how many it wants a part; 0: its claims say which it shares
    memory_mib: Ints  # [K]: what a GPU must have; 0: any
    device_mib: Ints  # [K, M]: what it takes of each GPU of that size
    placed_units: Ints  # [K, M, queue resources], on a node with GPUs of that size
    gpu_size: Ints  # [N]: which of the M sizes the GPUs of a node have
    gpu_memory_mib: Ints  # [N]
    allocatable: Ints  # [N, R]
    minimum: Ints  # [L]
    queue: Ints  # [J]
    is_preemptible: Bools  # [J]
    chain: Ints  # [Q, D]: a queue and its ancestors, deepest first, -1 behind the root


class Journal(NamedTuple):
    """Entries that can be undone: what they did, and what was before."""

    kind: Ints  # [E]
    task: Ints  # [E]
    node: Ints  # [E]
    old_status: Ints  # [E]
    old_node: Ints  # [E]
    old_held: Ints  # [E]
    old_decided_at: Ints  # [E]
    old_evicted_from: Ints  # [E]
    shares: Ints  # [E]: how many shares there were
    held: Ints  # [E]: how many were held


class Live(NamedTuple):
    """Columns that entries change."""

    idle: Ints  # [N, R]
    releasing: Ints  # [N, R]
    status: Bytes  # [T]
    node: Ints  # [T]
    counts: Ints  # [L, statuses]
    queue_allocated: Ints  # [Q, queue resources]
    queue_allocated_non_preemptible: Ints  # [Q, queue resources]
    node_version: Ints  # [N]: grows whenever something on the node changes
    decided_at: Ints  # [T]: the version in which a task was last decided on; -1: not in this cycle
    evictions: Ints  # [T]: how many entries of the journal evict the task
    evicted_from: Ints  # [T]: what its status was when it was last evicted
    shares: GpuShares
    journal: Journal
    scalars: Ints  # [2]


@numba.njit(cache=True)
def post(fixed, live, kind, task, node, status, shares):  # type: ignore[no-untyped-def]
    """Add one entry. `shares` are the rows that the task gets, -1 for one to open; for kinds other
    than ALLOCATE and PIPELINE it keeps those that it has.
    """
    journal, at = live.journal, live.scalars[JOURNAL]
    journal.kind[at], journal.task[at], journal.node[at] = kind, task, node
    journal.old_status[at], journal.old_node[at] = live.status[task], live.node[task]
    journal.old_held[at] = live.shares.held_start[task]
    journal.old_decided_at[at] = live.decided_at[task]
    journal.old_evicted_from[at] = live.evicted_from[task]
    journal.shares[at], journal.held[at] = live.shares.size[0], live.shares.size[1]
    live.scalars[JOURNAL] += 1
    if len(shares) and kind <= PIPELINE:
        gpu_shares.hold(live.shares, task, node, shares)
    _apply(fixed, live, kind, task, node, live.status[task], status, 1)
    if kind == EVICT:
        live.evicted_from[task] = live.status[task]
    _move(fixed, live, task, status)
    live.node[task] = node
    live.decided_at[task] = live.scalars[VERSION]
    live.scalars[VERSION] += 1


@numba.njit(cache=True)
def post_all(fixed, live, kind, tasks, nodes, status, no_shares):  # type: ignore[no-untyped-def]
    """`post` for `tasks` int64[E] on `nodes` int64[E], none of which gets new shares."""
    for at in range(len(tasks)):
        post(fixed, live, kind, tasks[at], nodes[at], status, no_shares)


@numba.njit(cache=True)
def undo_to(fixed, live, length):  # type: ignore[no-untyped-def]
    """Take back entries, last first, until the journal has `length`."""
    journal, shares = live.journal, live.shares
    while live.scalars[JOURNAL] > length:
        live.scalars[JOURNAL] -= 1
        at = live.scalars[JOURNAL]
        kind, task, node = journal.kind[at], journal.task[at], journal.node[at]
        _apply(fixed, live, kind, task, node, journal.old_status[at], live.status[task], -1)
        gpu_shares.drop(shares, journal.shares[at], journal.held[at])
        shares.held_start[task] = journal.old_held[at]
        _move(fixed, live, task, journal.old_status[at])
        live.node[task] = journal.old_node[at]
        live.decided_at[task] = journal.old_decided_at[at]
        live.evicted_from[task] = journal.old_evicted_from[at]
        live.scalars[VERSION] -= 1


@numba.njit(cache=True)
def forget_undo(live, length):  # type: ignore[no-untyped-def]
    """What the journal holds from `length` on is decided."""
    for at in range(length, live.scalars[JOURNAL]):
        if live.journal.kind[at] == EVICT:
            live.evictions[live.journal.task[at]] -= 1
    live.scalars[JOURNAL] = length


@numba.njit(cache=True)
def placed_units(fixed, task, node):  # type: ignore[no-untyped-def]
    """What a task is charged to its queue on a node (-1: not known yet)."""
    shape = fixed.shape[task]
    row = fixed.sharing[shape]
    if row < 0 or node < 0:
        return fixed.queue_units[shape]
    return fixed.placed_units[row, fixed.gpu_size[node]]


@numba.njit(cache=True)
def all_placed_units(fixed, tasks, nodes):  # type: ignore[no-untyped-def]
    """`placed_units` of many tasks: int64[len(tasks), queue resources]."""
    units = np.empty((len(tasks), QUEUE_WIDTH), dtype=np.int64)
    for at in range(len(tasks)):
        units[at] = placed_units(fixed, tasks[at], nodes[at])
    return units


@numba.njit(cache=True)
def book(idle, releasing, allocatable, request, kind, sign):  # type: ignore[no-untyped-def]
    """What an entry does to the columns of its node, resources that the node does not count left
    out; sign -1 takes it back.
    """
    for column in range(len(request)):
        if allocatable[column] > 0:
            idle[column] += sign * _IDLE[kind] * request[column]
            releasing[column] += sign * _RELEASING[kind] * request[column]


@numba.njit(cache=True)
def _apply(fixed, live, kind, task, node, old, new, sign):  # type: ignore[no-untyped-def]
    shape = fixed.shape[task]
    idle, releasing = live.idle[node], live.releasing[node]
    book(idle, releasing, fixed.allocatable[node], fixed.request[shape], kind, sign)
    row = fixed.sharing[shape]
    if row >= 0:
        part = (fixed.device_mib[row, fixed.gpu_size[node]], fixed.shares[row])
        _share(live.shares, idle, releasing, kind, task, old, new, part, sign)
        gpu_shares.update_free(live.shares, node, fixed.gpu_memory_mib[node])
    _charge(fixed, live, fixed.job[task], placed_units(fixed, task, node), sign * _QUEUE[kind])
    if kind == EVICT:
        live.evictions[task] += sign
    live.node_version[node] += 1


@numba.njit(cache=True)
def _share(shares, idle, releasing, kind, task, old, new, part, sign):  # type: ignore[no-untyped-def]
    """Let the shares of a task be used as its new status says instead of as its old one does;
    `part` is their MiB and their number.

    One that waits leaves nothing behind when it is evicted, and takes nothing over elsewhere.
    """
    before, after = gpu_shares.use_of(old, part[0]), gpu_shares.use_of(new, part[0])
    if kind <= PIPELINE or (kind == RESTORE and new == PIPELINED):
        before = (0, 0, 0)
    if kind == EVICT and old == PIPELINED:
        after = (0, 0, 0)
    for at in range(part[1]):
        row = gpu_shares.held(shares, task, at)
        if row >= 0:
            gpu_shares.change(
                shares,
                row,
                idle,
                releasing,
                sign * (after[0] - before[0]),
                sign * (after[1] - before[1]),
                sign * (after[2] - before[2]),
            )


@numba.njit(cache=True)
def _charge(fixed, live, job, units, sign):  # type: ignore[no-untyped-def]
    """Charge the queue of a job and all above it."""
    if sign == 0 or job < 0 or fixed.queue[job] < 0:
        return
    leaf, is_preemptible = fixed.queue[job], fixed.is_preemptible[job]
    for depth in range(fixed.chain.shape[1]):
        queue = fixed.chain[leaf, depth]
        if queue < 0:
            return
        for resource in range(QUEUE_WIDTH):
            live.queue_allocated[queue, resource] += sign * units[resource]
            if not is_preemptible:
                live.queue_allocated_non_preemptible[queue, resource] += sign * units[resource]


@numba.njit(cache=True)
def _move(fixed, live, task, status):  # type: ignore[no-untyped-def]
    leaf = fixed.leaf[task]
    if leaf >= 0:
        live.counts[leaf, live.status[task]] -= 1
        live.counts[leaf, status] += 1
    live.status[task] = status


@numba.njit(cache=True)
def hold_all(idle, releasing, allocatable, requests, statuses):  # type: ignore[no-untyped-def]
    """What tasks that are on a node when the cycle begins take of it: `requests` int64[tasks, R],
    `statuses` int64[tasks].
    """
    for at in range(len(statuses)):
        if statuses[at] == PIPELINED:
            book(idle, releasing, allocatable, requests[at], PIPELINE, 1)
            continue
        book(idle, releasing, allocatable, requests[at], ALLOCATE, 1)
        if statuses[at] == RELEASING:
            book(idle, releasing, allocatable, requests[at], EVICT, 1)
