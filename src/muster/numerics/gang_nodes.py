"""Equal tasks onto nodes one after another, by how full nodes are: compiled, for `engine.tiers`.

A node's score is what plugins say of it for the whole cycle, and Kubernetes' three measures of how
full it would be with one more task: least requested, most requested, balanced. Scores are kept by
shape; only nodes that changed are scored again. Axes: N nodes, R resources.
"""

import numba
import numpy as np

from muster.numerics import ledger as entries
from muster.numerics.axis import CPU, MEMORY
from muster.numerics.fit import ROOM_NOW, room
from muster.numerics.status import ALLOCATED

_FULL = 100.0
_NO_ROWS = np.zeros(0, dtype=np.int64)


@numba.njit(cache=True)
def fullness(idle, allocatable, request, node, weights):  # type: ignore[no-untyped-def]
    """The three measures, times `weights` float64[3]; each is 0 to 100 before that."""
    used = np.zeros(2)
    for at, column in enumerate((CPU, MEMORY)):
        there = allocatable[node, column]
        if there > 0:
            used[at] = (there - idle[node, column] + request[column]) / there
    least = most = 0.0
    for at in range(2):
        least += max(np.floor((1.0 - used[at]) * _FULL), 0.0) / 2.0
        most += max(np.floor(used[at] * _FULL), 0.0) / 2.0
    balanced = _FULL * (1.0 - abs(used[0] - used[1]) / 2.0)
    return weights[0] * least + weights[1] * most + weights[2] * balanced


@numba.njit(cache=True)
def fullness_of(ledger, shape, rows, weights):  # type: ignore[no-untyped-def]
    """`fullness` of many nodes: float64[len(rows)]."""
    scores = np.empty(len(rows))
    request = ledger.request[shape]
    for at in range(len(rows)):
        scores[at] = fullness(ledger.idle, ledger.allocatable, request, rows[at], weights)
    return scores


@numba.njit(cache=True)
def place_now(ledger, tasks, fits, static, weights, score, seen):  # type: ignore[no-untyped-def]
    """Start equal tasks on the best nodes that have room now: how many were placed.

    `fits` bool[N] and `static` float64[N] are what plugins say; `score` float64[N], -inf where
    there is no room, and `seen` int64[N], the versions of nodes that it is of, are the caller's.
    """
    idle, releasing = ledger.idle, ledger.releasing
    shape = ledger.shape[tasks[0]]
    request = ledger.request[shape]
    for node in range(len(score)):
        if seen[node] != ledger.node_version[node]:
            _score(ledger, request, node, fits, static, weights, score, seen)
    for found in range(len(tasks)):
        best = int(np.argmax(score))
        if score[best] == -np.inf or room(idle, releasing, request, best) != ROOM_NOW:
            return found
        entries.post(ledger, entries.ALLOCATE, tasks[found], best, ALLOCATED, _NO_ROWS)
        _score(ledger, request, best, fits, static, weights, score, seen)
    return len(tasks)


@numba.njit(cache=True)
def _score(ledger, request, node, fits, static, weights, score, seen):  # type: ignore[no-untyped-def]
    seen[node] = ledger.node_version[node]
    score[node] = -np.inf
    if fits[node] and room(ledger.idle, ledger.releasing, request, node) == ROOM_NOW:
        score[node] = static[node] + fullness(
            ledger.idle, ledger.allocatable, request, node, weights
        )
