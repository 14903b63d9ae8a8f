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

Kernels get the columns by a handle, which is one pointer: a tuple of so many arrays costs more to
hand over than most kernels take. What they read in a loop they take out of it first.

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
from muster.numerics.handles import handle_of
from muster.numerics.ledger_size import HELD, JOURNAL, SHARES, VERSION
from muster.numerics.status import PIPELINED, RELEASING

ALLOCATE, PIPELINE, EVICT, RESTORE, POSTPONE = range(5)
_IDLE = (-1, 0, 0, 0, 1)
_RELEASING = (0, -1, 1, -1, -1)
_QUEUE = (1, 1, -1, 1, 0)


class LedgerColumns(NamedTuple):
    """What no cycle writes to, and, from `idle` on, what entries change."""

    shape: Ints  # [T]
    leaf: Ints  # [T]
    job: Ints  # [T]
    request: Ints  # [S, R]
    queue_units: Ints  # [S, queue resources], before the node is known
    sharing: Ints  # [S]: the row among shapes with shared GPUs, -1 for the others
    shares: Ints  # [K]: how many shared GPUs each holds
    devices: Ints  # [K]: of how many it wants a part; 0: its claims say which it shares
    need_mib: Ints  # [K, M]: what a GPU of that size must have left; TOO_LARGE where none can
    device_mib: Ints  # [K, M]: what it takes of each GPU of that size
    placed_units: Ints  # [K, M, queue resources], on a node with GPUs of that size
    gpu_size: Ints  # [N]: which of the M sizes the GPUs of a node have
    gpu_memory_mib: Ints  # [N]
    allocatable: Ints  # [N, R]
    minimum: Ints  # [L]
    queue: Ints  # [J]
    is_preemptible: Bools  # [J]
    chain: Ints  # [Q, D]: a queue and its ancestors, deepest first, -1 behind the root

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

    share_physical: Ints  # [G], as all shares: see `gpu_shares`
    share_releasing: Ints  # [G]
    share_pipelined: Ints  # [G]
    share_node: Ints  # [G]
    share_next: Ints  # [G]: the next one of the same node, -1 behind the last
    share_opener: Ints  # [G]: the task that opened it in this cycle, -1 where it was there before
    share_number: Ints  # [G]: which of the GPUs that its opener opened
    newest_share: Ints  # [N]: the latest of each node, -1 for none
    share_free_mib: Ints  # [N]: the most that one of them has left for one more tenant; -1: none
    held_start: Ints  # [T]: where the shares a task got in this cycle are in `held`, -1: none
    held: Ints  # [H]
    first_start: Ints  # [T] or [0]: likewise those from before the cycle, in `first_held`
    first_held: Ints

    entry_kind: Ints  # [E]: the journal; what entries did, and what was before
    entry_task: Ints  # [E]
    entry_node: Ints  # [E]
    old_status: Ints  # [E]
    old_node: Ints  # [E]
    old_held: Ints  # [E]
    old_decided_at: Ints  # [E]
    old_evicted_from: Ints  # [E]
    old_shares: Ints  # [E]: how many shares there were
    old_held_size: Ints  # [E]: how many were held
    size: Ints  # [4]


SHARE_COLUMNS = tuple(name for name in LedgerColumns._fields if name.startswith("share_"))[:-1]
JOURNAL_COLUMNS = tuple(n for n in LedgerColumns._fields if n.startswith(("entry_", "old_")))


LedgerHandle = handle_of(LedgerColumns, __name__)


@numba.njit(cache=True)
def handle(columns):  # type: ignore[no-untyped-def]
    """A handle on these columns; it must be made anew when one of them is replaced."""
    return LedgerHandle(*columns)


@numba.njit(cache=True)
def post(ledger, kind, task, node, status, shares):  # type: ignore[no-untyped-def]
    """Add one entry. `shares` are the rows that the task gets, OPEN for one to open; for kinds
    other than ALLOCATE and PIPELINE it keeps those that it has.
    """
    size, old = ledger.size, ledger.status[task]
    at = size[JOURNAL]
    ledger.entry_kind[at] = kind
    ledger.entry_task[at] = task
    ledger.entry_node[at] = node
    ledger.old_status[at] = old
    ledger.old_node[at] = ledger.node[task]
    ledger.old_decided_at[at] = ledger.decided_at[task]
    ledger.old_evicted_from[at] = ledger.evicted_from[task]
    if ledger.sharing[ledger.shape[task]] >= 0:
        ledger.old_held[at] = ledger.held_start[task]
        ledger.old_shares[at] = size[SHARES]
        ledger.old_held_size[at] = size[HELD]
        if kind <= PIPELINE:
            gpu_shares.hold(ledger, task, node, shares)
    _apply(ledger, kind, task, node, old, status, 1)
    if kind == EVICT:
        ledger.evicted_from[task] = old
    _move(ledger, task, status)
    ledger.node[task] = node
    ledger.decided_at[task] = size[VERSION]
    size[VERSION] += 1
    size[JOURNAL] += 1


@numba.njit(cache=True)
def post_all(ledger, kind, tasks, nodes, status, no_shares):  # type: ignore[no-untyped-def]
    """`post` for `tasks` int64[E] on `nodes` int64[E], none of which gets new shares."""
    for at in range(len(tasks)):
        post(ledger, kind, tasks[at], nodes[at], status, no_shares)


@numba.njit(cache=True)
def look_at(ledger, tasks, status, is_legal):  # type: ignore[no-untyped-def]
    """(the position of the first of `tasks` int64[E] that cannot come to the status, -1 for none;
    whether some share GPUs). `is_legal` is bool[STATUSES, STATUSES].
    """
    is_sharing = False
    for at in range(len(tasks)):
        task = tasks[at]
        if not is_legal[ledger.status[task], status]:
            return at, is_sharing
        is_sharing = is_sharing or ledger.sharing[ledger.shape[task]] >= 0
    return -1, is_sharing


@numba.njit(cache=True)
def undo_to(ledger, length):  # type: ignore[no-untyped-def]
    """Take back entries, last first, until the journal has `length`."""
    size = ledger.size
    while size[JOURNAL] > length:
        size[JOURNAL] -= 1
        size[VERSION] -= 1
        at = size[JOURNAL]
        kind, task, node = ledger.entry_kind[at], ledger.entry_task[at], ledger.entry_node[at]
        old = ledger.old_status[at]
        _apply(ledger, kind, task, node, old, ledger.status[task], -1)
        if ledger.sharing[ledger.shape[task]] >= 0:
            gpu_shares.drop(ledger, ledger.old_shares[at], ledger.old_held_size[at])
            ledger.held_start[task] = ledger.old_held[at]
        _move(ledger, task, old)
        ledger.node[task] = ledger.old_node[at]
        ledger.decided_at[task] = ledger.old_decided_at[at]
        ledger.evicted_from[task] = ledger.old_evicted_from[at]


@numba.njit(cache=True)
def forget_undo(ledger):  # type: ignore[no-untyped-def]
    """What the journal holds is decided."""
    size, kinds = ledger.size, ledger.entry_kind
    for at in range(size[JOURNAL]):
        if kinds[at] == EVICT:
            ledger.evictions[ledger.entry_task[at]] -= 1
    size[JOURNAL] = 0


@numba.njit(cache=True)
def end(ledger, task, status):  # type: ignore[no-untyped-def]
    """A task without shared GPUs has ended: its node, if that is here, and its queues have back
    what it held. No entry: nobody takes it back.
    """
    node, request = ledger.node[task], ledger.request[ledger.shape[task]]
    if node >= 0:
        idle, releasing = ledger.idle[node], ledger.releasing[node]
        book(idle, releasing, ledger.allocatable[node], request, ALLOCATE, -1)
        ledger.node_version[node] += 1
    _charge(ledger, task, node, -1)
    _move(ledger, task, status)


@numba.njit(cache=True)
def placed_units(ledger, task, node):  # type: ignore[no-untyped-def]
    """What a task is charged to its queue on a node (-1: not known yet)."""
    shape = ledger.shape[task]
    row = ledger.sharing[shape]
    if row < 0 or node < 0:
        return ledger.queue_units[shape]
    return ledger.placed_units[row, ledger.gpu_size[node]]


@numba.njit(cache=True)
def all_placed_units(ledger, tasks, nodes):  # type: ignore[no-untyped-def]
    """`placed_units` of many tasks: int64[len(tasks), queue resources]."""
    units = np.empty((len(tasks), QUEUE_WIDTH), dtype=np.int64)
    for at in range(len(tasks)):
        units[at] = placed_units(ledger, tasks[at], nodes[at])
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
def _apply(ledger, kind, task, node, old, new, sign):  # type: ignore[no-untyped-def]
    """On a node that is not here (-1) a task holds its queue's share, and no room."""
    if node >= 0:
        _apply_to_node(ledger, kind, task, node, old, new, sign)
    _charge(ledger, task, node, sign * _QUEUE[kind])
    if kind == EVICT:
        ledger.evictions[task] += sign


@numba.njit(cache=True)
def _apply_to_node(ledger, kind, task, node, old, new, sign):  # type: ignore[no-untyped-def]
    shape = ledger.shape[task]
    idle, releasing = ledger.idle[node], ledger.releasing[node]
    book(idle, releasing, ledger.allocatable[node], ledger.request[shape], kind, sign)
    if ledger.sharing[shape] >= 0:
        _share(ledger, kind, task, node, old, new, sign)
    ledger.node_version[node] += 1


@numba.njit(cache=True)
def _share(ledger, kind, task, node, old, new, sign):  # type: ignore[no-untyped-def]
    """Let the shares of a task be used as its new status says instead of as its old one does.

    One that waits leaves nothing behind when it is evicted, and takes nothing over elsewhere.
    """
    row = ledger.sharing[ledger.shape[task]]
    amount = ledger.device_mib[row, ledger.gpu_size[node]]
    before, after = gpu_shares.use_of(old, amount), gpu_shares.use_of(new, amount)
    if kind <= PIPELINE or (kind == RESTORE and new == PIPELINED):
        before = (0, 0, 0)
    if kind == EVICT and old == PIPELINED:
        after = (0, 0, 0)
    for at in range(ledger.shares[row]):
        share = gpu_shares.held(ledger, task, at)
        if share >= 0:
            gpu_shares.change(
                ledger,
                share,
                node,
                sign * (after[0] - before[0]),
                sign * (after[1] - before[1]),
                sign * (after[2] - before[2]),
            )
    gpu_shares.update_free(ledger, node)


@numba.njit(cache=True)
def _charge(ledger, task, node, sign):  # type: ignore[no-untyped-def]
    """Charge the queue of a task and all above it."""
    job = ledger.job[task]
    if sign == 0 or job < 0 or ledger.queue[job] < 0:
        return
    leaf, is_preemptible, chain = ledger.queue[job], ledger.is_preemptible[job], ledger.chain
    units = placed_units(ledger, task, node)
    allocated = ledger.queue_allocated
    non_preemptible = ledger.queue_allocated_non_preemptible
    for depth in range(chain.shape[1]):
        queue = chain[leaf, depth]
        if queue < 0:
            return
        for resource in range(QUEUE_WIDTH):
            allocated[queue, resource] += sign * units[resource]
            if not is_preemptible:
                non_preemptible[queue, resource] += sign * units[resource]


@numba.njit(cache=True)
def _move(ledger, task, status):  # type: ignore[no-untyped-def]
    leaf, statuses, counts = ledger.leaf[task], ledger.status, ledger.counts
    if leaf >= 0:
        counts[leaf, statuses[task]] -= 1
        counts[leaf, status] += 1
    statuses[task] = status


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
