"""The best node for a task, compiled: along an order of nodes, or by score.

Nodes are tried fullest first along one order per packing column, kept sorted by shifting the node
that changed. A shape whose scores differ between nodes is scored node by node. What room is and
what packing counts for is in `numerics.fit`.
"""

import numba
import numpy as np

from muster.numerics import gpu_shares
from muster.numerics.allocate_state import PACK_COLUMNS, AllocateState
from muster.numerics.axis import GPU
from muster.numerics.fit import (
    BINPACK,
    NO_ROOM,
    ROOM_LATER,
    ROOM_NOW,
    free_range,
    pack_score,
    room,
    whole_gpus,
)


def sort_nodes(state: AllocateState, which: int) -> None:
    """Make one order of nodes, and keep it from now on."""
    orders, live = state.orders, state.live
    column = orders.column[which]
    orders.free[which] = live.idle[:, column] + live.releasing[:, column]
    orders.order[which] = np.argsort(orders.free[which], kind="stable")
    orders.place[which, orders.order[which]] = np.arange(orders.order.shape[1])
    orders.is_kept[which] = True


@numba.njit(cache=True)
def resort_node(live, orders, n):  # type: ignore[no-untyped-def]
    """A node changed: shift it to where it belongs in the orders."""
    for which in range(PACK_COLUMNS):
        column = orders.column[which]
        now_free = live.idle[n, column] + live.releasing[n, column]
        free = orders.free[which]
        if not orders.is_kept[which] or now_free == free[n]:
            continue
        order, place = orders.order[which], orders.place[which]
        free[n] = now_free
        at = place[n]
        while at > 0 and _is_before(free, n, order[at - 1]):
            order[at] = order[at - 1]
            place[order[at]] = at
            at -= 1
        while at < len(order) - 1 and _is_before(free, order[at + 1], n):
            order[at] = order[at + 1]
            place[order[at]] = at
            at += 1
        order[at] = n
        place[n] = at


@numba.njit(cache=True)
def _is_before(free, left, right):  # type: ignore[no-untyped-def]
    return free[left] < free[right] or (free[left] == free[right] and left < right)


@numba.njit(cache=True)
def ordered_node(fixed, live, orders, which, shape, fits, availability):  # type: ignore[no-untyped-def]
    """The fullest node with room, first among those with room now: (node or -1, room). `fits`
    bool[N] are the nodes that plugins allow; [0]: all.
    """
    order = orders.order[which]
    waits_at, waits = -1, NO_ROOM
    need = fixed.request[shape, orders.column[which]]
    for at in range(_first_with(order, orders.free[which], need), len(order)):
        n = order[at]
        if len(fits) and not fits[n]:
            continue
        found = room(fixed, live, shape, n)[0]
        if found == ROOM_NOW or (found == ROOM_LATER and availability == 0.0):
            return n, found
        if found == ROOM_LATER and waits_at < 0:
            waits_at, waits = n, found
    return waits_at, waits


@numba.njit(cache=True)
def _first_with(order, free, need):  # type: ignore[no-untyped-def]
    """The first position in the order with at least `need` free."""
    low, high = 0, len(order)
    while low < high:
        middle = (low + high) // 2
        if free[order[middle]] < need:
            low = middle + 1
        else:
            high = middle
    return low


@numba.njit(cache=True)
def scored_node(fixed, live, shape, packing, column, fits, score, preferences, sizes):  # type: ignore[no-untyped-def]
    """The node with the highest sum of scores: (node or -1, room).

    `fits` bool[N] and `score` float64[N] are what plugins say; `sizes` bool[M] are the sizes of
    GPUs that the queue can pay for, [0]: all.
    """
    low, high = np.int64(0), np.int64(0)
    if packing == BINPACK:
        low, high = free_range(fixed, live, column, fits[:0])
    best, best_score, best_room = -1, -np.inf, NO_ROOM
    for n in range(len(fits)):
        if not fits[n] or (len(sizes) and not sizes[fixed.gpu_size[n]]):
            continue
        found, shared = room(fixed, live, shape, n)
        if found == NO_ROOM:
            continue
        total = score[n] + pack_score(fixed, live, packing, column, n, low, high)
        if found == ROOM_NOW:
            total += preferences.availability
        if shared > 0:
            total += preferences.sharing
        if total > best_score:
            best, best_score, best_room = n, total, found
    return best, best_room


@numba.njit(cache=True)
def chosen_shares(fixed, live, shape, node, device_slope):  # type: ignore[no-untyped-def]
    """(GPUs for a task that wants parts of some, whether all of them have room now)."""
    row, memory_mib = fixed.sharing[shape], fixed.gpu_memory_mib[node]
    need_mib = fixed.device_mib[row, fixed.gpu_size[node]]
    idle = live.idle[node, GPU]
    later = whole_gpus(idle + live.releasing[node, GPU])
    rows = gpu_shares.candidates(live.shares, node, need_mib, memory_mib)
    scores = gpu_shares.packing_scores(live.shares, rows, memory_mib, device_slope)
    return gpu_shares.choose(
        live.shares, rows, scores, whole_gpus(idle), later, need_mib, memory_mib, fixed.devices[row]
    )
