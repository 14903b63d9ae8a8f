"""What queues may lose to another one, and whether what they would lose is fair.

Axes: Q queues, C chunks (what is taken at a time). Rules and words are those of
`plugins.fair_share.reclaim`, which is the only caller.
"""

from typing import NamedTuple

import numba
import numpy as np

from muster.numerics.arrays import Floats, Ints
from muster.numerics.axis import QUEUE_GPU, QUEUE_WIDTH
from muster.numerics.divide import UNLIMITED


class Sides(NamedTuple):
    """Where the path of every queue parts from that of the one that takes, and what holds there."""

    ours: Ints  # [Q]
    theirs: Ints  # [Q]
    parent: Ints  # [Q]
    quota: Floats  # [Q, queue resources]
    share: Floats  # [Q, queue resources]: what each queue has to itself
    fair: Floats  # [Q, queue resources]


FAIR, TAKES_OF_A_SHARE, OUTGROWS = 0, 1, 2


class Taken(NamedTuple):
    """What is taken, chunk by chunk: queue after queue, of each in the order of taking."""

    queue: Ints  # [C]: leaf queues
    amount: Floats  # [C, queue resources]


@numba.njit(cache=True)
def losses(sides, held, request):  # type: ignore[no-untyped-def]
    """(may lose bool[Q], the most GPU units float64[Q]) to somebody with such a `request`.

    `held` int64[Q, queue resources] is what queues hold now.
    """
    count = len(sides.ours)
    may = np.zeros(count, dtype=np.bool_)
    most = np.zeros(count)
    for queue in range(count):
        ours, theirs = sides.ours[queue], sides.theirs[queue]
        is_over = _exceeds(held, ours, request, sides.quota)
        may[queue] = _may_lose(sides, held, request, theirs, is_over)
        most[queue] = _most(sides, held, theirs, is_over)
    return may, most


@numba.njit(cache=True)
def _may_lose(sides, held, request, theirs, is_over):  # type: ignore[no-untyped-def]
    """Above its own share, if the taker is over its quota; else not just below its quota."""
    above_share, above_quota, below_quota = False, False, False
    for resource in range(QUEUE_WIDTH):
        has = held[theirs, resource]
        share, quota = sides.share[theirs, resource], sides.quota[theirs, resource]
        above_share = above_share or (share != UNLIMITED and has > share)
        if request[resource] > 0 and quota != UNLIMITED:
            above_quota = above_quota or has > quota
            below_quota = below_quota or has < quota
    return above_share if is_over else above_quota or not below_quota


@numba.njit(cache=True)
def _most(sides, held, theirs, is_over):  # type: ignore[no-untyped-def]
    """What is above the bound; without end where another resource than GPUs is above its bound."""
    surplus = 0.0
    for resource in range(QUEUE_WIDTH):
        quota = sides.quota[theirs, resource]
        bound = sides.share[theirs, resource] if is_over or quota == UNLIMITED else quota
        if bound == UNLIMITED or held[theirs, resource] <= bound:
            continue
        if resource != QUEUE_GPU:
            return np.inf
        surplus = held[theirs, resource] - bound
    return surplus


@numba.njit(cache=True)
def verdict(sides, held, request, own, taken, saturation):  # type: ignore[no-untyped-def]
    """(FAIR, -1), (TAKES_OF_A_SHARE, the queue that must not lose so much), (OUTGROWS, own).

    `held` int64[Q, queue resources] is what queues held before; `own` takes to have `request` more.
    """
    remaining = held.astype(np.float64)
    lost = np.zeros_like(remaining)
    gives = np.zeros(len(remaining), dtype=np.bool_)
    first = 0
    while first < len(taken.queue):
        queue, last = taken.queue[first], first + 1
        while last < len(taken.queue) and taken.queue[last] == queue:
            last += 1
        is_guaranteed = not _exceeds(held, sides.ours[queue], request, sides.quota)
        theirs, gone = sides.theirs[queue], np.zeros(QUEUE_WIDTH)
        for chunk in range(first, last):
            is_above = _exceeds(remaining, theirs, -gone, sides.share)
            if not is_above and is_guaranteed:
                is_above = _exceeds(remaining, theirs, -gone, sides.quota)
            if not is_above:
                return TAKES_OF_A_SHARE, theirs
            gone += taken.amount[chunk]
        above = queue
        while above >= 0:
            remaining[above] -= gone
            lost[above] += gone
            gives[above] = True
            above = sides.parent[above]
        first = last
    above = own
    while above >= 0:
        if _outgrows_a_sibling(sides, remaining, request, above, lost, gives, saturation):
            return OUTGROWS, own
        above = sides.parent[above]
    return FAIR, -1


@numba.njit(cache=True)
def _exceeds(held, queue, more, bound):  # type: ignore[no-untyped-def]
    """Whether some resource of a queue is above its bound, with `more` of each."""
    for resource in range(QUEUE_WIDTH):
        most = bound[queue, resource]
        if most != UNLIMITED and held[queue, resource] + more[resource] > most:
            return True
    return False


@numba.njit(cache=True)
def _outgrows_a_sibling(sides, remaining, request, queue, lost, gives, saturation):  # type: ignore[no-untyped-def]
    """Whether the queue, with its request, would be fuller than a sibling that gives something."""
    for sibling in range(len(gives)):
        if not gives[sibling] or sibling == queue or sides.parent[sibling] != sides.parent[queue]:
            continue
        for resource in range(QUEUE_WIDTH):
            share = sides.fair[sibling, resource]
            is_asked = request[resource] > 0 or lost[sibling, resource] > 0
            with_it = remaining[queue, resource] + request[resource]
            ours = _fullness(with_it, sides.fair[queue, resource])
            theirs = _fullness(remaining[sibling, resource], share)
            if is_asked and share > 0 and ours > 1 and ours * saturation >= theirs:
                return True
    return False


@numba.njit(cache=True)
def _fullness(held, share):  # type: ignore[no-untyped-def]
    """How full a queue is relative to its share: infinitely, if it holds something of nothing."""
    if share == UNLIMITED:
        return 0.0
    if share > 0:
        return held / share
    return np.inf if held > 0 else 0.0
