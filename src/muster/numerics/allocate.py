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
DECIDED, FAILURES = range(2)
NO_ROOM, ROOM_LATER, ROOM_NOW = range(3)
PACK_COLUMNS = 2
_GPU_FIRST = 3
_ALLOCATE, _PIPELINE = 0, 1
_PENDING, _ALLOCATED, _PIPELINED, _BINDING, _BOUND, _RUNNING = 0, 2, 3, 4, 5, 6


class Nodes(NamedTuple):
    """What nodes have: columns of the ledger, shared, not copied."""

    idle: Ints  # [N, R]
    releasing: Ints  # [N, R]
    allocatable: Ints  # [N, R]
    version: Ints  # [N]


class Shapes(NamedTuple):
    """What shapes ask for, and what is known of them."""

    request: Ints  # [S, R]
    units: Ints  # [S, 3]
    state: Ints  # [S]
    pack: Ints  # [S]: which order of nodes; -1: none
    answer_row: Ints  # [S]
    failed_size: Ints  # [S]: the smallest gang of only this shape that failed
    failed_row: Ints  # [S]


class Answers(NamedTuple):
    """What plugins say about nodes."""

    fits: Bools  # [M, N]
    score: Floats  # [M, N]
    availability: Floats  # [1]


class Orders(NamedTuple):
    """Nodes from full to empty, once per packing column."""

    column: Ints  # [2]: the resource each order is by
    order: Ints  # [2, N]: nodes by free amount, then row
    place: Ints  # [2, N]: where each node is in the order
    free: Ints  # [2, N]: the amount it is sorted by
    is_kept: Bools  # [2]: whether anybody follows it


class Tasks(NamedTuple):
    """Tasks, and which of them wait, in the order in which they start."""

    shape: Ints  # [T]
    status: Bytes  # [T]
    node: Ints  # [T]
    sequence: Ints  # [T]
    wait_start: Ints  # [J + 1]
    waiting: Ints
    cursor: Ints  # [J]: the next waiting task


class Jobs(NamedTuple):
    """Jobs and how they end."""

    leaf: Ints  # [J]
    is_ours: Bools  # [J]
    is_preemptible: Bools  # [J]
    minimum: Ints  # [L]
    counts: Ints  # [L, statuses]
    outcome: Ints  # [J]
    failure: Ints  # [J]: row of the failure that tells why
    bound_facts: Ints  # [J, 3]: queue, resource and amount held, where a bound was in the way


class Queues(NamedTuple):
    """What queues hold and may hold."""

    chain: Ints  # [Q, D]
    limit: Floats  # [Q, 3]
    quota: Floats  # [Q, 3]
    held: Ints  # [Q, 3]
    fixed: Ints  # [Q, 3]


class Journal(NamedTuple):
    """What the job at hand got so far."""

    task: Ints
    node: Ints
    kind: Ints


class Failures(NamedTuple):
    """Why jobs found no node."""

    counts: Ints  # [F, R + 1]: nodes refused by plugins, then short of each column
    facts: Ints  # [F, 6]


class World(NamedTuple):
    """Everything the kernel reads and writes."""

    nodes: Nodes
    shapes: Shapes
    answers: Answers
    orders: Orders
    tasks: Tasks
    jobs: Jobs
    queues: Queues
    journal: Journal
    failures: Failures
    scalars: Ints  # [2]: how many were decided, how many failures there are


@numba.njit(cache=True)
def run(world, turns):  # type: ignore[no-untyped-def]
    """Serve jobs until something is needed: (why, job or shape)."""
    while True:
        job = turns.first[0]
        if job < 0:
            return DONE, -1
        if not world.jobs.is_ours[job]:
            return HAND_OUT, take(turns)
        why, subject = _serve(world, job, turns.job_queue[job], turns.chunk[job])
        if why == SHAPE:
            return SHAPE, subject
        take(turns)
        if why != DONE:
            return why, job
        refresh(turns, turns.job_queue[job])


def sort_nodes(world: World, which: int) -> None:
    """Make one order of nodes, and keep it from now on."""
    orders, nodes = world.orders, world.nodes
    column = orders.column[which]
    orders.free[which] = nodes.idle[:, column] + nodes.releasing[:, column]
    orders.order[which] = np.argsort(orders.free[which], kind="stable")
    orders.place[which, orders.order[which]] = np.arange(orders.order.shape[1])
    orders.is_kept[which] = True


@numba.njit(cache=True)
def resort_node(nodes, orders, n):  # type: ignore[no-untyped-def]
    """A node changed: shift it to where it belongs in the orders."""
    for which in range(PACK_COLUMNS):
        column = orders.column[which]
        now_free = nodes.idle[n, column] + nodes.releasing[n, column]
        free = orders.free[which]
        if not orders.is_kept[which] or now_free == free[n]:
            continue
        order, place = orders.order[which], orders.place[which]
        free[n] = now_free
        at = place[n]
        while at > 0 and _is_before(free, n, order[at - 1]):
            order[at] = order[at - 1]
            place[order[at]] = at
            at -= 1
        while at < len(order) - 1 and _is_before(free, order[at + 1], n):
            order[at] = order[at + 1]
            place[order[at]] = at
            at += 1
        order[at] = n
        place[n] = at


@numba.njit(cache=True)
def _is_before(free, left, right):  # type: ignore[no-untyped-def]
    return free[left] < free[right] or (free[left] == free[right] and left < right)


@numba.njit(cache=True)
def _serve(world, job, queue, chunk):  # type: ignore[no-untyped-def]
    """Try the next chunk of a job: (DONE, -), (AGAIN, -), (HAND_OUT, -) or (SHAPE, shape)."""
    tasks, shapes, jobs = world.tasks, world.shapes, world.jobs
    first = tasks.cursor[job]
    size = _chunk_size(jobs, job, tasks.wait_start[job + 1] - first)
    if size == 0 or _is_out_of_bounds(world.queues, jobs, job, queue, chunk):
        return DONE, job
    shape = _only_shape(tasks, first, size)
    if shape >= 0 and size >= shapes.failed_size[shape]:
        jobs.outcome[job] = NO_NODE
        jobs.failure[job] = shapes.failed_row[shape]
        return DONE, job
    for found in range(size):
        task = tasks.waiting[first + found]
        why = _place_task(world, found, task)
        if why != DONE:
            subject = tasks.shape[task]
            if why == NO_NODE_HERE:
                _fail(world, job, shape, found, subject)
                why = DONE
            _roll_back(world, found)
            return why, subject
    _commit(world, job, queue, size)
    return (AGAIN, job) if tasks.cursor[job] < tasks.wait_start[job + 1] else (DONE, job)


@numba.njit(cache=True)
def _chunk_size(jobs, job, waiting):  # type: ignore[no-untyped-def]
    """What is missing to the gang's minimum, or one task."""
    leaf = jobs.leaf[job]
    held = _started(jobs.counts[leaf]) + jobs.counts[leaf, _PIPELINED]
    return min(waiting, max(1, jobs.minimum[leaf] - held))


@numba.njit(cache=True)
def _started(counts):  # type: ignore[no-untyped-def]
    return counts[_ALLOCATED] + counts[_BINDING] + counts[_BOUND] + counts[_RUNNING]


@numba.njit(cache=True)
def _only_shape(tasks, first, size):  # type: ignore[no-untyped-def]
    """The shape that all tasks of the chunk have; -1 when they differ."""
    shape = tasks.shape[tasks.waiting[first]]
    for at in range(first + 1, first + size):
        if tasks.shape[tasks.waiting[at]] != shape:
            return -1
    return shape


@numba.njit(cache=True)
def _is_out_of_bounds(queues, jobs, job, leaf_queue, chunk):  # type: ignore[no-untyped-def]
    """Whether a queue of the chain may not hold the chunk; remembers which."""
    for queue in queues.chain[leaf_queue]:
        if queue < 0:
            break
        resource = _exceeded(queues.limit[queue], queues.held[queue], chunk)
        if resource >= 0:
            _remember_bound(jobs, job, OVER_LIMIT, queue, resource, queues.held[queue, resource])
            return True
        if jobs.is_preemptible[job]:
            continue
        resource = _exceeded(queues.quota[queue], queues.fixed[queue], chunk)
        if resource >= 0:
            _remember_bound(jobs, job, OVER_QUOTA, queue, resource, queues.fixed[queue, resource])
            return True
    return False


@numba.njit(cache=True)
def _exceeded(bound, held, chunk):  # type: ignore[no-untyped-def]
    """The first resource that is asked for and would exceed its bound; -1 for none."""
    for r in range(3):
        if chunk[r] > 0 and bound[r] != -1.0 and held[r] + chunk[r] > bound[r]:
            return r
    return -1


@numba.njit(cache=True)
def _remember_bound(jobs, job, outcome, queue, resource, held):  # type: ignore[no-untyped-def]
    jobs.outcome[job] = outcome
    jobs.bound_facts[job, 0] = queue
    jobs.bound_facts[job, 1] = resource
    jobs.bound_facts[job, 2] = held


@numba.njit(cache=True)
def _place_task(world, at, task):  # type: ignore[no-untyped-def]
    """Put a task on its best node: DONE, or what is in the way."""
    nodes, shapes, answers, orders = world.nodes, world.shapes, world.answers, world.orders
    shape = world.tasks.shape[task]
    state = shapes.state[shape]
    if state == NOT_OURS:
        return HAND_OUT
    if state == REFUSED:
        return NO_NODE_HERE
    if state == UNKNOWN and shapes.pack[shape] < 0:
        return SHAPE
    if state == SCORED:
        n, room = _scored_node(nodes, shapes, answers, orders.column, shape)
    else:
        n, room = _ordered_node(nodes, shapes, answers, orders, shape)
    if n < 0:
        return NO_NODE_HERE
    if state == UNKNOWN:
        return SHAPE
    kind = _ALLOCATE if room == ROOM_NOW else _PIPELINE
    world.journal.task[at] = task
    world.journal.node[at] = n
    world.journal.kind[at] = kind
    _book(nodes, n, shapes.request[shape], kind, 1)
    resort_node(nodes, orders, n)
    return DONE


@numba.njit(cache=True)
def _book(nodes, n, request, kind, sign):  # type: ignore[no-untyped-def]
    """Take a request from a node (sign 1) or give it back (-1)."""
    column = nodes.idle[n] if kind == _ALLOCATE else nodes.releasing[n]
    for r in range(len(request)):
        if nodes.allocatable[n, r] > 0:
            column[r] -= sign * request[r]
    nodes.version[n] += 1


@numba.njit(cache=True)
def _roll_back(world, placed):  # type: ignore[no-untyped-def]
    for at in range(placed - 1, -1, -1):
        n = world.journal.node[at]
        request = world.shapes.request[world.tasks.shape[world.journal.task[at]]]
        _book(world.nodes, n, request, world.journal.kind[at], -1)
        resort_node(world.nodes, world.orders, n)


@numba.njit(cache=True)
def _room(nodes, request, n):  # type: ignore[no-untyped-def]
    """NO_ROOM, ROOM_LATER or ROOM_NOW."""
    room = ROOM_NOW
    for r in range(len(request)):
        if request[r] > 0:
            if nodes.idle[n, r] + nodes.releasing[n, r] < request[r]:
                return NO_ROOM
            if nodes.idle[n, r] < request[r]:
                room = ROOM_LATER
    return room


@numba.njit(cache=True)
def _ordered_node(nodes, shapes, answers, orders, shape):  # type: ignore[no-untyped-def]
    """The fullest node with room, first among those with room now: (node or -1, room)."""
    which, row, request = shapes.pack[shape], shapes.answer_row[shape], shapes.request[shape]
    order = orders.order[which]
    is_known = shapes.state[shape] != UNKNOWN
    waits_at, waits = -1, NO_ROOM
    first = _first_with(order, orders.free[which], request[orders.column[which]])
    for at in range(first, len(order)):
        n = order[at]
        if is_known and not answers.fits[row, n]:
            continue
        room = _room(nodes, request, n)
        if room == ROOM_NOW or (room == ROOM_LATER and answers.availability[0] == 0.0):
            return n, room
        if room == ROOM_LATER and waits_at < 0:
            waits_at, waits = n, room
    return waits_at, waits


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
def _scored_node(nodes, shapes, answers, columns, shape):  # type: ignore[no-untyped-def]
    """The node with the highest sum of scores: (node or -1, room)."""
    row, request = shapes.answer_row[shape], shapes.request[shape]
    column = columns[shapes.pack[shape]] if shapes.pack[shape] >= 0 else -1
    low, high = _free_range(nodes, column)
    best, best_score, best_room = -1, -np.inf, NO_ROOM
    for n in range(nodes.idle.shape[0]):
        if not answers.fits[row, n]:
            continue
        room = _room(nodes, request, n)
        if room == NO_ROOM:
            continue
        score = answers.score[row, n] + _pack_score(nodes, column, n, low, high)
        if room == ROOM_NOW:
            score += answers.availability[0]
        if score > best_score:
            best, best_score, best_room = n, score, room
    return best, best_room


@numba.njit(cache=True)
def _free_range(nodes, column):  # type: ignore[no-untyped-def]
    """The least and the most that a node which has the resource has free of it."""
    low, high = np.int64(0), np.int64(0)
    is_first = True
    for n in range(nodes.idle.shape[0] if column >= 0 else 0):
        if nodes.allocatable[n, column] > 0:
            free = nodes.idle[n, column] + nodes.releasing[n, column]
            low = free if is_first else min(low, free)
            high = free if is_first else max(high, free)
            is_first = False
    return low, high


@numba.njit(cache=True)
def _pack_score(nodes, column, n, low, high):  # type: ignore[no-untyped-def]
    if column < 0 or high <= 0 or nodes.allocatable[n, column] <= 0:
        return 0.0
    if high == low:
        return 9.0
    free = nodes.idle[n, column] + nodes.releasing[n, column]
    return 9.0 * (1.0 - (free - low) / (high - low))


@numba.njit(cache=True)
def _commit(world, job, queue, size):  # type: ignore[no-untyped-def]
    """Write the chunk into the ledger, after deciding whether all of it has to wait."""
    tasks, jobs, journal = world.tasks, world.jobs, world.journal
    leaf = jobs.leaf[job]
    counts = jobs.counts[leaf]
    waiting, started = counts[_PIPELINED], _started(counts)
    for at in range(size):
        waiting += journal.kind[at] == _PIPELINE
        started += journal.kind[at] == _ALLOCATE
    if waiting > 0 and started < jobs.minimum[leaf]:
        _postpone(world.nodes, world.shapes, tasks, journal, size)
    for at in range(size):
        task = journal.task[at]
        status = _ALLOCATED if journal.kind[at] == _ALLOCATE else _PIPELINED
        tasks.status[task] = status
        tasks.node[task] = journal.node[at]
        tasks.sequence[task] = world.scalars[DECIDED]
        world.scalars[DECIDED] += 1
        counts[_PENDING] -= 1
        counts[status] += 1
        units = world.shapes.units[tasks.shape[task]]
        _charge(world.queues, queue, units, jobs.is_preemptible[job])
    tasks.cursor[job] += size
    jobs.outcome[job] = SERVED


@numba.njit(cache=True)
def _postpone(nodes, shapes, tasks, journal, size):  # type: ignore[no-untyped-def]
    """Turn allocations into waiting at the same place; what is free later stays the same."""
    for at in range(size):
        if journal.kind[at] == _ALLOCATE:
            request = shapes.request[tasks.shape[journal.task[at]]]
            _book(nodes, journal.node[at], request, _ALLOCATE, -1)
            _book(nodes, journal.node[at], request, _PIPELINE, 1)
            journal.kind[at] = _PIPELINE


@numba.njit(cache=True)
def _charge(queues, leaf_queue, units, is_preemptible):  # type: ignore[no-untyped-def]
    for queue in queues.chain[leaf_queue]:
        if queue < 0:
            break
        for r in range(3):
            queues.held[queue, r] += units[r]
            if not is_preemptible:
                queues.fixed[queue, r] += units[r]


@numba.njit(cache=True)
def _fail(world, job, only_shape, found, shape):  # type: ignore[no-untyped-def]
    """Remember that the job found no node, and why, as things are with its first tasks placed."""
    shapes, jobs = world.shapes, world.jobs
    jobs.outcome[job] = IS_REFUSED if shapes.state[shape] == REFUSED else NO_NODE
    row = world.scalars[FAILURES]
    world.scalars[FAILURES] += 1
    jobs.failure[job] = row
    facts = world.failures.facts[row]
    facts[FACT_SHAPE], facts[FACT_FOUND] = shape, found
    facts[FACT_MINIMUM] = jobs.minimum[jobs.leaf[job]]
    is_known = shapes.state[shape] == ORDERED or shapes.state[shape] == SCORED
    fits = world.answers.fits[shapes.answer_row[shape]]
    _count_reasons(world.nodes, shapes.request[shape], is_known, fits, world.failures.counts[row])
    _find_evidence(world.nodes, is_known, fits, world.failures.counts[row], facts)
    if only_shape >= 0:
        shapes.failed_size[only_shape] = found + 1
        shapes.failed_row[only_shape] = row


@numba.njit(cache=True)
def _count_reasons(nodes, request, is_known, fits, counts):  # type: ignore[no-untyped-def]
    """How many nodes plugins refuse, and how many lack which resource."""
    for n in range(nodes.idle.shape[0]):
        if is_known and not fits[n]:
            counts[0] += 1
        else:
            counts[1 + _short_column(nodes, request, n)] += 1


@numba.njit(cache=True)
def _find_evidence(nodes, is_known, fits, counts, facts):  # type: ignore[no-untyped-def]
    """The resource that most nodes lack, and the node that has the most of it."""
    column = -1
    for r in range(len(counts) - 1):
        if counts[1 + r] > 0 and (column < 0 or counts[1 + r] > counts[1 + column]):
            column = r
    facts[FACT_COLUMN], facts[FACT_NODE] = column, -1
    for n in range(nodes.idle.shape[0] if column >= 0 else 0):
        free = nodes.idle[n, column] + nodes.releasing[n, column]
        may_run = not is_known or fits[n]
        if may_run and (facts[FACT_NODE] < 0 or free > facts[FACT_FREE]):
            facts[FACT_FREE], facts[FACT_NODE] = free, n


@numba.njit(cache=True)
def _short_column(nodes, request, n):  # type: ignore[no-untyped-def]
    """The first column in which a node has too little, GPUs before all others."""
    if request[_GPU_FIRST] > nodes.idle[n, _GPU_FIRST] + nodes.releasing[n, _GPU_FIRST]:
        return _GPU_FIRST
    for r in range(len(request)):
        if request[r] > nodes.idle[n, r] + nodes.releasing[n, r]:
            return r
    return 0
