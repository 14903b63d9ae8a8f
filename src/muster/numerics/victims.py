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
from muster.numerics.fit import has_slot
from muster.numerics.handles import handle_of

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


UnitsHandle = handle_of(Units, __name__)


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
    apart = np.zeros(0, dtype=np.int64) if domain is None else domain
    chosen = np.zeros(len(units.unit_cost), dtype=np.bool_)
    nodes = np.full(max(wanted, 0), -1, dtype=np.int64)
    found = _take_slots(units, budget, is_eligible, free, request, may_use, apart, chosen, nodes)
    return Found(nodes[:found], chosen)


class _SlotSearch(NamedTuple):
    """One search: what was asked for, what was chosen so far, and room to calculate in."""

    may_go: Bools  # [U]: eligible and not chosen
    level: Ints  # [U]
    left: Ints  # [levels]: what remains of the budget
    free: Ints  # [N, R], with the chosen gone and the slots taken
    request: Ints  # [R]
    columns: Ints  # those of R that are asked for
    chosen: Bools  # [U]
    spent: Ints  # [levels]
    have: Ints  # [1, R]
    mark: Ints  # [E]
    marked: Ints  # [1]: how many marks there are
    seen: Ints  # [U]
    clock: Ints  # [1]


_SlotSearchHandle = handle_of(_SlotSearch, __name__)


@numba.njit(cache=True, nogil=True)  # it may take long: others go on meanwhile
def _take_slots(columns, budget, is_eligible, free, request, may_use, domain, chosen, nodes):  # type: ignore[no-untyped-def]
    """Fill `nodes` with slots, and `chosen` with who goes for them; how many were found."""
    units, count = UnitsHandle(*columns), len(free)
    search = _slot_search(budget, is_eligible, free, request, chosen, len(units.entry_unit))
    # A heap of nodes by price, cheapest first, then the lowest row; `place` is where a node is.
    price = np.empty((count, 4), dtype=np.int64)
    heap = np.empty(count, dtype=np.int64)
    place = np.full(count, -1, dtype=np.int64)
    size = np.zeros(1, dtype=np.int64)
    is_open = may_use & _could_serve(units, search)
    touched = np.flatnonzero(is_open)
    _price(units, search, price, touched)
    _pile(price, heap, place, size, touched)
    touched = np.empty(count, dtype=np.int64)
    is_open[:] = may_use
    is_touched = np.zeros(count, dtype=np.bool_)
    asked = np.zeros(4, dtype=np.int64)
    slot = 0
    while slot < len(nodes) and size[0] > 0:
        best = heap[0]
        asked[:] = price[best]
        _price(units, search, price, heap[:1])
        if not is_open[best]:
            price[best, 1] = _FAR
        if not np.array_equal(asked, price[best]):
            _update(price, heap, place, size, best)
            continue  # a budget that others spent meanwhile made it dearer, or impossible
        nodes[slot] = best
        slot += 1
        changed = touched[: _evict(units, search, best, touched, is_touched)]
        if slot == len(nodes):
            break
        search.free[best] -= request
        if len(domain) and domain[best] >= 0:
            is_open &= domain != domain[best]
        _price(units, search, price, changed)
        for node in changed:
            is_touched[node] = False
            if not is_open[node]:
                price[node, 1] = _FAR
            _update(price, heap, place, size, node)
    return slot


@numba.njit(cache=True)
def _slot_search(budget, is_eligible, free, request, chosen, entries):  # type: ignore[no-untyped-def]
    """A search in which nothing is chosen yet."""
    return _SlotSearchHandle(
        is_eligible.copy(),
        budget.unit_level,
        budget.most.copy(),
        free.copy(),
        request,
        np.flatnonzero(request),
        chosen,
        np.zeros(len(budget.most), dtype=np.int64),
        np.zeros((1, len(request)), dtype=np.int64),
        np.empty(entries, dtype=np.int64),
        np.zeros(1, dtype=np.int64),
        np.zeros(len(chosen), dtype=np.int64),
        np.zeros(1, dtype=np.int64),
    )


@numba.njit(cache=True)
def _could_serve(units, search):  # type: ignore[no-untyped-def]
    """Nodes that have room, or somebody who might go: bool[N]. Where as many might go as there are
    nodes, it costs less to ask about all nodes.
    """
    # Names for columns, and no views of rows: either costs more than what is done with them.
    free, request, columns = search.free, search.request, search.columns
    unit_start, unit_entries, entry_node = units.unit_start, units.unit_entries, units.entry_node
    may_go = search.may_go
    could = np.ones(len(free), dtype=np.bool_)
    if may_go.sum() >= len(could):
        return could
    for node in range(len(could)):
        could[node] = has_slot(free, request, columns, node)
    for unit in range(len(may_go)):
        if may_go[unit]:
            for place in range(unit_start[unit], unit_start[unit + 1]):
                could[entry_node[unit_entries[place]]] = True
    return could


@numba.njit(cache=True)
def _pile(price, heap, place, size, nodes):  # type: ignore[no-untyped-def]
    """Make a heap of those of the nodes that have a price."""
    for node in nodes:
        if price[node, 1] != _FAR:
            heap[size[0]] = node
            place[node] = size[0]
            size[0] += 1
    for at in range(size[0] // 2 - 1, -1, -1):
        _sink(price, heap, place, size, at)


@numba.njit(cache=True)
def _update(price, heap, place, size, node):  # type: ignore[no-untyped-def]
    """Put a node where its price belongs."""
    if price[node, 1] == _FAR:
        _remove(price, heap, place, size, node)
        return
    if place[node] < 0:
        heap[size[0]] = node
        place[node] = size[0]
        size[0] += 1
    _sink(price, heap, place, size, _rise(price, heap, place, place[node]))


@numba.njit(cache=True)
def _remove(price, heap, place, size, node):  # type: ignore[no-untyped-def]
    at = place[node]
    if at < 0:
        return
    size[0] -= 1
    last = heap[size[0]]
    place[node] = -1
    if last != node:
        heap[at] = last
        place[last] = at
        _sink(price, heap, place, size, _rise(price, heap, place, at))


@numba.njit(cache=True)
def _rise(price, heap, place, at):  # type: ignore[no-untyped-def]
    """Move an entry up the heap; where it ends."""
    while at > 0 and _is_cheaper(price, heap[at], heap[(at - 1) // 2]):
        _swap(heap, place, at, (at - 1) // 2)
        at = (at - 1) // 2
    return at


@numba.njit(cache=True)
def _sink(price, heap, place, size, at):  # type: ignore[no-untyped-def]
    """Move an entry down the heap."""
    while 2 * at + 1 < size[0]:
        below = 2 * at + 1
        if below + 1 < size[0] and _is_cheaper(price, heap[below + 1], heap[below]):
            below += 1
        if not _is_cheaper(price, heap[below], heap[at]):
            return
        _swap(heap, place, at, below)
        at = below


@numba.njit(cache=True)
def _swap(heap, place, left, right):  # type: ignore[no-untyped-def]
    heap[left], heap[right] = heap[right], heap[left]
    place[heap[left]] = left
    place[heap[right]] = right


@numba.njit(cache=True)
def _is_cheaper(price, left, right):  # type: ignore[no-untyped-def]
    for part in range(4):
        if price[left, part] != price[right, part]:
            return price[left, part] < price[right, part]
    return left < right


@numba.njit(cache=True)
def _add_unit(entry_unit, entry_freed, columns, have, entry, first, last, sign):  # type: ignore[no-untyped-def]
    """What the unit of an entry frees between two entries."""
    for other in range(first, last):
        if entry_unit[other] == entry_unit[entry]:
            for at in range(len(columns)):
                have[0, columns[at]] += sign * entry_freed[other, columns[at]]


@numba.njit(cache=True)
def _price(units, search, price, nodes):  # type: ignore[no-untyped-def]
    """What the next slot on each of these nodes would cost: worst class, resources, work, reach.

    The units that would have to go for the last of them are marked: one entry of each.
    """
    # Names for columns: taking them out of a tuple costs more than what is done with them.
    entry_unit, entry_freed, entry_start = units.entry_unit, units.entry_freed, units.entry_start
    unit_start, unit_gpus = units.unit_start, units.unit_gpus
    may_go, level = search.may_go, search.level
    left, free, request, columns = search.left, search.free, search.request, search.columns
    spent, have, mark = search.spent, search.have, search.mark
    marked = 0
    for node in nodes:
        first, last = entry_start[node], entry_start[node + 1]
        for at in range(len(columns)):
            have[0, columns[at]] = free[node, columns[at]]
        marked, entry = 0, first
        is_short = not has_slot(have, request, columns, 0)
        while is_short and entry < last:
            unit = entry_unit[entry]
            entry += 1
            if not may_go[unit] or spent[level[unit]] >= left[level[unit]]:
                continue
            start, stop = entry - 1, entry
            if unit_start[unit + 1] - unit_start[unit] > 1:
                start, stop = first, last
                is_known = False
                for before in range(first, entry - 1):
                    is_known = is_known or entry_unit[before] == unit
                if is_known:
                    continue
            mark[marked] = entry - 1
            marked += 1
            spent[level[unit]] += unit_gpus[unit]
            _add_unit(entry_unit, entry_freed, columns, have, entry - 1, start, stop, 1)
            is_short = not has_slot(have, request, columns, 0)
        for at in range(marked):
            spent[level[entry_unit[mark[at]]]] = 0
        if is_short:
            price[node, 1] = _FAR
            continue
        if marked > 1:
            marked = _without_redundant_marks(units, search, first, last, marked)
        _write_price(units, search, price[node], marked)
    search.marked[0] = marked


@numba.njit(cache=True, inline="always")  # called for every node, with tuples of many arrays
def _write_price(units, search, price, marked):  # type: ignore[no-untyped-def]
    """What the marked units, and those of their jobs that go before them, cost together."""
    unit_cost, unit_loss, unit_class = units.unit_cost, units.unit_loss, units.unit_class
    may_go, seen = search.may_go, search.seen
    search.clock[0] += 1
    now = search.clock[0]
    worst = far = -1
    cost = loss = 0
    for at in range(marked):
        unit = units.entry_unit[search.mark[at]]
        for each in range(units.unit_first[unit], unit + 1):
            if may_go[each] and seen[each] != now:
                seen[each] = now
                cost += unit_cost[each]
                loss += unit_loss[each]
                worst = max(worst, unit_class[each])
                far = max(far, each)
    price[0], price[1], price[2], price[3] = worst, cost, loss, far


@numba.njit(cache=True)
def _without_redundant_marks(units, search, first, last, marked):  # type: ignore[no-untyped-def]
    """Take back marks, last first, without which there is room too; how many remain.

    There was no room before the last of them: it remains.
    """
    mark, have, request, columns = search.mark, search.have, search.request, search.columns
    entry_unit, entry_freed, unit_start = units.entry_unit, units.entry_freed, units.unit_start
    for at in range(marked - 2, -1, -1):
        start, stop = mark[at], mark[at] + 1
        if unit_start[entry_unit[start] + 1] - unit_start[entry_unit[start]] > 1:
            start, stop = first, last
        _add_unit(entry_unit, entry_freed, columns, have, mark[at], start, stop, -1)
        if not has_slot(have, request, columns, 0):
            _add_unit(entry_unit, entry_freed, columns, have, mark[at], start, stop, 1)
        else:
            mark[at] = -1
    kept = 0
    for at in range(marked):
        if mark[at] >= 0:
            mark[kept] = mark[at]
            kept += 1
    return kept


@numba.njit(cache=True)
def _evict(units, search, node, touched, is_touched):  # type: ignore[no-untyped-def]
    """Choose the units that are marked; how many nodes change by it, and which, this one first."""
    may_go, chosen, free, mark = search.may_go, search.chosen, search.free, search.mark
    touched[0] = node
    is_touched[node] = True
    count = 1
    for at in range(search.marked[0]):
        unit = units.entry_unit[mark[at]]
        for each in range(units.unit_first[unit], unit + 1):
            if not may_go[each]:
                continue  # it has gone before
            may_go[each] = False
            chosen[each] = True
            search.left[search.level[each]] -= units.unit_gpus[each]
            for place in range(units.unit_start[each], units.unit_start[each + 1]):
                entry = units.unit_entries[place]
                where = units.entry_node[entry]
                free[where] += units.entry_freed[entry]
                if not is_touched[where]:
                    is_touched[where] = True
                    touched[count] = where
                    count += 1
    return count
