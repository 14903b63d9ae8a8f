"""Victims that need not go after all.

Slots are taken one after another, and what goes for a later one may make an earlier victim idle.
Of the chosen units those are let off, the dearest first, without which there are still as many
slots. Of a job only its last chosen unit may stay. Axes as in `numerics.victims`.
"""

import numpy as np

from muster.numerics.arrays import Bools, Ints
from muster.numerics.victims import Units


def without_idle(
    units: Units,
    chosen: Bools,
    free: Ints,
    request: Ints,
    may_use: Bools,
    wanted: int,
    dearest_first: Ints,
) -> Bools:
    """Those of the chosen bool[U] that must go for `wanted` slots of one request int64[R].

    `free` int64[N, R] is without any victim; `dearest_first` int64 are the chosen units.
    """
    columns = np.flatnonzero(request)
    need = request[columns]
    entries = np.flatnonzero(chosen[units.entry_unit])
    have = free[:, columns].copy()
    np.add.at(have, units.entry_node[entries], units.entry_freed[np.ix_(entries, columns)])
    slots = _slots(have, need, may_use)
    spare = int(slots.sum()) - wanted
    kept = chosen.copy()
    for unit in dearest_first.tolist():
        if spare < 0 or _is_before_another(units, kept, unit):
            continue
        own = units.unit_entries[units.unit_start[unit] : units.unit_start[unit + 1]]
        nodes, at = np.unique(units.entry_node[own], return_inverse=True)
        less = have[nodes].copy()
        np.subtract.at(less, at.reshape(-1), units.entry_freed[np.ix_(own, columns)])
        left = _slots(less, need, may_use[nodes])
        lost = int(slots[nodes].sum() - left.sum())
        if lost <= spare:
            kept[unit] = False
            spare -= lost
            have[nodes], slots[nodes] = less, left
    return kept


def _slots(have: Ints, need: Ints, may_use: Bools) -> Ints:
    fits = np.maximum(have // need, 0).min(axis=1)
    return np.where(may_use, fits, 0).astype(np.int64)


def _is_before_another(units: Units, kept: Bools, unit: int) -> bool:
    """Whether a later unit of the same job goes too."""
    after = unit + 1
    is_same = after < len(kept) and units.unit_first[after] == units.unit_first[unit]
    return bool(is_same and kept[after])
