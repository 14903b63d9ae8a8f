"""Which of the ordered victims make room: rules first, then least resources, then least work lost.

Victims come as *units* that go together (a gang, or one surplus task), numbered in the order the
rules give; units of one job follow each other, and a later one takes the earlier ones with it.
Units have a *class*: a lower class always goes before a higher one, because mixing them would let
low priority live at a higher one's cost. A *slot* is room for one wanted task on one node. Slots
are taken one after another, each the cheapest there is: by the worst class it needs, then by what
it evicts, then by how far down the order it reaches. What a chosen unit frees on other nodes counts
for the next slots. Arrays only; no names here.

Axes: N nodes, R resources, U units, E entries (one per task of a unit).
"""

from typing import NamedTuple

import numba
import numpy as np

from muster.numerics.arrays import Bools, Ints

_FAR = 1 << 60


class Units(NamedTuple):
    """What may be evicted. Entries of a node come in the order in which they go."""

    entry_start: Ints  # [N + 1]
    entry_unit: Ints  # [E], entries sorted by node
    entry_freed: Ints  # [E, R]
    entry_node: Ints  # [E]
    unit_start: Ints  # [U + 1], into unit_entries
    unit_entries: Ints  # [E]: which entries belong to a unit
    unit_cost: Ints  # [U]: resources that evicting it takes away
    unit_loss: Ints  # [U]: work that evicting it loses
    unit_class: Ints  # [U]
    unit_first: Ints  # [U]: the first unit of the same job
    unit_gpus: Ints  # [U]: what it counts against a budget


class Budget(NamedTuple):
    """How much may be taken from whom. Of a level nothing more goes once its budget is taken."""

    unit_level: Ints  # [U]
    most: Ints  # [levels]


class Found(NamedTuple):
    """Slots that were found (fewer than wanted when there are no more), and who goes for them."""

    nodes: Ints  # [slots]
    chosen: Bools  # [U]


def cheapest_slots(
    units: Units,
    is_eligible: Bools,
    free: Ints,
    request: Ints,
    may_use: Bools,
    wanted: int,
    budget: Budget,
    domain: Ints | None = None,
) -> Found:
    """Find `wanted` slots for a request int64[R]; `free` int64[N, R] is not changed.

    `is_eligible` bool[U] and `may_use` bool[N] say who may go and where the task may run. With a
    `domain` int64[N] no two slots are in the same one (-1: in none).
    """
    apart = np.full(len(free), -1, dtype=np.int64) if domain is None else domain
    chosen = np.zeros(len(units.unit_cost), dtype=np.bool_)
    nodes = np.full(max(wanted, 0), -1, dtype=np.int64)
    left = budget.most.copy()
    found = _take_slots(
        units,
        budget.unit_level,
        left,
        is_eligible,
        free.copy(),
        request,
        may_use,
        apart,
        chosen,
        nodes,
    )
    return Found(nodes[:found], chosen)


@numba.njit(cache=True)
def _take_slots(units, level, left, is_eligible, free, request, may_use, domain, chosen, nodes):  # type: ignore[no-untyped-def]
    count = len(free)
    price = np.full((count, 4), _FAR)
    open_to_us = may_use.copy()
    columns = np.flatnonzero(request)
    seen = np.full(len(chosen), -1, dtype=np.int64)
    clock = np.zeros(1, dtype=np.int64)
    for node in range(count):
        if open_to_us[node] and _could_serve(units, is_eligible, free, request, columns, node):
            _price(
                units,
                level,
                left,
                is_eligible,
                free,
                request,
                columns,
                chosen,
                node,
                price,
                seen,
                clock,
            )
    slot = 0
    while slot < len(nodes):
        best = _best(price, open_to_us)
        if best < 0:
            return slot
        asked = price[best].copy()
        _price(
            units,
            level,
            left,
            is_eligible,
            free,
            request,
            columns,
            chosen,
            best,
            price,
            seen,
            clock,
        )
        if not np.array_equal(asked, price[best]):
            continue  # a budget that others spent meanwhile made it dearer, or impossible
        nodes[slot] = best
        slot += 1
        touched = _evict_for(units, level, left, is_eligible, free, request, columns, chosen, best)
        free[best] -= request
        touched[best] = True
        if domain[best] >= 0:
            open_to_us &= domain != domain[best]
        for node in range(count):
            if touched[node] and open_to_us[node]:
                _price(
                    units, level, left, is_eligible, free, request, columns, chosen, node, price,
                    seen, clock,
                )  # fmt: skip
    return len(nodes)


@numba.njit(cache=True)
def _could_serve(units, is_eligible, free, request, columns, node):  # type: ignore[no-untyped-def]
    """Whether the node has room, or somebody who might go."""
    for entry in range(units.entry_start[node], units.entry_start[node + 1]):
        if is_eligible[units.entry_unit[entry]]:
            return True
    return not _is_short(free[node], request, columns)


@numba.njit(cache=True)
def _best(price, open_to_us):  # type: ignore[no-untyped-def]
    """The open node with the lexicographically lowest price; -1 when none has one."""
    best = -1
    for node in range(len(price)):
        if not open_to_us[node] or price[node, 1] == _FAR:
            continue
        if best < 0:
            best = node
            continue
        for part in range(4):
            if price[node, part] != price[best, part]:
                if price[node, part] < price[best, part]:
                    best = node
                break
    return best


@numba.njit(cache=True)
def _is_short(free, request, columns):  # type: ignore[no-untyped-def]
    short = False
    for column in columns:
        short = short or free[column] < request[column]
    return short


@numba.njit(cache=True)
def _add_unit(units, first, last, unit, have, sign):  # type: ignore[no-untyped-def]
    """What a unit frees between two entries, its other tasks there included."""
    for entry in range(first, last):
        if units.entry_unit[entry] == unit:
            for column in range(len(have)):
                have[column] += sign * units.entry_freed[entry, column]


@numba.njit(cache=True)
def _needed(units, level, left, is_eligible, free, request, columns, chosen, node, mark):  # type: ignore[no-untyped-def]
    """Mark one entry of each unit that has to go for one request; False when all are too few."""
    first, last = units.entry_start[node], units.entry_start[node + 1]
    have = free[node].copy()
    spent = np.zeros(len(left), dtype=np.int64)
    for entry in range(first, last):
        if not _is_short(have, request, columns):
            break
        unit = units.entry_unit[entry]
        if chosen[unit] or not is_eligible[unit] or spent[level[unit]] >= left[level[unit]]:
            continue
        is_new = True
        for before in range(first, entry):
            if units.entry_unit[before] == unit:
                is_new = False
        if is_new:
            mark[entry - first] = 1
            spent[level[unit]] += units.unit_gpus[unit]
            _add_unit(units, first, last, unit, have, 1)
    if _is_short(have, request, columns):
        return False
    for at in range(last - first - 1, -1, -1):
        if mark[at] == 1:
            unit = units.entry_unit[first + at]
            _add_unit(units, first, last, unit, have, -1)
            if _is_short(have, request, columns):
                _add_unit(units, first, last, unit, have, 1)
            else:
                mark[at] = 0
    return True


@numba.njit(cache=True)
def _price(  # type: ignore[no-untyped-def]
    units, level, left, is_eligible, free, request, columns, chosen, node, price, seen, clock
):
    """What the next slot on a node would cost: worst class, resources, work, reach."""
    first, last = units.entry_start[node], units.entry_start[node + 1]
    mark = np.zeros(last - first, dtype=np.int8)
    price[node, :] = _FAR
    if not _needed(units, level, left, is_eligible, free, request, columns, chosen, node, mark):
        return
    clock[0] += 1
    worst = far = -1
    cost = loss = 0
    for at in range(last - first):
        if mark[at] == 0:
            continue
        unit = units.entry_unit[first + at]
        for each in range(units.unit_first[unit], unit + 1):
            if not chosen[each] and seen[each] != clock[0]:
                seen[each] = clock[0]
                cost += units.unit_cost[each]
                loss += units.unit_loss[each]
                worst = max(worst, units.unit_class[each])
                far = max(far, each)
    price[node, 0] = worst
    price[node, 1] = cost
    price[node, 2] = loss
    price[node, 3] = far


@numba.njit(cache=True)
def _evict_for(units, level, left, is_eligible, free, request, columns, chosen, node):  # type: ignore[no-untyped-def]
    """Choose what the next slot on a node needs; bool[N] of the nodes where something was freed."""
    first, last = units.entry_start[node], units.entry_start[node + 1]
    touched = np.zeros(len(free), dtype=np.bool_)
    mark = np.zeros(last - first, dtype=np.int8)
    _needed(units, level, left, is_eligible, free, request, columns, chosen, node, mark)
    for at in range(last - first):
        if mark[at] == 0:
            continue
        unit = units.entry_unit[first + at]
        for each in range(units.unit_first[unit], unit + 1):
            if chosen[each]:
                continue
            chosen[each] = True
            left[level[each]] -= units.unit_gpus[each]
            for place in range(units.unit_start[each], units.unit_start[each + 1]):
                entry = units.unit_entries[place]
                where = units.entry_node[entry]
                touched[where] = True
                free[where] += units.entry_freed[entry]
    return touched
