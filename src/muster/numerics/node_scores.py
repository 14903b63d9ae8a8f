"""The node with the best sum of scores, found again at the cost of what changed since.

Sums are kept for each shape. A change of a node is noted once (`note_change`) and looked at by
those who ask next (`best_node`). More shapes than there are rows share them, one after another.
"""

import numba
import numpy as np

from muster.numerics.fit import (
    NO_ROOM,
    PACK_SCORE,
    ROOM_NOW,
    room,
    room_on_gpus,
    rooms,
    shared_gpus,
    wanted_parts,
)
from muster.numerics.fragmentation import MOST_PARTS, places, score_of, wanted

BLOCK = 64
"""Nodes of a block."""


@numba.njit(cache=True)
def note_change(scores, node):  # type: ignore[no-untyped-def]
    """Something on a node changed."""
    if len(scores.owner) == 0:
        return
    scores.loss[node] = np.nan
    if scores.size[0] == len(scores.changed):
        scores.owner[:] = -1
        scores.size[0] = 0
    scores.changed[scores.size[0]] = node
    scores.size[0] += 1


@numba.njit(cache=True)
def best_node(ledger, scores, shape, fits, score, preferences, sizes):  # type: ignore[no-untyped-def]
    """The node that is best for a task by loss and what plugins say: (node or -1, room).

    `fits` bool[N] and `score` float64[N] are what plugins say; `sizes` bool[M] are the sizes of
    GPUs that the queue can pay for, [0]: all.
    """
    row = scores.row[shape]
    total, best = scores.total[row], scores.best[row]
    if scores.owner[row] != shape or len(sizes):
        nodes = np.arange(len(total))
        sum_up(ledger, shape, nodes, fits, score, preferences, sizes, scores.loss, total)
        for block in range(len(best)):
            _find_best(total, best, block)
        scores.owner[row] = -1 if len(sizes) else shape
    else:
        nodes = scores.changed[scores.seen[row] : scores.size[0]]
        sum_up(ledger, shape, nodes, fits, score, preferences, sizes, scores.loss, total)
        for at in range(len(nodes)):
            _find_best(total, best, nodes[at] // BLOCK)
    scores.seen[row] = scores.size[0]
    found = -1
    for block in range(len(best)):
        if found < 0 or total[best[block]] > total[found]:
            found = best[block]
    if found < 0 or total[found] == -np.inf:
        return -1, NO_ROOM
    devices, need_mib = wanted_parts(ledger, shape)
    return found, _room_of(
        ledger, ledger.idle, ledger.releasing, ledger.request[shape], ledger.gpu_size,
        ledger.share_free_mib, devices, need_mib, found,
    )  # fmt: skip


@numba.njit(cache=True)
def _find_best(total, best, block):  # type: ignore[no-untyped-def]
    first = block * BLOCK
    found = first
    for node in range(first + 1, min(first + BLOCK, len(total))):
        if total[node] > total[found]:
            found = node
    best[block] = found


@numba.njit(cache=True)
def sum_up(ledger, shape, nodes, fits, score, preferences, sizes, loss, total):  # type: ignore[no-untyped-def]
    """Sums of scores of nodes into `total` float64[N], -inf where there is no room; `loss`
    float64[N] as in `score_of`.
    """
    if len(nodes) > BLOCK:
        _sum_up_many(ledger, shape, nodes, fits, score, preferences, sizes, loss, total)
        return
    idle, releasing, request = ledger.idle, ledger.releasing, ledger.request[shape]
    gpu_size, free_mib = ledger.gpu_size, ledger.share_free_mib
    devices, need_mib = wanted_parts(ledger, shape)
    columns, mix, want = places(ledger), preferences.mix, wanted(ledger, shape)
    availability = preferences.availability
    parts = np.zeros(MOST_PARTS + 1, dtype=np.int64)
    for node in nodes:
        total[node] = -np.inf
        if not fits[node] or (len(sizes) > 0 and not sizes[gpu_size[node]]):
            continue
        found = _room_of(
            ledger, idle, releasing, request, gpu_size, free_mib, devices, need_mib, node
        )
        if found != NO_ROOM:
            good = score_of(columns, mix, want, node, loss, parts)
            total[node] = score[node] + PACK_SCORE * good
            total[node] += availability * (found == ROOM_NOW)


@numba.njit(cache=True)
def _sum_up_many(ledger, shape, nodes, fits, score, preferences, sizes, loss, total):  # type: ignore[no-untyped-def]
    """The same, with room looked for on all nodes at once: for few, that takes longer."""
    rows = _suitable(nodes, fits, ledger.gpu_size, sizes)
    found, _ = rooms(ledger, shape, rows)
    for node in nodes:
        total[node] = -np.inf
    columns, mix, want = places(ledger), preferences.mix, wanted(ledger, shape)
    availability = preferences.availability
    parts = np.zeros(MOST_PARTS + 1, dtype=np.int64)
    for at in range(len(rows)):
        if found[at] != NO_ROOM:
            node = rows[at]
            good = score_of(columns, mix, want, node, loss, parts)
            total[node] = score[node] + PACK_SCORE * good
            total[node] += availability * (found[at] == ROOM_NOW)


@numba.njit(cache=True)
def _suitable(nodes, fits, gpu_size, sizes):  # type: ignore[no-untyped-def]
    """Those of `nodes` that plugins allow and that have GPUs of a size that can be paid for."""
    count = 0
    rows = np.empty(len(nodes), dtype=np.int64)
    for at in range(len(nodes)):
        node = nodes[at]
        if fits[node] and (len(sizes) == 0 or sizes[gpu_size[node]]):
            rows[count] = node
            count += 1
    return rows[:count]


@numba.njit(cache=True)
def _room_of(ledger, idle, releasing, request, gpu_size, free_mib, devices, need_mib, node):  # type: ignore[no-untyped-def]
    """What room a node has for a task. The columns are those of the ledger: who asks for many nodes
    takes them out of it once.
    """
    found = room(idle, releasing, request, node)
    if devices and found != NO_ROOM:
        need = need_mib[gpu_size[node]]
        shared = shared_gpus(ledger, node, devices, need, free_mib[node])
        found = room_on_gpus(idle, releasing, node, found, shared, devices)
    return found
