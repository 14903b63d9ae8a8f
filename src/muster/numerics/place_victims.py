"""Evicted tasks, one after another, back to their places or to others, as far as there are some.

Nothing starts: all of them wait for what others leave. Axes: N nodes, V tasks, S shapes.
"""

from typing import NamedTuple

import numba
import numpy as np

from muster.numerics import gpu_shares
from muster.numerics import ledger as entries
from muster.numerics.allocate_state import preferences_handle
from muster.numerics.arrays import Bools, Floats, Ints
from muster.numerics.fit import LEAST_FRAGMENTATION
from muster.numerics.handles import handle_of
from muster.numerics.node_scores import sum_up
from muster.numerics.node_search import chosen_shares, scored_node
from muster.numerics.status import PIPELINED

_NO_ROWS = np.zeros(0, dtype=np.int64)
_ALL = np.zeros(0, dtype=np.bool_)


class VictimShapes(NamedTuple):
    """What nodes are for the shapes of the tasks."""

    fits: Bools  # [S, N]
    score: Floats  # [S, N]
    packing: Ints  # [S]
    column: Ints  # [S]: by which resource nodes are packed


VictimShapesHandle = handle_of(VictimShapes, __name__)


@numba.njit(cache=True, nogil=True)  # it may take long: others go on meanwhile
def place_again(ledger, tasks, rows, answers, wishes):  # type: ignore[no-untyped-def]
    """Post where each of `tasks` int64[V] goes; `rows` int64[V] are their rows in `answers`, a
    `VictimShapes`; `wishes` are `Preferences`. A shape that found no node is not tried again.
    """
    shapes, preferences = VictimShapesHandle(*answers), preferences_handle(wishes)
    is_full = np.zeros(len(shapes.column), dtype=np.bool_)
    for at in range(len(tasks)):
        task, row = tasks[at], rows[at]
        shape = ledger.shape[task]
        if is_full[row]:
            continue
        node = _best_node(ledger, shape, shapes, row, preferences)
        if node < 0:
            is_full[row] = True
            continue
        chosen = _NO_ROWS
        if ledger.sharing[shape] >= 0:
            chosen, _ = chosen_shares(ledger, shape, node, shapes.packing[row], preferences)
        if node == ledger.node[task] and can_stay(ledger, task, chosen):
            was = ledger.evicted_from[task]
            entries.post(ledger, entries.RESTORE, task, node, was, _NO_ROWS)
        else:
            entries.post(ledger, entries.PIPELINE, task, node, PIPELINED, chosen)


@numba.njit(cache=True)
def _best_node(ledger, shape, shapes, row, preferences):  # type: ignore[no-untyped-def]
    fits, score, packing = shapes.fits[row], shapes.score[row], shapes.packing[row]
    if packing != LEAST_FRAGMENTATION:
        column = shapes.column[row]
        return scored_node(ledger, shape, packing, column, fits, score, preferences, _ALL)[0]
    total, loss = np.empty(len(fits)), np.full(len(fits), np.nan)
    sum_up(ledger, shape, np.arange(len(fits)), fits, score, preferences, _ALL, loss, total)
    best = -1
    for node in range(len(total)):
        if total[node] > -np.inf and (best < 0 or total[node] > total[best]):
            best = node
    return best


@numba.njit(cache=True)
def can_stay(ledger, task, rows):  # type: ignore[no-untyped-def]
    """Whether an evicted task that would get these shared GPUs of its node has them already. One
    that it would open is as good as one of its own that is empty without it.
    """
    opened = moved = 0
    for at in range(len(rows)):
        opened += rows[at] == gpu_shares.OPEN
        own = gpu_shares.held(ledger, task, at)
        if (rows == own).any():
            continue
        if own < 0 or not gpu_shares.is_emptied(ledger, own):
            return False
        moved += 1
    return opened == moved
