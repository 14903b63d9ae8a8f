"""NUMA alignment as the kubelet's Topology Manager does it, for all nodes at once.

Axes: N nodes, Z zones (padded with zones that have nothing), R resources. `need` is int64[R];
`available` and `allocatable` are int64[N, Z, R]; `exists` is bool[N, Z]. Every function returns
which zones it would use, bool[N, Z], all False where the request cannot be aligned; `drawn` says
how much each zone then gives.
"""

from collections.abc import Callable
from itertools import combinations, islice

import numpy as np

from muster.numerics.arrays import Bools, Ints

Aligner = Callable[[Ints, Ints, Ints, Bools], Bools]
_SETS_MAX = 1 << 14
"""Sets of zones of one size that are tried: all of those of 16 zones. What lies beyond counts as
not aligned, for the number of sets doubles with every zone."""


def single_zone(need: Ints, available: Ints, allocatable: Ints, exists: Bools) -> Bools:
    """The lowest zone that holds the whole request."""
    holds = exists & ((available >= need) | (need <= 0)).all(axis=2)
    lowest = np.zeros_like(holds)
    rows = np.flatnonzero(holds.any(axis=1))
    lowest[rows, holds[rows].argmax(axis=1)] = True
    return lowest


def restricted(need: Ints, available: Ints, allocatable: Ints, exists: Bools) -> Bools:
    """The lowest set of as few zones as an empty node would need, if it has room now.

    Every resource must want the same number of zones; otherwise the kubelet would refuse the pod.
    """
    width = _common_width(need, allocatable)
    chosen = np.zeros_like(exists)
    asked = need > 0
    for size in range(1, exists.shape[1] + 1):
        waiting = width == size
        sets = combinations(range(exists.shape[1]), size)
        for zones in islice(sets, _SETS_MAX):
            if not waiting.any():
                break
            pick = list(zones)
            room = available[:, pick][:, :, asked].sum(axis=1)
            taken = waiting & exists[:, pick].all(axis=1) & (room >= need[asked]).all(axis=1)
            chosen[np.ix_(np.flatnonzero(taken), np.array(zones))] = True
            waiting &= ~taken
    return chosen


def best_effort(need: Ints, available: Ints, allocatable: Ints, exists: Bools) -> Bools:
    """Zones added one by one, each covering most of what is left; it may not be enough."""
    chosen = np.zeros_like(exists)
    left = np.broadcast_to(np.maximum(need, 0), (len(exists), len(need))).copy()
    for _ in range(exists.shape[1]):
        gains = np.minimum(left[:, None, :], np.maximum(available, 0)).sum(axis=2)
        gains = np.where(exists & ~chosen, gains, 0)
        rows = np.flatnonzero(gains.any(axis=1))
        if not len(rows):
            break
        best = gains[rows].argmax(axis=1)
        chosen[rows, best] = True
        left[rows] -= np.minimum(left[rows], np.maximum(available[rows, best], 0))
    return chosen


def drawn(need: Ints, available: Ints, chosen: Bools) -> Ints:
    """int64[N, Z, R]: what each chosen zone gives, the lowest zone first."""
    given = np.zeros_like(available)
    left = np.broadcast_to(np.maximum(need, 0), (len(chosen), len(need))).copy()
    for zone in range(chosen.shape[1]):
        part = np.minimum(left, np.maximum(available[:, zone], 0)) * chosen[:, zone, None]
        given[:, zone] = part
        left -= part
    return given


def _common_width(need: Ints, allocatable: Ints) -> Ints:
    """int64[N]: how many zones every asked resource wants; 0 where they differ or cannot be met."""
    asked = np.flatnonzero(need > 0)
    if not len(asked):
        return np.ones(len(allocatable), np.int64)
    largest_first = -np.sort(-allocatable[:, :, asked], axis=1)
    covers = largest_first.cumsum(axis=1) >= need[asked]
    widths = np.where(covers.any(axis=1), covers.argmax(axis=1) + 1, 0)
    same: Bools = (widths == widths[:, :1]).all(axis=1)
    return np.where(same, widths[:, 0], 0)
