"""The allocate loop, compiled: jobs in turn, their tasks onto nodes, until it needs somebody.

The kernel serves jobs of one sub-group whose shapes depend on nothing but resources and answers
that hold for the whole cycle. It works on the ledger's own columns. It returns to its caller when
all jobs had their turn (DONE), when it must know what plugins say about a shape (SHAPE), when a job
has more tasks after its gang (AGAIN), or when a job is not for it (HAND_OUT); the caller does its
part and enters again. State is in arrays only, so nothing is lost in between.

Axes: N nodes, T tasks, J jobs, L leaves, Q queues, S shapes, R resources, F failures, M answer
rows. A node must have room counting what others leave (`later`) and then, to start a task at once,
without that (`now`). Nodes are tried fullest first along one order per packing column, kept sorted
by shifting the node that changed; a shape whose scores differ between nodes is scored node by node.
"""

from typing import NamedTuple

import numba
import numpy as np

from muster.numerics.arrays import Bools, Bytes, Floats, Ints
from muster.numerics.queue_order import refresh, take

DONE, SHAPE, AGAIN, HAND_OUT = 0, 1, 2, 3
"""Why the kernel returned."""
NO_NODE_HERE = 4
"""Inside: a task of the chunk found no node."""

UNKNOWN, ORDERED, SCORED, NOT_OURS, REFUSED = 0, 1, 2, 3, 4
"""What is known of a shape: nothing yet; equal scores everywhere; scores; not for the kernel; no
node at all may take it."""

SERVED, NO_NODE, OVER_LIMIT, OVER_QUOTA, IS_REFUSED = 0, 1, 2, 3, 4
"""How a job ended."""

FACT_SHAPE, FACT_FOUND, FACT_MINIMUM, FACT_COLUMN, FACT_FREE, FACT_NODE = range(6)
DECIDED, FAILURES, PREFERS_NOW = range(3)
PACK_COLUMNS = 2
_GPU_FIRST = 3
_ALLOCATE, _PIPELINE = 0, 1
_PENDING, _ALLOCATED, _PIPELINED, _BINDING, _BOUND, _RUNNING = 0, 2, 3, 4, 5, 6


class World(NamedTuple):
    """Everything the kernel reads and writes. Columns of the ledger are shared, not copied."""

    idle: Ints  # [N, R]
    releasing: Ints  # [N, R]
    allocatable: Ints  # [N, R]
    version: Ints  # [N]
    request: Ints  # [S, R]
    units: Ints  # [S, 3]
    shape_state: Ints  # [S]
    pack: Ints  # [S]: which order of nodes; -1: none
    answer_row: Ints  # [S]
    fits: Bools  # [M, N]
    score: Floats  # [M, N]
    availability: Floats  # [1]
    task_shape: Ints  # [T]
    status: Bytes  # [T]
    node: Ints  # [T]
    sequence: Ints  # [T]
    wait_start: Ints  # [J + 1]
    wait_tasks: Ints
    cursor: Ints  # [J]: the next waiting task
    leaf: Ints  # [J]
    is_ours: Bools  # [J]
    is_preemptible: Bools  # [J]
    minimum: Ints  # [L]
    counts: Ints  # [L, statuses]
    chain: Ints  # [Q, D]
    limit: Floats  # [Q, 3]
    quota: Floats  # [Q, 3]
    held: Ints  # [Q, 3]
    fixed: Ints  # [Q, 3]
    pack_column: Ints  # [2]: the resource each order is by
    order: Ints  # [2, N]: nodes by free amount, then row
    place: Ints  # [2, N]: where each node is in the order
    free: Ints  # [2, N]: the amount it is sorted by
    is_sorted: Bools  # [2]: an order is made when a shape first follows it
    journal_task: Ints
    journal_node: Ints
    journal_kind: Ints
    outcome: Ints  # [J]
    failure: Ints  # [J]: row of the failure that tells why
    failure_counts: Ints  # [F, R + 1]: nodes refused by plugins, then short of each column
    failure_facts: Ints  # [F, 6]
    bound_facts: Ints  # [J, 3]: queue, resource and amount held, where a bound was in the way
    failed_size: Ints  # [S]: the smallest gang of only this shape that failed
    failed_row: Ints  # [S]
    scalars: Ints  # [3]


@numba.njit(cache=True)
def run(world, turns):  # type: ignore[no-untyped-def]
    """Serve jobs until something is needed: (why, job or shape)."""
    while True:
        job = turns.first[0]
        if job < 0:
            return DONE, -1
        if not world.is_ours[job]:
            return HAND_OUT, take(turns)
        why, subject = _serve(world, turns, job)
        if why == SHAPE:
            return SHAPE, subject
        take(turns)
        if why != DONE:
            return why, job
        refresh(turns, turns.job_queue[job])


@numba.njit(cache=True)
def sort_nodes(world, which):  # type: ignore[no-untyped-def]
    """Sort one order of nodes from nothing."""
    column = world.pack_column[which]
    for n in range(world.idle.shape[0]):
        world.free[which, n] = world.idle[n, column] + world.releasing[n, column]
    world.order[which, :] = np.argsort(world.free[which], kind="mergesort")
    for at in range(world.order.shape[1]):
        world.place[which, world.order[which, at]] = at
    world.is_sorted[which] = True


@numba.njit(cache=True)
def resort_node(world, n):  # type: ignore[no-untyped-def]
    """A node changed: shift it to where it belongs in the orders."""
    for which in range(PACK_COLUMNS):
        column = world.pack_column[which]
        free = world.idle[n, column] + world.releasing[n, column]
        if not world.is_sorted[which] or free == world.free[which, n]:
            continue
        order, place = world.order[which], world.place[which]
        world.free[which, n] = free
        at = place[n]
        while at > 0 and _is_before(world.free[which], n, order[at - 1]):
            order[at] = order[at - 1]
            place[order[at]] = at
            at -= 1
        while at < len(order) - 1 and _is_before(world.free[which], order[at + 1], n):
            order[at] = order[at + 1]
            place[order[at]] = at
            at += 1
        order[at] = n
        place[n] = at


@numba.njit(cache=True)
def _is_before(free, left, right):  # type: ignore[no-untyped-def]
    return free[left] < free[right] or (free[left] == free[right] and left < right)


@numba.njit(cache=True)
def _serve(world, turns, job):  # type: ignore[no-untyped-def]
    """Try the next chunk of a job: (DONE, -), (AGAIN, -), (HAND_OUT, -) or (SHAPE, shape)."""
    first = world.cursor[job]
    size = _chunk_size(world, job)
    if size == 0 or _is_out_of_bounds(world, turns, job):
        return DONE, job
    shape = _only_shape(world, first, size)
    if shape >= 0 and size >= world.failed_size[shape]:
        world.outcome[job] = NO_NODE
        world.failure[job] = world.failed_row[shape]
        return DONE, job
    for found in range(size):
        task = world.wait_tasks[first + found]
        why = _place_task(world, found, task)
        if why != DONE:
            subject = world.task_shape[task]
            if why == NO_NODE_HERE:
                _fail(world, job, shape, size, found, subject)
                why = DONE
            _roll_back(world, found)
            return why, subject
    _commit(world, turns, job, size)
    return (AGAIN, job) if world.cursor[job] < world.wait_start[job + 1] else (DONE, job)


@numba.njit(cache=True)
def _chunk_size(world, job):  # type: ignore[no-untyped-def]
    """What is missing to the gang's minimum, or one task."""
    leaf = world.leaf[job]
    missing = world.minimum[leaf] - _started(world, leaf) - world.counts[leaf, _PIPELINED]
    waiting = world.wait_start[job + 1] - world.cursor[job]
    return min(waiting, max(1, missing))


@numba.njit(cache=True)
def _started(world, leaf):  # type: ignore[no-untyped-def]
    counts = world.counts[leaf]
    return counts[_ALLOCATED] + counts[_BINDING] + counts[_BOUND] + counts[_RUNNING]


@numba.njit(cache=True)
def _only_shape(world, first, size):  # type: ignore[no-untyped-def]
    """The shape that all tasks of the chunk have; -1 when they differ."""
    shape = world.task_shape[world.wait_tasks[first]]
    for at in range(first + 1, first + size):
        if world.task_shape[world.wait_tasks[at]] != shape:
            return -1
    return shape


@numba.njit(cache=True)
def _is_out_of_bounds(world, turns, job):  # type: ignore[no-untyped-def]
    """Whether a queue of the chain may not hold the chunk; remembers which."""
    chunk = turns.chunk[job]
    for queue in world.chain[turns.job_queue[job]]:
        if queue < 0:
            break
        for r in range(3):
            limit, quota = world.limit[queue, r], world.quota[queue, r]
            if chunk[r] <= 0:
                continue
            if limit != -1.0 and world.held[queue, r] + chunk[r] > limit:
                _bound(world, job, OVER_LIMIT, queue, r, world.held[queue, r])
                return True
        for r in range(3):
            quota = world.quota[queue, r]
            if world.is_preemptible[job] or chunk[r] <= 0 or quota == -1.0:
                continue
            if world.fixed[queue, r] + chunk[r] > quota:
                _bound(world, job, OVER_QUOTA, queue, r, world.fixed[queue, r])
                return True
    return False


@numba.njit(cache=True)
def _bound(world, job, outcome, queue, resource, held):  # type: ignore[no-untyped-def]
    world.outcome[job] = outcome
    world.bound_facts[job, 0] = queue
    world.bound_facts[job, 1] = resource
    world.bound_facts[job, 2] = held


@numba.njit(cache=True)
def _place_task(world, at, task):  # type: ignore[no-untyped-def]
    """Put a task on its best node: DONE, or what is in the way."""
    shape = world.task_shape[task]
    state = world.shape_state[shape]
    if state == NOT_OURS:
        return HAND_OUT
    if state == REFUSED:
        return NO_NODE_HERE
    if state == UNKNOWN and world.pack[shape] < 0:
        return SHAPE
    n, starts_now = _scored_node(world, shape) if state == SCORED else _ordered_node(world, shape)
    if n < 0:
        return NO_NODE_HERE
    if state == UNKNOWN:
        return SHAPE
    kind = _ALLOCATE if starts_now else _PIPELINE
    world.journal_task[at] = task
    world.journal_node[at] = n
    world.journal_kind[at] = kind
    _book(world, n, shape, kind, 1)
    return DONE


@numba.njit(cache=True)
def _book(world, n, shape, kind, sign):  # type: ignore[no-untyped-def]
    """Take a request from a node (sign 1) or give it back (-1)."""
    for r in range(world.request.shape[1]):
        amount = world.request[shape, r]
        if amount == 0 or world.allocatable[n, r] <= 0:
            continue
        if kind == _ALLOCATE:
            world.idle[n, r] -= sign * amount
        else:
            world.releasing[n, r] -= sign * amount
    world.version[n] += 1
    resort_node(world, n)


@numba.njit(cache=True)
def _roll_back(world, placed):  # type: ignore[no-untyped-def]
    for at in range(placed - 1, -1, -1):
        shape = world.task_shape[world.journal_task[at]]
        _book(world, world.journal_node[at], shape, world.journal_kind[at], -1)


@numba.njit(cache=True)
def _has_room(world, shape, n):  # type: ignore[no-untyped-def]
    """0: no room, 1: room later, 2: room now."""
    room = 2
    for r in range(world.request.shape[1]):
        amount = world.request[shape, r]
        if amount > 0:
            if world.idle[n, r] + world.releasing[n, r] < amount:
                return 0
            if world.idle[n, r] < amount:
                room = 1
    return room


@numba.njit(cache=True)
def _ordered_node(world, shape):  # type: ignore[no-untyped-def]
    """The fullest node with room, first among those with room now: (node or -1, starts now)."""
    which = world.pack[shape]
    if not world.is_sorted[which]:
        sort_nodes(world, which)
    order, free = world.order[which], world.free[which]
    need = world.request[shape, world.pack_column[which]]
    is_known = world.shape_state[shape] != UNKNOWN
    row = world.answer_row[shape]
    waits_at = -1
    for at in range(_first_with(order, free, need), len(order)):
        n = order[at]
        if is_known and not world.fits[row, n]:
            continue
        room = _has_room(world, shape, n)
        if room == 2 or (room == 1 and world.scalars[PREFERS_NOW] == 0):
            return n, room == 2
        if room == 1 and waits_at < 0:
            waits_at = n
    return waits_at, False


@numba.njit(cache=True)
def _first_with(order, free, need):  # type: ignore[no-untyped-def]
    """The first position in the order with at least `need` free."""
    low, high = 0, len(order)
    while low < high:
        middle = (low + high) // 2
        if free[order[middle]] < need:
            low = middle + 1
        else:
            high = middle
    return low


@numba.njit(cache=True)
def _scored_node(world, shape):  # type: ignore[no-untyped-def]
    """The node with the highest sum of scores: (node or -1, starts now)."""
    row = world.answer_row[shape]
    which = world.pack[shape]
    low, high = _free_range(world, which)
    best, best_score, best_room = -1, -np.inf, 0
    for n in range(world.idle.shape[0]):
        if not world.fits[row, n]:
            continue
        room = _has_room(world, shape, n)
        if room == 0:
            continue
        score = world.score[row, n] + _pack_score(world, which, n, low, high)
        if room == 2:
            score += world.availability[0]
        if score > best_score:
            best, best_score, best_room = n, score, room
    return best, best_room == 2


@numba.njit(cache=True)
def _free_range(world, which):  # type: ignore[no-untyped-def]
    low, high = np.int64(0), np.int64(0)
    is_first = True
    if which >= 0:
        column = world.pack_column[which]
        for n in range(world.idle.shape[0]):
            if world.allocatable[n, column] > 0:
                free = world.idle[n, column] + world.releasing[n, column]
                low = free if is_first else min(low, free)
                high = free if is_first else max(high, free)
                is_first = False
    return low, high


@numba.njit(cache=True)
def _pack_score(world, which, n, low, high):  # type: ignore[no-untyped-def]
    if which < 0 or high <= 0:
        return 0.0
    column = world.pack_column[which]
    if world.allocatable[n, column] <= 0:
        return 0.0
    if high == low:
        return 9.0
    free = world.idle[n, column] + world.releasing[n, column]
    return 9.0 * (1.0 - (free - low) / (high - low))


@numba.njit(cache=True)
def _commit(world, turns, job, size):  # type: ignore[no-untyped-def]
    """Write the chunk into the ledger, after deciding whether all of it has to wait."""
    leaf, first = world.leaf[job], world.cursor[job]
    waiting = world.counts[leaf, _PIPELINED]
    started = _started(world, leaf)
    for at in range(size):
        waiting += world.journal_kind[at] == _PIPELINE
        started += world.journal_kind[at] == _ALLOCATE
    if waiting > 0 and started < world.minimum[leaf]:
        _postpone(world, size)
    for at in range(size):
        task = world.wait_tasks[first + at]
        status = _ALLOCATED if world.journal_kind[at] == _ALLOCATE else _PIPELINED
        world.status[task] = status
        world.node[task] = world.journal_node[at]
        world.sequence[task] = world.scalars[DECIDED]
        world.scalars[DECIDED] += 1
        world.counts[leaf, _PENDING] -= 1
        world.counts[leaf, status] += 1
        _charge(world, turns.job_queue[job], world.task_shape[task], world.is_preemptible[job])
    world.cursor[job] += size
    world.outcome[job] = SERVED


@numba.njit(cache=True)
def _postpone(world, size):  # type: ignore[no-untyped-def]
    for at in range(size):
        if world.journal_kind[at] == _ALLOCATE:
            n, shape = world.journal_node[at], world.task_shape[world.journal_task[at]]
            _book(world, n, shape, _ALLOCATE, -1)
            _book(world, n, shape, _PIPELINE, 1)
            world.journal_kind[at] = _PIPELINE


@numba.njit(cache=True)
def _charge(world, leaf_queue, shape, is_preemptible):  # type: ignore[no-untyped-def]
    for queue in world.chain[leaf_queue]:
        if queue < 0:
            break
        for r in range(3):
            world.held[queue, r] += world.units[shape, r]
            if not is_preemptible:
                world.fixed[queue, r] += world.units[shape, r]


@numba.njit(cache=True)
def _fail(world, job, only_shape, size, found, shape):  # type: ignore[no-untyped-def]
    """Remember that the job found no node, and why, as things are with its first tasks placed."""
    world.outcome[job] = IS_REFUSED if world.shape_state[shape] == REFUSED else NO_NODE
    row = world.scalars[FAILURES]
    world.scalars[FAILURES] += 1
    world.failure[job] = row
    _count_reasons(world, row, shape)
    facts = world.failure_facts[row]
    facts[FACT_SHAPE], facts[FACT_FOUND] = shape, found
    facts[FACT_MINIMUM] = world.minimum[world.leaf[job]]
    if only_shape >= 0 and size < world.failed_size[only_shape]:
        world.failed_size[only_shape] = found + 1
        world.failed_row[only_shape] = row


@numba.njit(cache=True)
def _count_reasons(world, row, shape):  # type: ignore[no-untyped-def]
    """How many nodes lack what; the column that most lack, and the node with the most of it."""
    counts = world.failure_counts[row]
    is_known = world.shape_state[shape] in (ORDERED, SCORED)
    answers = world.answer_row[shape]
    for n in range(world.idle.shape[0]):
        if is_known and not world.fits[answers, n]:
            counts[0] += 1
        else:
            counts[1 + _short_column(world, shape, n)] += 1
    facts = world.failure_facts[row]
    column = -1
    for r in range(world.request.shape[1]):
        if counts[1 + r] > 0 and (column < 0 or counts[1 + r] > counts[1 + column]):
            column = r
    facts[FACT_COLUMN], facts[FACT_NODE] = column, -1
    for n in range(world.idle.shape[0] if column >= 0 else 0):
        free = world.idle[n, column] + world.releasing[n, column]
        may_run = not is_known or world.fits[answers, n]
        if may_run and (facts[FACT_NODE] < 0 or free > facts[FACT_FREE]):
            facts[FACT_FREE], facts[FACT_NODE] = free, n


@numba.njit(cache=True)
def _short_column(world, shape, n):  # type: ignore[no-untyped-def]
    """The first column in which a node has too little, GPUs before all others."""
    if _is_short(world, shape, n, _GPU_FIRST):
        return _GPU_FIRST
    for r in range(world.request.shape[1]):
        if _is_short(world, shape, n, r):
            return r
    return 0


@numba.njit(cache=True)
def _is_short(world, shape, n, r):  # type: ignore[no-untyped-def]
    return world.request[shape, r] > world.idle[n, r] + world.releasing[n, r]
