"""The allocate loop, compiled: jobs in turn, their tasks onto nodes, until it needs somebody.

The loop serves jobs of one sub-group whose shapes depend on nothing but resources and answers that
hold for the whole cycle. It works on the ledger's own columns. It returns to its caller when all
jobs had their turn (DONE), when it must know what plugins say about a shape (SHAPE), when a job has
more tasks after its gang (REQUEUE), or when a job is not for it (FALLBACK); the caller does its
part and enters again.
"""

import numba

from muster.numerics.allocate_state import (
    ALLOCATE,
    DONE,
    FACT_COLUMN,
    FACT_FOUND,
    FACT_FREE,
    FACT_NODE,
    FACT_SHAPE,
    FAILURES,
    FALLBACK,
    IS_REFUSED,
    NO_NODE,
    NO_NODE_HERE,
    ORDERED,
    OVER_LIMIT,
    OVER_QUOTA,
    PIPELINE,
    REFUSED,
    REQUEUE,
    ROOM_NOW,
    SCORED,
    SERVED,
    SHAPE,
    UNKNOWN,
    UNSUPPORTED,
    VERSION,
)
from muster.numerics.axis import GPU
from muster.numerics.node_search import ordered_node, resort_node, scored_node
from muster.numerics.queue_order import pop, refresh

_PENDING, _ALLOCATED, _PIPELINED, _BINDING, _BOUND, _RUNNING = 0, 2, 3, 4, 5, 6
"""Statuses by number, as the model counts them."""


@numba.njit(cache=True)
def run(state, heaps):  # type: ignore[no-untyped-def]
    """Serve jobs until something is needed: (why, job or shape)."""
    while True:
        job = heaps.first[0]
        if job < 0:
            return DONE, -1
        if not state.jobs.is_supported[job]:
            return FALLBACK, pop(heaps)
        why, subject = _serve(state, job, heaps.job_queue[job], heaps.chunk[job])
        if why == SHAPE:
            return SHAPE, subject
        pop(heaps)
        if why != DONE:
            return why, job
        refresh(heaps, heaps.job_queue[job])


@numba.njit(cache=True)
def _serve(state, job, queue, chunk):  # type: ignore[no-untyped-def]
    """Try the next chunk of a job: (DONE, -), (REQUEUE, -), (FALLBACK, -) or (SHAPE, shape)."""
    tasks, shapes, jobs = state.tasks, state.shapes, state.jobs
    first = tasks.cursor[job]
    size = _chunk_size(jobs, job, tasks.wait_start[job + 1] - first)
    if size == 0 or _is_out_of_bounds(state.queues, jobs, job, queue, chunk):
        return DONE, job
    shape = _only_shape(tasks, first, size)
    if shape >= 0 and size >= shapes.failed_size[shape]:
        jobs.outcome[job] = NO_NODE
        jobs.failure[job] = shapes.failed_row[shape]
        return DONE, job
    for found in range(size):
        task = tasks.waiting[first + found]
        why = _place_task(state, found, task)
        if why != DONE:
            subject = tasks.shape[task]
            if why == NO_NODE_HERE:
                _fail(state, job, shape, found, subject)
                why = DONE
            _roll_back(state, found)
            return why, subject
    _commit(state, job, queue, size)
    return (REQUEUE, job) if tasks.cursor[job] < tasks.wait_start[job + 1] else (DONE, job)


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
        resource = _exceeded(queues.quota[queue], queues.held_non_preemptible[queue], chunk)
        if resource >= 0:
            _remember_bound(
                jobs, job, OVER_QUOTA, queue, resource, queues.held_non_preemptible[queue, resource]
            )
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
def _place_task(state, at, task):  # type: ignore[no-untyped-def]
    """Put a task on its best node: DONE, or what is in the way."""
    nodes, shapes, answers, orders = state.nodes, state.shapes, state.answers, state.orders
    shape = state.tasks.shape[task]
    known = shapes.state[shape]
    if known == UNSUPPORTED:
        return FALLBACK
    if known == REFUSED:
        return NO_NODE_HERE
    if known == UNKNOWN and shapes.pack[shape] < 0:
        return SHAPE
    if known == SCORED:
        n, room = scored_node(nodes, shapes, answers, orders.column, shape)
    else:
        n, room = ordered_node(nodes, shapes, answers, orders, shape)
    if n < 0:
        return NO_NODE_HERE
    if known == UNKNOWN:
        return SHAPE
    kind = ALLOCATE if room == ROOM_NOW else PIPELINE
    state.journal.task[at] = task
    state.journal.node[at] = n
    state.journal.kind[at] = kind
    _book(nodes, n, shapes.request[shape], kind, 1)
    resort_node(nodes, orders, n)
    return DONE


@numba.njit(cache=True)
def _book(nodes, n, request, kind, sign):  # type: ignore[no-untyped-def]
    """Take a request from a node (sign 1) or give it back (-1)."""
    column = nodes.idle[n] if kind == ALLOCATE else nodes.releasing[n]
    for r in range(len(request)):
        if nodes.allocatable[n, r] > 0:
            column[r] -= sign * request[r]
    nodes.version[n] += 1


@numba.njit(cache=True)
def _roll_back(state, placed):  # type: ignore[no-untyped-def]
    for at in range(placed - 1, -1, -1):
        n = state.journal.node[at]
        request = state.shapes.request[state.tasks.shape[state.journal.task[at]]]
        _book(state.nodes, n, request, state.journal.kind[at], -1)
        resort_node(state.nodes, state.orders, n)


@numba.njit(cache=True)
def _commit(state, job, queue, size):  # type: ignore[no-untyped-def]
    """Write the chunk into the ledger, after deciding whether all of it has to wait."""
    tasks, jobs, journal = state.tasks, state.jobs, state.journal
    leaf = jobs.leaf[job]
    counts = jobs.counts[leaf]
    waiting, started = counts[_PIPELINED], _started(counts)
    for at in range(size):
        waiting += journal.kind[at] == PIPELINE
        started += journal.kind[at] == ALLOCATE
    if waiting > 0 and started < jobs.minimum[leaf]:
        _postpone(state.nodes, state.shapes, tasks, journal, size)
    for at in range(size):
        task = journal.task[at]
        status = _ALLOCATED if journal.kind[at] == ALLOCATE else _PIPELINED
        tasks.status[task] = status
        tasks.node[task] = journal.node[at]
        tasks.decided_at[task] = state.scalars[VERSION]
        state.scalars[VERSION] += 1
        counts[_PENDING] -= 1
        counts[status] += 1
        units = state.shapes.units[tasks.shape[task]]
        _charge(state.queues, queue, units, jobs.is_preemptible[job])
    tasks.cursor[job] += size
    jobs.outcome[job] = SERVED


@numba.njit(cache=True)
def _postpone(nodes, shapes, tasks, journal, size):  # type: ignore[no-untyped-def]
    """Turn allocations into waiting at the same place; what is free later stays the same."""
    for at in range(size):
        if journal.kind[at] == ALLOCATE:
            request = shapes.request[tasks.shape[journal.task[at]]]
            _book(nodes, journal.node[at], request, ALLOCATE, -1)
            _book(nodes, journal.node[at], request, PIPELINE, 1)
            journal.kind[at] = PIPELINE


@numba.njit(cache=True)
def _charge(queues, leaf_queue, units, is_preemptible):  # type: ignore[no-untyped-def]
    for queue in queues.chain[leaf_queue]:
        if queue < 0:
            break
        for r in range(3):
            queues.held[queue, r] += units[r]
            if not is_preemptible:
                queues.held_non_preemptible[queue, r] += units[r]


@numba.njit(cache=True)
def _fail(state, job, only_shape, found, shape):  # type: ignore[no-untyped-def]
    """Remember that the job found no node, and why, as things are with its first tasks placed."""
    shapes, jobs = state.shapes, state.jobs
    jobs.outcome[job] = IS_REFUSED if shapes.state[shape] == REFUSED else NO_NODE
    row = state.scalars[FAILURES]
    state.scalars[FAILURES] += 1
    jobs.failure[job] = row
    facts = state.failures.facts[row]
    facts[FACT_SHAPE], facts[FACT_FOUND] = shape, found
    is_known = shapes.state[shape] == ORDERED or shapes.state[shape] == SCORED
    fits = state.answers.fits[shapes.answer_row[shape]]
    _count_reasons(state.nodes, shapes.request[shape], is_known, fits, state.failures.counts[row])
    _find_evidence(state.nodes, is_known, fits, state.failures.counts[row], facts)
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
    if request[GPU] > nodes.idle[n, GPU] + nodes.releasing[n, GPU]:
        return GPU
    for r in range(len(request)):
        if request[r] > nodes.idle[n, r] + nodes.releasing[n, r]:
            return r
    return 0
