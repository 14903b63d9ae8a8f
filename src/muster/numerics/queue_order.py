"""Whose turn it is: a tree of queues, with the jobs of each leaf in a heap.

Jobs wait in their leaf queue, ordered by key columns. Queues are compared by what they hold against
what they are entitled to, with the next job in mind, so a queue's place changes whenever one of its
jobs was served. Only the path from that leaf to its root is looked at again then: nothing else can
have changed. Axes: Q queues, J jobs, K key columns.

A queue goes before its sibling by the first of these that differs:

1. one that holds more than its fair share of every resource goes last;
2. one that stays within its quota with its next job goes first;
3. higher priority;
4. one that would hold something of a resource it has no share of goes last;
5. smaller dominant share with the next job, 6. without it;
7. smaller share, resource by resource; 8. age.
"""

from typing import NamedTuple

import numba
import numpy as np

from muster.numerics.arrays import Bools, Floats, Ints
from muster.numerics.axis import QUEUE_UNIT, QUEUE_WIDTH
from muster.numerics.handles import handle_of
from muster.numerics.tree import children

UNLIMITED = -1.0
SHARELESS = 1000.0
"""What one whole unit of a resource counts for in a queue that has no share of it."""
_NOTHING = (0.0,) * QUEUE_WIDTH


class JobHeaps(NamedTuple):
    """The state of the order. `allocated` is the ledger's own column, the rest belongs here."""

    parent: Ints  # [Q]
    child_start: Ints  # [Q + 2]
    child_rows: Ints  # [Q]
    priority: Ints  # [Q]
    age_rank: Ints  # [Q]
    has_shares: Bools  # [1]: without shares only keys and age count
    fair_share: Floats  # [Q, queue resources]
    own_share: Floats  # [Q, queue resources]
    quota: Floats  # [Q, queue resources]
    total: Floats  # [queue resources]
    allocated: Ints  # [Q, queue resources]
    key: Floats  # [Q, 6]: steps 1 to 6
    head: Ints  # [Q]: the next job below, -1 for none
    first: Ints  # [1]: the next job of all
    heap: Ints  # [J]: jobs of each leaf, in heap order
    heap_start: Ints  # [Q + 1]
    heap_size: Ints  # [Q]
    job_keys: Floats  # [J, K]
    job_age: Ints  # [J]
    job_queue: Ints  # [J]
    chunk: Ints  # [J, queue resources]: what the next attempt of a job would add to its queue


JobHeapsHandle = handle_of(JobHeaps, __name__)


class Shares(NamedTuple):
    """What queues are entitled to; float64[Q, queue resources], but `total`."""

    fair_share: Floats
    own_share: Floats
    quota: Floats
    total: Floats


class Jobs(NamedTuple):
    """The jobs that wait, by job row. `waiting` are the rows to queue."""

    waiting: Ints
    keys: Floats
    age: Ints
    queue: Ints
    chunk: Ints


class Queues(NamedTuple):
    """The tree, and what it holds."""

    parent: Ints
    priority: Ints
    age_rank: Ints
    allocated: Ints


class Standings(NamedTuple):
    """What the keys of queues are made of, where no job waits: columns as in `JobHeaps`."""

    priority: Ints
    has_shares: Bools
    fair_share: Floats
    own_share: Floats
    quota: Floats
    total: Floats
    allocated: Ints


def standings(queues: Queues, shares: Shares | None) -> Standings:
    """How queues stand with what they hold; it must not change as long as this is in use."""
    given = shares or _no_shares(len(queues.parent))
    return Standings(
        priority=queues.priority,
        has_shares=np.array([shares is not None]),
        # One memory layout, so that kernels are compiled for no other.
        fair_share=np.ascontiguousarray(given.fair_share, dtype=np.float64),
        own_share=np.ascontiguousarray(given.own_share, dtype=np.float64),
        quota=np.ascontiguousarray(given.quota, dtype=np.float64),
        total=np.ascontiguousarray(given.total, dtype=np.float64),
        allocated=queues.allocated,
    )


def job_heaps(queues: Queues, shares: Shares | None, jobs: Jobs) -> JobHeaps:
    """An order with all jobs in their queues."""
    size = len(queues.parent)
    start, rows = children(queues.parent, queues.age_rank)
    given = shares or _no_shares(size)
    counts = np.bincount(jobs.queue[jobs.waiting], minlength=size)
    heap_start = np.zeros(size + 1, dtype=np.int64)
    np.cumsum(counts, out=heap_start[1:])
    state = JobHeaps(
        parent=queues.parent,
        child_start=start,
        child_rows=rows,
        priority=queues.priority,
        age_rank=queues.age_rank,
        has_shares=np.array([shares is not None]),
        fair_share=given.fair_share,
        own_share=given.own_share,
        quota=given.quota,
        total=given.total,
        allocated=queues.allocated,
        key=np.zeros((size, 6)),
        head=np.full(size, -1, dtype=np.int64),
        first=np.full(1, -1, dtype=np.int64),
        heap=_sorted_jobs(jobs),
        heap_start=heap_start,
        heap_size=counts.astype(np.int64),
        job_keys=jobs.keys,
        job_age=jobs.age,
        job_queue=jobs.queue,
        chunk=jobs.chunk,
    )
    refresh_all(state)
    return state


def _no_shares(queues: int) -> Shares:
    nothing = np.zeros((queues, QUEUE_WIDTH))
    return Shares(nothing, nothing, nothing, np.zeros(QUEUE_WIDTH))


def _sorted_jobs(jobs: Jobs) -> Ints:
    """Jobs by queue and order: a sorted array is a heap."""
    rows = jobs.waiting
    keys = [jobs.age[rows], *(jobs.keys[rows, k] for k in range(jobs.keys.shape[1] - 1, -1, -1))]
    order = np.lexsort((*keys, jobs.queue[rows]))
    return np.ascontiguousarray(rows[order]).astype(np.int64)


@numba.njit(cache=True)
def handle(heaps):  # type: ignore[no-untyped-def]
    """A handle on an order, for kernels that take many jobs out of it."""
    return JobHeapsHandle(*heaps)


@numba.njit(cache=True)
def pop(heaps):  # type: ignore[no-untyped-def]
    """Remove the next job and return it; -1 when nobody waits. Call `refresh` when it is done."""
    job = heaps.first[0]
    if job >= 0:
        _pop_heap(heaps, heaps.job_queue[job])
    return job


@numba.njit(cache=True)
def pop_unrefused(heaps, job_class, refused_at, version, passed):  # type: ignore[no-untyped-def]
    """Remove jobs until one comes whose class was not refused at this `version` of the ledger.

    `job_class` int64[J], `refused_at` int64[classes]. Returns that job (-1 for none) and how many
    were passed over; these are in `passed` int64[J], in order. All of them are refreshed.
    """
    count = 0
    while True:
        job = pop(heaps)
        if job < 0:
            return job, count
        refresh(heaps, heaps.job_queue[job])
        if refused_at[job_class[job]] != version:
            return job, count
        passed[count] = job
        count += 1


@numba.njit(cache=True)
def pop_equals(heaps, job_class, wanted, passed):  # type: ignore[no-untyped-def]
    """Remove jobs as long as they are of the class `wanted`; how many, and which, in `passed`."""
    count = 0
    while heaps.first[0] >= 0 and job_class[heaps.first[0]] == wanted:
        job = pop(heaps)
        refresh(heaps, heaps.job_queue[job])
        passed[count] = job
        count += 1
    return count


@numba.njit(cache=True)
def pop_run(heaps, changed, job_class, refused_at, version, passed, run):  # type: ignore[no-untyped-def]
    """Remove the next job whose class was not refused, as `pop_unrefused` does, and, where no
    other queue waits, those right after it that are of its class. What `changed`, a leaf queue or
    -1, is refreshed first. `heaps` is a `handle` of the order.

    Returns how many jobs were removed and how many passed over: the first in `run` int64[J], the
    others in `passed` int64[J].
    """
    if changed >= 0:
        refresh(heaps, changed)
    job, count = pop_unrefused(heaps, job_class, refused_at, version, passed)
    if job < 0:
        return 0, count
    run[0] = job
    for queue in range(len(heaps.heap_size)):
        if heaps.heap_size[queue] > 0 and queue != heaps.job_queue[job]:
            return 1, count
    return 1 + pop_equals(heaps, job_class, job_class[job], run[1:]), count


@numba.njit(cache=True)
def push(heaps, job):  # type: ignore[no-untyped-def]
    """Queue a job again, with its keys and chunk as they are now. Call `refresh` after it."""
    queue = heaps.job_queue[job]
    heap = heaps.heap[heaps.heap_start[queue] : heaps.heap_start[queue + 1]]
    at = heaps.heap_size[queue]
    heap[at] = job
    heaps.heap_size[queue] += 1
    while at > 0:
        above = (at - 1) // 2
        if not job_goes_before(heaps, heap[at], heap[above]):
            break
        heap[at], heap[above] = heap[above], heap[at]
        at = above


@numba.njit(cache=True)
def refresh(heaps, leaf):  # type: ignore[no-untyped-def]
    """Something changed in `leaf`: find the next job again along its path."""
    heaps.head[leaf] = -1
    if heaps.heap_size[leaf] > 0:
        heaps.head[leaf] = heaps.heap[heaps.heap_start[leaf]]
    queue = leaf
    while queue >= 0:
        if heaps.head[queue] >= 0:
            write_key(heaps, queue, heaps.chunk[heaps.head[queue]], _NOTHING, heaps.key[queue])
        above = heaps.parent[queue]
        head = _best_head(heaps, above)
        if above < 0:
            heaps.first[0] = head
        else:
            heaps.head[above] = head
        queue = above


@numba.njit(cache=True)
def refresh_all(columns):  # type: ignore[no-untyped-def]
    """Find the next job from nothing."""
    heaps = handle(columns)
    for queue in range(len(heaps.parent)):
        if heaps.heap_size[queue] > 0:
            refresh(heaps, queue)


@numba.njit(cache=True)
def job_goes_before(heaps, left, right):  # type: ignore[no-untyped-def]
    """Order of jobs inside a leaf queue."""
    for k in range(heaps.job_keys.shape[1]):
        if heaps.job_keys[left, k] != heaps.job_keys[right, k]:
            return heaps.job_keys[left, k] < heaps.job_keys[right, k]
    return heaps.job_age[left] < heaps.job_age[right]


@numba.njit(cache=True)
def queue_goes_before(heaps, left, right):  # type: ignore[no-untyped-def]
    """Order of sibling queues."""
    if heaps.has_shares[0]:
        for k in range(6):
            if heaps.key[left, k] != heaps.key[right, k]:
                return heaps.key[left, k] < heaps.key[right, k]
        smaller = smaller_share(heaps, left, right)
        if smaller != 0:
            return smaller < 0
    return heaps.age_rank[left] < heaps.age_rank[right]


@numba.njit(cache=True)
def _pop_heap(heaps, queue):  # type: ignore[no-untyped-def]
    heap = heaps.heap[heaps.heap_start[queue] : heaps.heap_start[queue + 1]]
    heaps.heap_size[queue] -= 1
    size = heaps.heap_size[queue]
    heap[0] = heap[size]
    at = 0
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        if below + 1 < size and job_goes_before(heaps, heap[below + 1], heap[below]):
            below += 1
        if not job_goes_before(heaps, heap[below], heap[at]):
            break
        heap[at], heap[below] = heap[below], heap[at]
        at = below


@numba.njit(cache=True)
def _best_head(heaps, above):  # type: ignore[no-untyped-def]
    """The next job below a queue (-1: below all roots)."""
    best = -1
    for at in range(heaps.child_start[above + 1], heaps.child_start[above + 2]):
        child = heaps.child_rows[at]
        if heaps.head[child] >= 0 and (best < 0 or queue_goes_before(heaps, child, best)):
            best = child
    return heaps.head[best] if best >= 0 else -1


@numba.njit(cache=True)
def write_key(queues, queue, added, taken, key):  # type: ignore[no-untyped-def]
    """Steps 1 to 6 for one of the queues (`JobHeaps` or `Standings`) if so much came to it, into
    `key` float64[6]; all 0 without shares.

    What is `taken` from it counts in step 5 alone: victims do not make a queue a better one, they
    only give their turn to the next.
    """
    if not queues.has_shares[0]:
        key[:] = 0.0
        return
    is_over, is_starved, is_shareless = True, True, False
    with_job, without_job = -np.inf, -np.inf
    for r in range(QUEUE_WIDTH):
        held = float(queues.allocated[queue, r])
        after = held + added[r]
        fair = queues.fair_share[queue, r]
        is_over = is_over and fair != UNLIMITED and fair < held
        quota = queues.quota[queue, r]
        is_starved = is_starved and (quota == UNLIMITED or after <= quota)
        own = queues.own_share[queue, r]
        is_shareless = is_shareless or (own == 0.0 and after > 0.0)
        if own == UNLIMITED:
            own = queues.total[r]
        with_job = max(with_job, _part(after - taken[r], own, r))
        without_job = max(without_job, _part(held, own, r))
    key[0] = 1.0 if is_over else 0.0
    key[1] = 0.0 if is_starved else 1.0
    key[2] = -float(queues.priority[queue])
    key[3] = 1.0 if is_shareless else 0.0
    key[4] = with_job
    key[5] = without_job


@numba.njit(cache=True)
def keys_without(queues, rows, taken):  # type: ignore[no-untyped-def]
    """The keys of queues int64[K] of which so much was taken, float64[K, 3], and to which nothing
    comes: float64[K, 6].
    """
    keys = np.empty((len(rows), 6))
    for at in range(len(rows)):
        write_key(queues, rows[at], _NOTHING, taken[at], keys[at])
    return keys


@numba.njit(cache=True)
def _part(held, share, resource):  # type: ignore[no-untyped-def]
    if share > 0.0:
        return held / share
    return held * SHARELESS / QUEUE_UNIT[resource]


@numba.njit(cache=True)
def smaller_share(queues, left, right):  # type: ignore[no-untyped-def]
    """-1: left has less of something and more of nothing; 1: right has; 0: neither."""
    less, more = False, False
    for r in range(QUEUE_WIDTH):
        a, b = queues.own_share[left, r], queues.own_share[right, r]
        a = np.inf if a == UNLIMITED else a
        b = np.inf if b == UNLIMITED else b
        less = less or a < b
        more = more or a > b
    if less == more:
        return 0
    return -1 if less else 1
