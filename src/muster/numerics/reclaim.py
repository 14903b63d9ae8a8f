"""What queues may lose to another one, queue by queue.

Axes: Q queues; amounts are [Q, 3] in the order of queue resources. Rules and words are those of
`plugins.fair_share.reclaim`, which is the only caller.
"""

from typing import NamedTuple

import numba
import numpy as np

from muster.numerics.arrays import Floats, Ints
from muster.numerics.axis import QUEUE_CPU, QUEUE_GPU, QUEUE_MEMORY
from muster.numerics.divide import UNLIMITED


class Sides(NamedTuple):
    """Where the path of every queue parts from that of the one that takes, and what holds there."""

    ours: Ints  # [Q]
    theirs: Ints  # [Q]
    quota: Floats  # [Q, 3]
    share: Floats  # [Q, 3]: what each queue has to itself


@numba.njit(cache=True)
def losses(sides, held, request):  # type: ignore[no-untyped-def]
    """(may lose bool[Q], the most GPU units float64[Q]) to somebody who asks for float64[3].

    `held` int64[Q, 3] is what queues hold now.
    """
    count = len(sides.ours)
    may = np.zeros(count, dtype=np.bool_)
    most = np.zeros(count)
    for queue in range(count):
        ours, theirs = sides.ours[queue], sides.theirs[queue]
        is_over = False
        for resource in range(3):
            quota = sides.quota[ours, resource]
            asked = held[ours, resource] + request[resource]
            is_over = is_over or (quota != UNLIMITED and asked > quota)
        may[queue] = _may_lose(sides, held, request, theirs, is_over)
        most[queue] = _most(sides, held, theirs, is_over)
    return may, most


@numba.njit(cache=True)
def _may_lose(sides, held, request, theirs, is_over):  # type: ignore[no-untyped-def]
    """Above its own share, if the taker is over its quota; else not just below its quota."""
    above_share, above_quota, below_quota = False, False, False
    for resource in range(3):
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
    for resource in range(3):
        quota = sides.quota[theirs, resource]
        bound = sides.share[theirs, resource] if is_over or quota == UNLIMITED else quota
        if bound == UNLIMITED or held[theirs, resource] <= bound:
            continue
        if resource == QUEUE_CPU or resource == QUEUE_MEMORY:
            return np.inf
        if resource == QUEUE_GPU:
            surplus = held[theirs, resource] - bound
    return surplus
