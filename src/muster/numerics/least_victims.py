"""The least that has to go for so many slots, exactly, where what may go is on one node each.

What a set frees on one node does not depend on the others. So the least for each amount of GPUs is
found on each node by itself, unit after unit of a job, and then how many slots to take where. Costs
are compared by their first number, then by the second. Arrays only; no names here.

Axes: N nodes, U units (those of a job one after another, a later one takes the earlier with it).
"""

import numba
import numpy as np

from muster.numerics.arrays import Bools, Ints

_FAR = 1 << 60


def least_units(
    may_go: Bools,
    first: Ints,
    node: Ints,
    gpus: Ints,
    cost: Ints,
    loss: Ints,
    free: Ints,
    need: int,
    wanted: int,
) -> Bools | None:
    """Which units bool[U] go for `wanted` slots of `need` GPUs each, of those that `may_go`; None:
    there are not as many.

    Of each unit: the `first` of its job, the `node` that it is on, the `gpus` that it frees, its
    `cost` and `loss` int64[U]. `free` int64[N] are GPUs of nodes, 0 where none may be used.
    """
    rows = np.flatnonzero(may_go)
    rows = rows[np.lexsort((rows, node[rows]))].astype(np.int64)
    chosen = np.zeros(len(first), dtype=np.bool_)
    found = _choose(rows, first, node, gpus, cost, loss, free, need, wanted, chosen)
    return chosen if found else None


@numba.njit(cache=True)
def least_if_divisible(idle, releasing, column, may_use, need, wanted):  # type: ignore[no-untyped-def]
    """What of one resource has to go for so many slots of `need` on nodes bool[N], if whoever goes
    could go in part: no set takes less. What nodes have free serves slots as far as it goes.
    """
    left = np.zeros(len(may_use), dtype=np.int64)
    missing, most = wanted, 0
    for node in range(len(may_use)):
        if may_use[node]:
            free = max(idle[node, column] + releasing[node, column], 0)
            missing -= free // need
            left[node] = free % need
            most = max(most, left[node])
    if missing <= 1:
        return max(missing, 0) * (need - most)
    left.sort()
    return missing * need - left[max(len(left) - missing, 0) :].sum()


@numba.njit(cache=True, nogil=True)  # it may take long: others go on meanwhile
def _choose(rows, first, node, gpus, cost, loss, free, need, wanted, chosen):  # type: ignore[no-untyped-def]
    """Mark who goes; whether there are enough."""
    nodes, start = _by_node(rows, node)
    best_cost = np.full(wanted + 1, _FAR, dtype=np.int64)
    best_loss = np.full(wanted + 1, _FAR, dtype=np.int64)
    begin = min(_without_victims(free, need, nodes), wanted)
    best_cost[begin] = best_loss[begin] = 0
    # For each number of slots: how many are on a node, and how many were there before it.
    taken = np.zeros((len(nodes), wanted + 1), dtype=np.int32)
    before = np.zeros((len(nodes), wanted + 1), dtype=np.int32)
    for at in range(len(nodes)):
        there = rows[start[at] : start[at + 1]]
        slot_cost, slot_loss, _, _, _ = _least_there(
            there, first, gpus, cost, loss, free[nodes[at]], need, wanted
        )
        now_cost = np.full(wanted + 1, _FAR, dtype=np.int64)
        now_loss = np.full(wanted + 1, _FAR, dtype=np.int64)
        for have in range(wanted + 1):
            if best_cost[have] == _FAR:
                continue
            for slots in range(len(slot_cost)):
                if slot_cost[slots] == _FAR:
                    continue
                to = min(have + slots, wanted)
                more = best_cost[have] + slot_cost[slots]
                more_loss = best_loss[have] + slot_loss[slots]
                if _is_less(more, more_loss, now_cost[to], now_loss[to]):
                    now_cost[to], now_loss[to] = more, more_loss
                    taken[at, to], before[at, to] = slots, have
        best_cost, best_loss = now_cost, now_loss
    if best_cost[wanted] == _FAR:
        return False
    to = wanted
    for at in range(len(nodes) - 1, -1, -1):
        there = rows[start[at] : start[at + 1]]
        _, _, slot_have, goes, came = _least_there(
            there, first, gpus, cost, loss, free[nodes[at]], need, wanted
        )
        _mark(there, first, slot_have, goes, came, taken[at, to], chosen)
        to = before[at, to]
    return True


@numba.njit(cache=True)
def _without_victims(free, need, nodes):  # type: ignore[no-untyped-def]
    """Slots that other nodes have as they are."""
    slots = 0
    for node in range(len(free)):
        slots += max(free[node], 0) // need
    for node in nodes:
        slots -= max(free[node], 0) // need
    return slots


@numba.njit(cache=True)
def _by_node(rows, node):  # type: ignore[no-untyped-def]
    """(nodes, where the rows of each begin and those of the last end); rows are sorted by node."""
    nodes = np.empty(len(rows), dtype=np.int64)
    start = np.empty(len(rows) + 1, dtype=np.int64)
    count = 0
    for at in range(len(rows)):
        if at == 0 or node[rows[at]] != node[rows[at - 1]]:
            nodes[count], start[count] = node[rows[at]], at
            count += 1
    start[count] = len(rows)
    return nodes[:count], start[: count + 1]


@numba.njit(cache=True)
def _least_there(there, first, gpus, cost, loss, free, need, wanted):  # type: ignore[no-untyped-def]
    """The least on one node: (by number of slots what it costs, what it loses, and the GPUs that
    are free then; of each unit whether it goes bool[units, GPUs + 1] last, and how many GPUs were
    free before it).

    A state is so many GPUs free; more than all slots need count as just as many.
    """
    most = max(free, 0)
    for unit in there:
        most += gpus[unit]
    most = min(most, wanted * need)
    at_cost = np.full(most + 1, _FAR, dtype=np.int64)
    at_loss = np.full(most + 1, _FAR, dtype=np.int64)
    begin = min(max(free, 0), most)
    at_cost[begin] = at_loss[begin] = 0
    goes = np.zeros((len(there), most + 1), dtype=np.bool_)
    came = np.zeros((len(there), most + 1), dtype=np.int64)
    job_cost, job_loss = at_cost.copy(), at_loss.copy()
    for which in range(len(there)):
        unit = there[which]
        if which == 0 or first[unit] != first[there[which - 1]]:
            job_cost, job_loss = at_cost.copy(), at_loss.copy()
        # With a unit go those of its job before it: on from where all of these have gone.
        with_cost = np.full(most + 1, _FAR, dtype=np.int64)
        with_loss = np.full(most + 1, _FAR, dtype=np.int64)
        for have in range(most + 1):
            if job_cost[have] == _FAR:
                continue
            to = min(have + gpus[unit], most)
            more, more_loss = job_cost[have] + cost[unit], job_loss[have] + loss[unit]
            if _is_less(more, more_loss, with_cost[to], with_loss[to]):
                with_cost[to], with_loss[to] = more, more_loss
                came[which, to] = have
        job_cost, job_loss = with_cost, with_loss
        for have in range(most + 1):
            if _is_less(with_cost[have], with_loss[have], at_cost[have], at_loss[have]):
                at_cost[have], at_loss[have] = with_cost[have], with_loss[have]
                goes[which, have] = True
    slots = most // need + 1
    slot_cost = np.full(slots, _FAR, dtype=np.int64)
    slot_loss = np.full(slots, _FAR, dtype=np.int64)
    slot_have = np.zeros(slots, dtype=np.int64)
    for have in range(most + 1):
        to = have // need
        if _is_less(at_cost[have], at_loss[have], slot_cost[to], slot_loss[to]):
            slot_cost[to], slot_loss[to], slot_have[to] = at_cost[have], at_loss[have], have
    return slot_cost, slot_loss, slot_have, goes, came


@numba.njit(cache=True)
def _is_less(cost, loss, other_cost, other_loss):  # type: ignore[no-untyped-def]
    return cost < other_cost or (cost == other_cost and loss < other_loss)


@numba.njit(cache=True)
def _mark(there, first, slot_have, goes, came, slots, chosen):  # type: ignore[no-untyped-def]
    """Mark who goes of one node for so many slots."""
    have, which = slot_have[slots], len(there) - 1
    while which >= 0:
        if not goes[which, have]:
            which -= 1
            continue
        job = first[there[which]]
        while which >= 0 and first[there[which]] == job:
            chosen[there[which]] = True
            have = came[which, have]
            which -= 1
