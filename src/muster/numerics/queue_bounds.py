"""Hard bounds of queues: no queue above its limit, nothing non-preemptible above a quota.

Every queue from the leaf to the root is checked, resource by resource; a resource that is not asked
for is not checked, so that a queue already above its limit still runs what needs none of it.
"""

from typing import NamedTuple

import numba

from muster.numerics.arrays import Floats, Ints
from muster.numerics.axis import QUEUE_WIDTH
from muster.numerics.divide import UNLIMITED

WITHIN, OVER_LIMIT, OVER_QUOTA = range(3)


class QueueBounds(NamedTuple):
    """What queues hold and may hold; all but `chain` are [Q, queue resources]."""

    chain: Ints  # [Q, D]: a queue and its ancestors, deepest first, -1 behind the root
    limit: Floats
    quota: Floats
    allocated: Ints
    non_preemptible: Ints


@numba.njit(cache=True)
def broken_bound(bounds, leaf, asked, is_preemptible):  # type: ignore[no-untyped-def]
    """(which bound the queues of `leaf` would break with float64[queue resources] more, whose, of
    which resource); (WITHIN, -1, -1) for none.
    """
    for depth in range(bounds.chain.shape[1]):
        queue = bounds.chain[leaf, depth]
        if queue < 0:
            break
        resource = exceeded(bounds.limit, bounds.allocated, queue, asked)
        if resource >= 0:
            return OVER_LIMIT, queue, resource
        if is_preemptible:
            continue
        resource = exceeded(bounds.quota, bounds.non_preemptible, queue, asked)
        if resource >= 0:
            return OVER_QUOTA, queue, resource
    return WITHIN, -1, -1


@numba.njit(cache=True)
def exceeded(bound, held, queue, asked):  # type: ignore[no-untyped-def]
    """The first resource that is asked for and would exceed its bound; -1 for none."""
    for resource in range(QUEUE_WIDTH):
        most = bound[queue, resource]
        if asked[resource] <= 0 or most == UNLIMITED:
            continue
        if held[queue, resource] + asked[resource] > most:
            return resource
    return -1
