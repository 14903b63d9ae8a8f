"""The best node for a shape, compiled: along an order of nodes, or by score.

Nodes are tried fullest first along one order per packing column, kept sorted by shifting the node
that changed. A shape whose scores differ between nodes is scored node by node. A node must have
room counting what others leave (`later`) and then, to start a task at once, without that (`now`).
"""

import numba
import numpy as np

from muster.numerics.allocate_state import (
    NO_ROOM,
    PACK_COLUMNS,
    ROOM_LATER,
    ROOM_NOW,
    UNKNOWN,
    AllocateState,
)
from muster.numerics.fit import PACK_SCORE


def sort_nodes(state: AllocateState, which: int) -> None:
    """Make one order of nodes, and keep it from now on."""
    orders, nodes = state.orders, state.nodes
    column = orders.column[which]
    orders.free[which] = nodes.idle[:, column] + nodes.releasing[:, column]
    orders.order[which] = np.argsort(orders.free[which], kind="stable")
    orders.place[which, orders.order[which]] = np.arange(orders.order.shape[1])
    orders.is_kept[which] = True


@numba.njit(cache=True)
def resort_node(nodes, orders, n):  # type: ignore[no-untyped-def]
    """A node changed: shift it to where it belongs in the orders."""
    for which in range(PACK_COLUMNS):
        column = orders.column[which]
        now_free = nodes.idle[n, column] + nodes.releasing[n, column]
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
def ordered_node(nodes, shapes, answers, orders, shape):  # type: ignore[no-untyped-def]
    """The fullest node with room, first among those with room now: (node or -1, room)."""
    which, row, request = shapes.pack[shape], shapes.answer_row[shape], shapes.request[shape]
    order = orders.order[which]
    is_known = shapes.state[shape] != UNKNOWN
    waits_at, waits = -1, NO_ROOM
    first = _first_with(order, orders.free[which], request[orders.column[which]])
    for at in range(first, len(order)):
        n = order[at]
        if is_known and not answers.fits[row, n]:
            continue
        room = _room(nodes, request, n)
        if room == ROOM_NOW or (room == ROOM_LATER and answers.availability[0] == 0.0):
            return n, room
        if room == ROOM_LATER and waits_at < 0:
            waits_at, waits = n, room
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
def scored_node(nodes, shapes, answers, columns, shape):  # type: ignore[no-untyped-def]
    """The node with the highest sum of scores: (node or -1, room)."""
    row, request = shapes.answer_row[shape], shapes.request[shape]
    column = columns[shapes.pack[shape]] if shapes.pack[shape] >= 0 else -1
    low, high = _free_range(nodes, column)
    best, best_score, best_room = -1, -np.inf, NO_ROOM
    for n in range(nodes.idle.shape[0]):
        if not answers.fits[row, n]:
            continue
        room = _room(nodes, request, n)
        if room == NO_ROOM:
            continue
        score = answers.score[row, n] + _pack_score(nodes, column, n, low, high)
        if room == ROOM_NOW:
            score += answers.availability[0]
        if score > best_score:
            best, best_score, best_room = n, score, room
    return best, best_room


@numba.njit(cache=True)
def _free_range(nodes, column):  # type: ignore[no-untyped-def]
    """The least and the most that a node which has the resource has free of it."""
    low, high = np.int64(0), np.int64(0)
    is_first = True
    for n in range(nodes.idle.shape[0] if column >= 0 else 0):
        if nodes.allocatable[n, column] > 0:
            free = nodes.idle[n, column] + nodes.releasing[n, column]
            low = free if is_first else min(low, free)
            high = free if is_first else max(high, free)
            is_first = False
    return low, high


@numba.njit(cache=True)
def _pack_score(nodes, column, n, low, high):  # type: ignore[no-untyped-def]
    if column < 0 or high <= 0 or nodes.allocatable[n, column] <= 0:
        return 0.0
    if high == low:
        return PACK_SCORE
    free = nodes.idle[n, column] + nodes.releasing[n, column]
    return PACK_SCORE * (1.0 - (free - low) / (high - low))


@numba.njit(cache=True)
def _room(nodes, request, n):  # type: ignore[no-untyped-def]
    """NO_ROOM, ROOM_LATER or ROOM_NOW."""
    room = ROOM_NOW
    for r in range(len(request)):
        if request[r] > 0:
            if nodes.idle[n, r] + nodes.releasing[n, r] < request[r]:
                return NO_ROOM
            if nodes.idle[n, r] < request[r]:
                room = ROOM_LATER
    return room
