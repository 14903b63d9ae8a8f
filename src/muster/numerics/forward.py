"""The queue played forward, compiled: jobs end, jobs come, and allocate gives away what is free.

One future on the columns of one ledger. Between two looks only nodes that were touched are counted
anew, per shape that waits; as long as no job's next chunk fits anywhere nobody can start, so not
looking is exact. A look divides the shares anew, queues who waits, and runs `numerics.allocate`.
Unless `is_everybody`, only jobs whose chunk fits are: much less work, and as queues are
compared with their next job in mind, sometimes another order. Axes: as in `allocate_state`; K
shapes that wait, E events.
"""

from typing import NamedTuple

import numba
import numpy as np

from muster.numerics import ledger as entries
from muster.numerics import queue_order
from muster.numerics.allocate import chunk_size, note_changed, turn
from muster.numerics.allocate_state import DONE, REFUSED, REQUEUE, TURN, handle
from muster.numerics.arrays import Bools, Floats, Ints
from muster.numerics.axis import QUEUE_UNIT, QUEUE_WIDTH
from muster.numerics.divide import Forest, divide_forest, own_share
from muster.numerics.fit import slots
from muster.numerics.handles import handle_of
from muster.numerics.queue_bounds import WITHIN, broken_bound
from muster.numerics.queue_order import push, refresh
from muster.numerics.status import IS_ALLOCATED, SUCCEEDED

COMES, ENDS = range(2)
EVENTS, ASKED, LOOKS, MIXED = range(4)
"""Columns of `World.size`: events to come, jobs asked about that have not started, looks,
and queued jobs that wait with several shapes."""
FINISHED, NOT_FOR_IT = range(2)
"""Why it returned: all is played, or somebody waits whom the compiled loop cannot place."""
_NEVER = np.iinfo(np.int64).max
_WHOLE = np.array(QUEUE_UNIT, dtype=np.float64)


class World(NamedTuple):
    """What is known of jobs and nodes besides the ledger and the state of allocate."""

    task_start: Ints  # [J + 1]
    tasks: Ints  # those of each job
    order: Ints  # jobs that ever wait, by queue and as they stand in it
    only_shape: Ints  # [J]: the shape of all that a job waits with; -1: several
    kind: Ints  # [J]: jobs of one queue that ask for the same
    queued: Ints  # [kinds]: how many of them are queued
    waits: Bools  # [J]
    chunk: Ints  # [J]: how many pods a job tries next
    cursor: Ints  # [J]: the waiting task that was next when the look began
    started_s: Floats  # [J], nan: not yet
    is_asked: Bools  # [J]
    pending: Ints  # [Q, queue resources]: what queues ask for besides what they hold
    slot_row: Ints  # [S]: where the slots of a shape are, -1: nowhere
    shape_of_row: Ints  # [K]
    asked_start: Ints  # [K + 1]: resources that each asks for
    asked: Ints
    slots: Ints  # [K, N]: how many of the shape fit on the node
    free_slots: Ints  # [K]: on all nodes
    least: Ints  # [K]: the smallest chunk of those that are queued
    grown_key: Floats  # [3]: which key says how full a gang is, at its minimum, and above
    at_s: Floats  # [E]: a heap of events
    event: Ints  # [E]: job and kind
    size: Ints  # [4]


WorldHandle = handle_of(World, __name__)


class Shares(NamedTuple):
    """What shares are made of, in whole units; `bound` is the limit as the ledger counts."""

    forest: Forest
    quota: Floats  # [Q, queue resources], as the next four
    limit: Floats
    bound: Floats
    weight: Floats
    usage: Floats
    total: Floats  # [queue resources]
    usage_weight: Floats  # [1]


class Span(NamedTuple):
    """From when to when, and how often the scheduler looks."""

    now_s: float
    end_s: float
    period_s: float


@numba.njit(cache=True, nogil=True)
def play(ledger, state, heaps, world, shares, runs_s, span, is_everybody):  # type: ignore[no-untyped-def]
    """One future, until all that are asked about have started or the span is over. When jobs
    started is in `world.started_s`. `runs_s` float64[J] is how long each job runs.
    """
    known, order, there = handle(state), queue_order.handle(heaps), WorldHandle(*world)
    return _play(ledger, known, order, there, shares, runs_s, span, is_everybody)


@numba.njit(cache=True, nogil=True)
def _play(ledger, state, heaps, world, shares, runs_s, span, is_everybody):  # type: ignore[no-untyped-def]
    now_s = span.now_s
    while True:
        if not _look(ledger, state, heaps, world, shares, runs_s, now_s, is_everybody):
            return NOT_FOR_IT
        if world.size[ASKED] == 0 or world.size[EVENTS] == 0:
            return FINISHED
        now_s = max(world.at_s[0], now_s + span.period_s)
        if now_s > span.end_s:
            return FINISHED
        while world.size[EVENTS] > 0 and world.at_s[0] <= now_s:
            job, kind = divmod(_pop_event(world), 2)
            if kind == COMES:
                _come(ledger, world, state.waiting, job)
            else:
                _end(ledger, state, world, job)


@numba.njit(cache=True)
def push_event(world, at_s, job, kind):  # type: ignore[no-untyped-def]
    """Something will happen; what never does is no event."""
    if at_s == np.inf:
        return
    at = world.size[EVENTS]
    world.size[EVENTS] += 1
    world.at_s[at], world.event[at] = at_s, 2 * job + kind
    while at > 0:
        above = (at - 1) // 2
        if not _is_earlier(world, at, above):
            break
        _swap(world, at, above)
        at = above


@numba.njit(cache=True)
def count_chunks(ledger, state, world):  # type: ignore[no-untyped-def]
    """Fill `chunk` from nothing."""
    waiting = state.waiting
    for job in world.order:
        left = waiting.start[job + 1] - waiting.cursor[job]
        world.chunk[job] = chunk_size(ledger, state.jobs.leaf[job], left)


@numba.njit(cache=True)
def count_slots(ledger, state, world):  # type: ignore[no-untyped-def]
    """Fill `slots` from nothing."""
    world.free_slots[:] = 0
    world.slots[:] = 0
    for node in range(world.slots.shape[1]):
        _touch(ledger, state, world, node)


@numba.njit(cache=True)
def _pop_event(world):  # type: ignore[no-untyped-def]
    found = world.event[0]
    world.size[EVENTS] -= 1
    size = world.size[EVENTS]
    _swap(world, 0, size)
    at = 0
    while True:
        below = 2 * at + 1
        if below >= size:
            return found
        if below + 1 < size and _is_earlier(world, below + 1, below):
            below += 1
        if not _is_earlier(world, below, at):
            return found
        _swap(world, at, below)
        at = below


@numba.njit(cache=True)
def _is_earlier(world, left, right):  # type: ignore[no-untyped-def]
    if world.at_s[left] != world.at_s[right]:
        return world.at_s[left] < world.at_s[right]
    return world.event[left] < world.event[right]


@numba.njit(cache=True)
def _swap(world, left, right):  # type: ignore[no-untyped-def]
    at_s, event = world.at_s, world.event
    at_s[left], at_s[right] = at_s[right], at_s[left]
    event[left], event[right] = event[right], event[left]


@numba.njit(cache=True)
def _come(ledger, world, waiting, job):  # type: ignore[no-untyped-def]
    world.waits[job] = True
    for at in range(waiting.cursor[job], waiting.start[job + 1]):
        _ask(ledger, world, waiting.tasks[at], 1)


@numba.njit(cache=True)
def _end(ledger, state, world, job):  # type: ignore[no-untyped-def]
    """All pods of a job end; what of it still waits waits no longer."""
    waiting = state.waiting
    if world.waits[job]:
        for at in range(waiting.cursor[job], waiting.start[job + 1]):
            _ask(ledger, world, waiting.tasks[at], -1)
        world.waits[job] = False
    for at in range(world.task_start[job], world.task_start[job + 1]):
        task = world.tasks[at]
        is_whole = ledger.sharing[ledger.shape[task]] < 0
        if is_whole and IS_ALLOCATED[ledger.status[task]]:
            node = ledger.node[task]
            entries.end(ledger, task, SUCCEEDED)
            if node >= 0:
                note_changed(ledger, state, node)
                _touch(ledger, state, world, node)


@numba.njit(cache=True)
def _ask(ledger, world, task, sign):  # type: ignore[no-untyped-def]
    """What a task asks for is asked of its queue and all above it, or no longer."""
    units, leaf = ledger.queue_units[ledger.shape[task]], ledger.queue[ledger.job[task]]
    if leaf < 0:
        return
    for depth in range(ledger.chain.shape[1]):
        queue = ledger.chain[leaf, depth]
        if queue < 0:
            return
        for resource in range(QUEUE_WIDTH):
            world.pending[queue, resource] += sign * units[resource]


@numba.njit(cache=True)
def _touch(ledger, state, world, node):  # type: ignore[no-untyped-def]
    """Count anew what fits on a node."""
    idle, requests, answers, shapes = ledger.idle, ledger.request, state.answers, state.shapes
    for row in range(len(world.shape_of_row)):
        shape = world.shape_of_row[row]
        found = np.int64(0)
        if shapes.state[shape] != REFUSED and answers.fits[shapes.answer_row[shape], node]:
            start, end = world.asked_start[row], world.asked_start[row + 1]
            found = slots(idle, requests[shape], world.asked[start:end], node)
        world.free_slots[row] += found - world.slots[row, node]
        world.slots[row, node] = found


@numba.njit(cache=True)
def _look(ledger, state, heaps, world, shares, runs_s, now_s, is_everybody):  # type: ignore[no-untyped-def]
    """Place who can start; whether the compiled loop could."""
    queues = _queue(ledger, state, heaps, world, is_everybody)
    if queues == 0:
        return True
    world.size[LOOKS] += 1
    if queues > 1:  # one queue has nobody to share with
        _divide(heaps, world, shares)
    state.shapes.failed_size[:] = _NEVER
    state.failures.size[0] = 0
    for queue in range(len(heaps.parent)):
        if heaps.heap_size[queue] > 0:
            refresh(heaps, queue)
    while True:
        why, job = turn(ledger, state, heaps)
        if why == DONE:
            return True
        if why == REQUEUE:
            _requeue(ledger, state, heaps, world, job)
        elif why != TURN:
            return False
        if state.waiting.cursor[job] > world.cursor[job]:
            _note_start(ledger, state, world, runs_s, job, now_s)
            if not _has_room(world):
                return True


@numba.njit(cache=True)
def _has_room(world):  # type: ignore[no-untyped-def]
    """Whether somebody who is queued may still find nodes."""
    for row in range(len(world.least)):
        if world.free_slots[row] >= world.least[row]:
            return True
    return world.size[MIXED] > 0


@numba.njit(cache=True)
def _queue(ledger, state, heaps, world, is_everybody):  # type: ignore[no-untyped-def]
    """Queue who waits; in how many queues, 0 where there is room for nobody. Of those who cannot
    fit nobody, and of equal ones no more than fit, unless it is everybody's turn.
    """
    heaps.heap_size[:] = 0
    heaps.head[:] = -1
    heaps.first[0] = -1
    world.queued[:] = 0
    world.least[:] = _NEVER
    world.size[MIXED] = 0
    if not (world.free_slots > 0).any():
        return 0
    # Columns are taken out first: to hand over all of them for each job costs more than asking.
    waits, shapes, slot_row, chunk = world.waits, world.only_shape, world.slot_row, world.chunk
    kinds, queued, free_slots, least = world.kind, world.queued, world.free_slots, world.least
    is_some, queues = False, 0
    for job in world.order:
        if not waits[job]:
            continue
        fits = shapes[job] < 0
        world.size[MIXED] += fits
        if not fits:
            row, kind, size = slot_row[shapes[job]], kinds[job], chunk[job]
            free = free_slots[row]
            fits = free >= size and queued[kind] * size < free
            fits = fits and _may_hold(ledger, state.bounds, heaps.chunk[job], job)
            if fits:
                queued[kind] += state.waiting.cursor[job] == state.waiting.start[job]
                least[row] = min(least[row], size)
        is_some = is_some or fits
        if fits or is_everybody:
            queues += heaps.heap_size[heaps.job_queue[job]] == 0
            push(heaps, job)
    return queues if is_some else 0


@numba.njit(cache=True)
def _may_hold(ledger, bounds, asked, job):  # type: ignore[no-untyped-def]
    """Whether no queue of a job's chain would break a bound with its next chunk."""
    found = broken_bound(bounds, ledger.queue[job], asked, ledger.is_preemptible[job])
    return found[0] == WITHIN


@numba.njit(cache=True)
def _divide(heaps, world, shares):  # type: ignore[no-untyped-def]
    """The shares of this moment, by the rule of `divide`."""
    for resource in range(QUEUE_WIDTH):
        unit = _WHOLE[resource]
        asked = (heaps.allocated[:, resource] + world.pending[:, resource]) / unit
        fair = divide_forest(
            shares.total[resource],
            shares.forest,
            shares.quota[:, resource].copy(),
            shares.limit[:, resource].copy(),
            asked,
            shares.weight[:, resource].copy(),
            shares.usage[:, resource].copy(),
            shares.usage_weight[0],
        )
        for queue in range(len(fair)):
            due, bound = fair[queue] * unit, shares.bound[queue, resource]
            heaps.fair_share[queue, resource] = due
            heaps.own_share[queue, resource] = own_share(heaps.quota[queue, resource], bound, due)


@numba.njit(cache=True)
def _requeue(ledger, state, heaps, world, job):  # type: ignore[no-untyped-def]
    """A gang that has its minimum asks for one pod more."""
    column, at_minimum, above = world.grown_key
    held = 0
    leaf = state.jobs.leaf[job]
    for status in range(ledger.counts.shape[1]):
        if IS_ALLOCATED[status]:
            held += ledger.counts[leaf, status]
    if column >= 0:
        heaps.job_keys[job, int(column)] = above if held > ledger.minimum[leaf] else at_minimum
    task = state.waiting.tasks[state.waiting.cursor[job]]
    heaps.chunk[job] = ledger.queue_units[ledger.shape[task]]
    push(heaps, job)
    refresh(heaps, heaps.job_queue[job])


@numba.njit(cache=True)
def _note_start(ledger, state, world, runs_s, job, now_s):  # type: ignore[no-untyped-def]
    waiting = state.waiting
    for at in range(world.cursor[job], waiting.cursor[job]):
        _ask(ledger, world, waiting.tasks[at], -1)
        _touch(ledger, state, world, ledger.node[waiting.tasks[at]])
    world.cursor[job] = waiting.cursor[job]
    left = waiting.start[job + 1] - waiting.cursor[job]
    world.waits[job] = left > 0
    world.chunk[job] = chunk_size(ledger, state.jobs.leaf[job], left)
    if np.isnan(world.started_s[job]):
        world.started_s[job] = now_s
        push_event(world, now_s + runs_s[job], job, ENDS)
        if world.is_asked[job]:
            world.size[ASKED] -= 1
