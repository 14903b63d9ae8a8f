"""Which nodes have room for a request, and how full they are: for the general path.

Axes: N nodes, R resources, K rows asked about. `Node` columns are the ledger's.
"""

import numba
import numpy as np

PACK_SCORE = 9.0
"""The most that packing counts for."""


@numba.njit(cache=True)
def feasible(idle, releasing, request, rows):  # type: ignore[no-untyped-def]
    """(later, now), bool[K] each: room counting what others leave, and also without it."""
    later = np.ones(len(rows), dtype=np.bool_)
    now = np.ones(len(rows), dtype=np.bool_)
    for at in range(len(rows)):
        n = rows[at]
        for r in range(len(request)):
            need = request[r]
            if need > 0 and idle[n, r] < need:
                now[at] = False
            if need > 0 and idle[n, r] + releasing[n, r] < need:
                later[at] = False
                now[at] = False
                break
    return later, now


@numba.njit(cache=True)
def has_room_later(idle, releasing, request, may_use):  # type: ignore[no-untyped-def]
    """Whether some node of `may_use` bool[N] has room, counting what others leave."""
    for n in range(len(may_use)):
        fits = may_use[n]
        for r in range(len(request)):
            fits = fits and (request[r] <= 0 or idle[n, r] + releasing[n, r] >= request[r])
        if fits:
            return True
    return False


@numba.njit(cache=True)
def most_free_later(idle, releasing, column, may_use):  # type: ignore[no-untyped-def]
    """The most of one resource that a node of `may_use` bool[N] has, counting what others leave; at
    least 0.
    """
    most = 0
    for n in range(len(may_use)):
        if may_use[n]:
            most = max(most, idle[n, column] + releasing[n, column])
    return most


@numba.njit(cache=True)
def fullness(idle, releasing, allocatable, column, considered, rows):  # type: ignore[no-untyped-def]
    """float64[K]: PACK_SCORE for the fullest of the considered nodes (bool[N]), 0 for the emptiest.

    Nodes without the resource score 0, and all do when none has any of it free.
    """
    low, high, is_first = 0, 0, True
    for n in range(len(considered)):
        if considered[n] and allocatable[n, column] > 0:
            free = idle[n, column] + releasing[n, column]
            low = free if is_first else min(low, free)
            high = free if is_first else max(high, free)
            is_first = False
    score = np.zeros(len(rows))
    if is_first or high <= 0:
        return score
    for at in range(len(rows)):
        n = rows[at]
        if allocatable[n, column] > 0:
            free = idle[n, column] + releasing[n, column]
            part = 1.0 - (free - low) / (high - low) if high > low else 1.0
            score[at] = PACK_SCORE * part
    return score
