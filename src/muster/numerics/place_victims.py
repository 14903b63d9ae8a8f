"""One waiting task after another to the best node for it, counting what others leave.

What `engine.node_choice` says about tasks that want whole resources and whose node answers hold for
the whole cycle, for many tasks at once. Axes: N nodes, R resources, V tasks, S shapes.
"""

from typing import NamedTuple

import numba
import numpy as np

from muster.numerics.arrays import Bools, Floats, Ints
from muster.numerics.fit import feasible, fullness

NO_PACKING, BINPACK, SPREAD = 0, 1, 2


class Nodes(NamedTuple):
    """What nodes have. `releasing` is changed."""

    idle: Ints  # [N, R]
    releasing: Ints  # [N, R]
    allocatable: Ints  # [N, R]


class Shapes(NamedTuple):
    """What tasks want, and what nodes are for them."""

    request: Ints  # [S, R]
    fits: Bools  # [S, N]
    score: Floats  # [S, N]
    packing: Ints  # [S]: NO_PACKING, BINPACK or SPREAD
    column: Ints  # [S]: by which resource nodes are packed


@numba.njit(cache=True)
def best_nodes(nodes, shapes, shape, availability):  # type: ignore[no-untyped-def]
    """The node of each task, int64[V], -1 where none has room; `shape` int64[V] in their order.

    `availability` is how much better a node is that need not wait for what others leave.
    """
    idle, releasing, allocatable = nodes.idle, nodes.releasing, nodes.allocatable
    count = len(idle)
    everywhere = np.arange(count)
    considered = np.ones(count, dtype=np.bool_)
    is_full = np.zeros(len(shapes.column), dtype=np.bool_)
    chosen = np.full(len(shape), -1, dtype=np.int64)
    for at in range(len(shape)):
        row = shape[at]
        if is_full[row]:
            continue
        request, column = shapes.request[row], shapes.column[row]
        later, now = feasible(idle, releasing, request, everywhere)
        pack = np.zeros(count)
        if shapes.packing[row] == BINPACK:
            pack = fullness(idle, releasing, allocatable, column, considered, everywhere)
        elif shapes.packing[row] == SPREAD:
            free = idle[:, column] + releasing[:, column]
            pack = free / np.maximum(allocatable[:, column], 1)
        best, most = -1, -np.inf
        for node in range(count):
            if later[node] and shapes.fits[row, node]:
                score = shapes.score[row, node] + pack[node] + availability * now[node]
                if score > most:
                    best, most = node, score
        chosen[at] = best
        is_full[row] = best < 0
        for each in range(len(request)):
            if best >= 0 and allocatable[best, each] > 0:
                releasing[best, each] -= request[each]
    return chosen
