"""Victims that need not go after all.

Slots are taken one after another, and what goes for a later one may make an earlier victim
redundant. Of the chosen units those are dropped, the dearest first, without which there are still
as many slots. Of a job only its last chosen unit may stay. Axes as in `numerics.victims`.
"""

import numba
import numpy as np

from muster.numerics.arrays import Bools, Ints
from muster.numerics.fit import all_slots, slots
from muster.numerics.victims import Units


def without_redundant(
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
    kept = chosen.copy()
    _drop_redundant(
        units, kept, free.copy(), request, np.flatnonzero(request), may_use, wanted, dearest_first
    )
    return kept


@numba.njit(cache=True, nogil=True)  # it may take long: others go on meanwhile
def _drop_redundant(units, kept, have, request, columns, may_use, wanted, dearest_first):  # type: ignore[no-untyped-def]
    """Take out of `kept` who need not go; `have` is what is free without any victim."""
    entry_freed, entry_node, unit_start = units.entry_freed, units.entry_node, units.unit_start
    unit_entries, unit_first = units.unit_entries, units.unit_first
    for unit in dearest_first:
        for place in range(unit_start[unit], unit_start[unit + 1]):
            have[entry_node[unit_entries[place]]] += entry_freed[unit_entries[place]]
    found = all_slots(have, request, may_use)
    spare = found.sum() - wanted
    for unit in dearest_first:
        after = unit + 1
        if after < len(kept) and unit_first[after] == unit_first[unit] and kept[after]:
            continue  # a later unit of the same job goes too
        if spare < 0:
            return
        lost = 0
        for place in range(unit_start[unit], unit_start[unit + 1]):
            have[entry_node[unit_entries[place]]] -= entry_freed[unit_entries[place]]
        for place in range(unit_start[unit], unit_start[unit + 1]):
            node = entry_node[unit_entries[place]]
            left = slots(have, request, columns, node) if may_use[node] else 0
            lost += found[node] - left
            found[node] = left
        if lost <= spare:
            kept[unit] = False
            spare -= lost
            continue
        for place in range(unit_start[unit], unit_start[unit + 1]):
            have[entry_node[unit_entries[place]]] += entry_freed[unit_entries[place]]
        for place in range(unit_start[unit], unit_start[unit + 1]):
            node = entry_node[unit_entries[place]]
            found[node] = slots(have, request, columns, node) if may_use[node] else 0
