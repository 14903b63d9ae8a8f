"""The best node for a task, compiled: along an order of nodes, or by score.

Nodes are tried fullest first along one order per packing column, kept sorted by shifting the node
that changed. A shape whose scores differ between nodes is scored node by node. What room is and
what packing counts for is in `numerics.fit`.
"""

import numba
import numpy as np

from muster.numerics import gpu_shares
from muster.numerics.allocate_state import BY_GPU, PACK_COLUMNS, Orders
from muster.numerics.axis import GPU_UNIT
from muster.numerics.fit import (
    LEAST_FRAGMENTATION,
    NO_ROOM,
    ROOM_LATER,
    ROOM_NOW,
    free_range,
    pack_score,
    room,
    room_on_gpus,
    shared_gpus,
    wanted_parts,
)
from muster.numerics.fragmentation import device_scores
from muster.numerics.ledger import LedgerColumns


def sort_nodes(columns: LedgerColumns, orders: Orders, which: int) -> None:
    """Make one order of nodes, and keep it from now on."""
    column = orders.column[which]
    orders.free[which] = columns.idle[:, column] + columns.releasing[:, column]
    orders.order[which] = np.argsort(orders.free[which], kind="stable")
    orders.place[which, orders.order[which]] = np.arange(orders.order.shape[1])
    orders.is_kept[which] = True


@numba.njit(cache=True)
def resort_node(ledger, orders, n):  # type: ignore[no-untyped-def]
    """A node changed: shift it to where it belongs in the orders."""
    for which in range(PACK_COLUMNS):
        column = orders.column[which]
        now_free = ledger.idle[n, column] + ledger.releasing[n, column]
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
def ordered_node(ledger, orders, which, shape, fits, availability):  # type: ignore[no-untyped-def]
    """The fullest node with room, first among those with room now: (node or -1, room). `fits`
    bool[N] are the nodes that plugins allow.
    """
    order, idle, releasing = orders.order[which], ledger.idle, ledger.releasing
    request = ledger.request[shape]
    waits_at = -1
    first = _first_with(order, orders.free[which], request[orders.column[which]])
    for at in range(first, len(order)):
        n = order[at]
        if not fits[n]:
            continue
        found = room(idle, releasing, request, n)
        if found == ROOM_NOW or (found == ROOM_LATER and availability == 0.0):
            return n, found
        if found == ROOM_LATER and waits_at < 0:
            waits_at = n
    return waits_at, ROOM_LATER if waits_at >= 0 else NO_ROOM


@numba.njit(cache=True)
def ordered_gpu_node(ledger, orders, shape, fits, preferences, sizes):  # type: ignore[no-untyped-def]
    """Likewise for a shape that wants parts of GPUs: where a shared one has room, and where there
    is room now, before all others, and the fullest of these.

    `sizes` bool[M] are the sizes of GPUs that the queue can pay for, [0]: all.
    """
    order, free = orders.order[BY_GPU], orders.free[BY_GPU]
    idle, releasing, request = ledger.idle, ledger.releasing, ledger.request[shape]
    gpu_size, free_mib = ledger.gpu_size, ledger.share_free_mib
    devices, need_mib = wanted_parts(ledger, shape)
    opened = devices * GPU_UNIT
    best, best_value, best_room = -1, -1.0, NO_ROOM
    for n in order:
        need = need_mib[gpu_size[n]]
        is_shared = free_mib[n] >= need
        if not is_shared and (free[n] < opened or best_value >= preferences.availability):
            continue
        if not fits[n] or (len(sizes) and not sizes[gpu_size[n]]):
            continue
        found = room(idle, releasing, request, n)
        if found == NO_ROOM:
            continue
        shared = shared_gpus(ledger, n, devices, need, free_mib[n])
        found = room_on_gpus(idle, releasing, n, found, shared, devices)
        if found == NO_ROOM:
            continue
        value = preferences.availability * (found == ROOM_NOW) + preferences.sharing * (shared > 0)
        if value > best_value:
            best, best_value, best_room = n, value, found
            if value == preferences.availability + preferences.sharing:
                break
    return best, best_room


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
def scored_node(ledger, shape, packing, column, fits, score, preferences, sizes):  # type: ignore[no-untyped-def]
    """The node with the highest sum of scores: (node or -1, room).

    `fits` bool[N] and `score` float64[N] are what plugins say; `sizes` bool[M] are the sizes of
    GPUs that the queue can pay for, [0]: all.
    """
    idle, releasing, allocatable = ledger.idle, ledger.releasing, ledger.allocatable
    request, gpu_size, free_mib = ledger.request[shape], ledger.gpu_size, ledger.share_free_mib
    devices, need_mib = wanted_parts(ledger, shape)
    low, high = free_range(ledger, column, fits[:0])
    best, best_score, best_room, shared = -1, -np.inf, NO_ROOM, 0
    for n in range(len(fits)):
        if not fits[n] or (len(sizes) and not sizes[gpu_size[n]]):
            continue
        found = room(idle, releasing, request, n)
        if devices and found != NO_ROOM:
            need = need_mib[gpu_size[n]]
            shared = shared_gpus(ledger, n, devices, need, free_mib[n])
            found = room_on_gpus(idle, releasing, n, found, shared, devices)
        if found == NO_ROOM:
            continue
        free = idle[n, column] + releasing[n, column]
        total = score[n] + pack_score(packing, free, allocatable[n, column], low, high)
        total += preferences.availability * (found == ROOM_NOW)
        total += preferences.sharing * (shared > 0)
        if total > best_score:
            best, best_score, best_room = n, total, found
    return best, best_room


@numba.njit(cache=True)
def chosen_shares(ledger, shape, node, packing, preferences):  # type: ignore[no-untyped-def]
    """(GPUs for a task that wants parts of some, whether all of them have room now)."""
    row = ledger.sharing[shape]
    need_mib = ledger.device_mib[row, ledger.gpu_size[node]]
    rows = gpu_shares.candidates(ledger, node, need_mib)
    if packing == LEAST_FRAGMENTATION:
        scores = device_scores(ledger, preferences.mix, shape, node, rows, need_mib)
    else:
        scores = gpu_shares.packing_scores(ledger, rows, preferences.device_slope)
    return gpu_shares.choose(ledger, node, rows, scores, need_mib, ledger.devices[row])
