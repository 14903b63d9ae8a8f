"""The allocate loop, compiled: jobs in turn, their tasks onto nodes, until it needs somebody.

The loop serves jobs of one sub-group whose shapes depend on nothing but resources, shared GPUs and
answers that hold for the whole cycle. It changes the ledger by entries, as everybody does. It
returns to its caller when all jobs had their turn (DONE), when it must know what plugins say about
a shape (SHAPE), when a job has more tasks after its gang (REQUEUE), or when a job is not for it
(FALLBACK); the caller does its part and enters again.
"""

import numba
import numpy as np

from muster.numerics import ledger as entries
from muster.numerics import queue_order
from muster.numerics.allocate_state import (
    BOUND,
    DONE,
    FACT_FOUND,
    FACT_SHAPE,
    FALLBACK,
    IS_REFUSED,
    NO_NODE,
    NO_NODE_HERE,
    REFUSED,
    REQUEUE,
    SCORED,
    SERVED,
    SHAPE,
    TURN,
    UNKNOWN,
    UNSUPPORTED,
    handle,
)
from muster.numerics.axis import QUEUE_WIDTH
from muster.numerics.fit import LEAST_FRAGMENTATION, ROOM_NOW, count_missing
from muster.numerics.gpu_shares import can_hold
from muster.numerics.ledger_size import JOURNAL
from muster.numerics.node_scores import best_node, note_change
from muster.numerics.node_search import (
    chosen_shares,
    ordered_gpu_node,
    ordered_node,
    resort_node,
    scored_node,
)
from muster.numerics.queue_bounds import OVER_LIMIT, WITHIN, broken_bound
from muster.numerics.queue_order import pop, refresh
from muster.numerics.status import ALLOCATED, IS_ALLOCATED, PIPELINED

_NO_ROWS = np.zeros(0, dtype=np.int64)
_ALL = np.zeros(0, dtype=np.bool_)


@numba.njit(cache=True, nogil=True)  # it may take long: others go on meanwhile
def run(ledger, state, heaps):  # type: ignore[no-untyped-def]
    """Serve jobs until something is needed: (why, job or shape)."""
    return _run(ledger, handle(state), queue_order.handle(heaps))


@numba.njit(cache=True, nogil=True)
def _run(ledger, state, heaps):  # type: ignore[no-untyped-def]
    while True:
        why, subject = turn(ledger, state, heaps)
        if why != TURN:
            return why, subject


@numba.njit(cache=True)
def turn(ledger, state, heaps):  # type: ignore[no-untyped-def]
    """The next job has its turn: (TURN, job), or what is needed as of `run`."""
    job = heaps.first[0]
    if job < 0:
        return DONE, -1
    if not state.jobs.is_supported[job]:
        return FALLBACK, pop(heaps)
    why, subject = _serve(ledger, state, job)
    if why == SHAPE:
        return SHAPE, subject
    pop(heaps)
    if why != DONE:
        return why, job
    refresh(heaps, heaps.job_queue[job])
    return TURN, job


@numba.njit(cache=True)
def _serve(ledger, state, job):  # type: ignore[no-untyped-def]
    """Try the next chunk of a job: (DONE, -), (REQUEUE, -), (FALLBACK, -) or (SHAPE, shape)."""
    shapes, waiting = state.shapes, state.waiting
    first = waiting.cursor[job]
    size = chunk_size(ledger, state.jobs.leaf[job], waiting.start[job + 1] - first)
    chunk = waiting.tasks[first : first + size]
    if size == 0 or _breaks_bound(ledger, state, job, chunk):
        return DONE, job
    shape = _only_shape(ledger, chunk)
    if shape >= 0 and size >= shapes.failed_size[shape]:
        state.jobs.outcome[job] = NO_NODE
        state.jobs.failure[job] = shapes.failed_row[shape]
        return DONE, job
    for found in range(size):
        why = _place_task(ledger, state, job, chunk[found])
        if why != DONE:
            subject = ledger.shape[chunk[found]]
            if why == NO_NODE_HERE:
                _fail(ledger, state, job, shape, found, subject)
                why = DONE
            _roll_back(ledger, state)
            return why, subject
    _wait_as_a_whole(ledger, state, state.jobs.leaf[job])
    entries.forget_undo(ledger)
    waiting.cursor[job] += size
    state.jobs.outcome[job] = SERVED
    return (REQUEUE, job) if waiting.cursor[job] < waiting.start[job + 1] else (DONE, job)


@numba.njit(cache=True)
def chunk_size(ledger, leaf, count):  # type: ignore[no-untyped-def]
    """What is missing to the gang's minimum, or one task."""
    held = _started(ledger.counts, leaf) + ledger.counts[leaf, PIPELINED]
    return min(count, max(1, ledger.minimum[leaf] - held))


@numba.njit(cache=True)
def _started(counts, leaf):  # type: ignore[no-untyped-def]
    started = 0
    for status in range(counts.shape[1]):
        if IS_ALLOCATED[status]:
            started += counts[leaf, status]
    return started


@numba.njit(cache=True)
def _only_shape(ledger, chunk):  # type: ignore[no-untyped-def]
    """The shape that all tasks of the chunk have; -1 when they differ."""
    shapes = ledger.shape
    shape = shapes[chunk[0]]
    for at in range(1, len(chunk)):
        if shapes[chunk[at]] != shape:
            return -1
    return shape


@numba.njit(cache=True)
def _breaks_bound(ledger, state, job, chunk):  # type: ignore[no-untyped-def]
    """Whether a queue of the chain may not hold the chunk; remembers which."""
    shapes, least_units = ledger.shape, state.shapes.least_units
    asked = np.zeros(QUEUE_WIDTH)
    for task in chunk:
        for resource in range(QUEUE_WIDTH):
            asked[resource] += least_units[shapes[task], resource]
    queue, is_preemptible = ledger.queue[job], ledger.is_preemptible[job]
    which, above, resource = broken_bound(state.bounds, queue, asked, is_preemptible)
    if which == WITHIN:
        return False
    held = state.bounds.allocated if which == OVER_LIMIT else state.bounds.non_preemptible
    state.jobs.outcome[job] = BOUND
    facts = state.jobs.broken_bound[job]
    facts[0], facts[1], facts[2] = which, above, resource
    facts[3], facts[4] = asked[resource], held[above, resource]
    return True


@numba.njit(cache=True)
def _place_task(ledger, state, job, task):  # type: ignore[no-untyped-def]
    """Put a task on its best node: DONE, or what is in the way."""
    shape = ledger.shape[task]
    known = state.shapes.state[shape]
    if known == UNSUPPORTED:
        return FALLBACK
    if known == REFUSED:
        return NO_NODE_HERE
    if known == UNKNOWN:
        return SHAPE
    n, found = _best_node(ledger, state, job, shape, known)
    if n < 0:
        return NO_NODE_HERE
    rows, starts_now = _NO_ROWS, True
    if ledger.sharing[shape] >= 0:
        preferences, packing = state.answers.preferences, state.shapes.packing[shape]
        rows, starts_now = chosen_shares(ledger, shape, n, packing, preferences)
        if not can_hold(ledger, len(rows)):
            return FALLBACK  # whoever is not compiled makes room in the columns first
    if found == ROOM_NOW and starts_now:
        entries.post(ledger, entries.ALLOCATE, task, n, ALLOCATED, rows)
    else:
        entries.post(ledger, entries.PIPELINE, task, n, PIPELINED, rows)
    note_changed(ledger, state, n)
    return DONE


@numba.njit(cache=True)
def note_changed(ledger, state, n):  # type: ignore[no-untyped-def]
    """Something on a node changed: who keeps nodes in order is told."""
    resort_node(ledger, state.orders, n)
    note_change(state.node_scores, n)


@numba.njit(cache=True)
def _best_node(ledger, state, job, shape, known):  # type: ignore[no-untyped-def]
    shapes, answers = state.shapes, state.answers
    fits = answers.fits[shapes.answer_row[shape]]
    order, preferences = shapes.order[shape], answers.preferences
    is_shared = ledger.sharing[shape] >= 0
    if known != SCORED and not is_shared:
        availability = preferences.availability
        return ordered_node(ledger, state.orders, order, shape, fits, availability)
    sizes = _affordable(ledger, state, job, shape) if shapes.priced_by_node[shape] else _ALL
    if known != SCORED:
        return ordered_gpu_node(ledger, state.orders, shape, fits, preferences, sizes)
    packing, column = shapes.packing[shape], shapes.column[shape]
    score = answers.score[shapes.answer_row[shape]]
    if packing == LEAST_FRAGMENTATION:
        return best_node(ledger, state.node_scores, shape, fits, score, preferences, sizes)
    return scored_node(ledger, shape, packing, column, fits, score, preferences, sizes)


@numba.njit(cache=True)
def _affordable(ledger, state, job, shape):  # type: ignore[no-untyped-def]
    """For which sizes of GPUs the queues may hold the task, at the price that they give it."""
    prices = ledger.placed_units[ledger.sharing[shape]]
    queue, is_preemptible = ledger.queue[job], ledger.is_preemptible[job]
    sizes = np.zeros(len(prices), dtype=np.bool_)
    for size in range(len(prices)):
        asked = prices[size].astype(np.float64)
        sizes[size] = broken_bound(state.bounds, queue, asked, is_preemptible)[0] == WITHIN
    return sizes


@numba.njit(cache=True)
def _roll_back(ledger, state):  # type: ignore[no-untyped-def]
    count = ledger.size[JOURNAL]
    entries.undo_to(ledger, 0)
    for at in range(count - 1, -1, -1):
        note_changed(ledger, state, ledger.entry_node[at])


@numba.njit(cache=True)
def _wait_as_a_whole(ledger, state, leaf):  # type: ignore[no-untyped-def]
    """If some of the gang has to wait and the others are too few to start, all of it waits."""
    counts = ledger.counts
    if counts[leaf, PIPELINED] == 0 or _started(counts, leaf) >= ledger.minimum[leaf]:
        return
    for at in range(ledger.size[JOURNAL]):
        if ledger.entry_kind[at] == entries.ALLOCATE:
            task, node = ledger.entry_task[at], ledger.entry_node[at]
            entries.post(ledger, entries.POSTPONE, task, node, PIPELINED, _NO_ROWS)
            note_changed(ledger, state, node)


@numba.njit(cache=True)
def _fail(ledger, state, job, only_shape, found, shape):  # type: ignore[no-untyped-def]
    """Remember that the job found no node, and why, as things are with its first tasks placed."""
    shapes, jobs, failures = state.shapes, state.jobs, state.failures
    row = failures.size[0]
    failures.size[0] += 1
    jobs.failure[job] = row
    facts = failures.facts[row]
    facts[FACT_SHAPE], facts[FACT_FOUND] = shape, found
    if shapes.state[shape] == REFUSED:
        jobs.outcome[job] = IS_REFUSED
    else:
        jobs.outcome[job] = NO_NODE
        refused = ~state.answers.fits[shapes.answer_row[shape]]
        counts = failures.counts[row]
        count_missing(ledger, shape, refused, _ALL, counts, facts)
    if only_shape >= 0 and jobs.outcome[job] == NO_NODE and not shapes.priced_by_node[shape]:
        shapes.failed_size[only_shape] = found + 1
        shapes.failed_row[only_shape] = row
