"""Whether a node has room for a task, how good it is, and what it lacks: one rule for everybody.

A node must have room counting what others leave (`later`); it starts the task at once if it also
has room without that (`now`). Axes: N nodes, R resources, K rows asked about.
"""

import numba
import numpy as np

from muster.numerics import gpu_shares
from muster.numerics.axis import GPU, GPU_UNIT, PODS

NO_ROOM, ROOM_LATER, ROOM_NOW = range(3)

NO_PACKING, BINPACK, SPREAD = range(3)
PACK_SCORE = 9.0
"""The most that packing counts for."""

NOTHING, NO_POD_SLOT, NO_SHARE = -1, -2, -3
"""What a node lacks where it is not a column: nothing; a slot for the pod that holds a shared GPU;
a GPU with enough left."""


@numba.njit(cache=True)
def room(fixed, live, shape, node):  # type: ignore[no-untyped-def]
    """NO_ROOM, ROOM_LATER or ROOM_NOW for a task of a shape, and how many GPUs that are shared
    already could take it.
    """
    idle, releasing, request = live.idle, live.releasing, fixed.request
    found = ROOM_NOW
    for column in range(request.shape[1]):
        need = request[shape, column]
        if need > 0:
            if idle[node, column] + releasing[node, column] < need:
                return NO_ROOM, 0
            if idle[node, column] < need:
                found = ROOM_LATER
    row = fixed.sharing[shape]
    if row < 0 or fixed.devices[row] == 0:
        return found, 0
    return _room_on_gpus(fixed, live, row, node, found)


@numba.njit(cache=True)
def _room_on_gpus(fixed, live, row, node, found):  # type: ignore[no-untyped-def]
    """The same for parts of GPUs: of those in use that fit, and of whole ones that could be opened,
    where GPUs are large enough at all. Opening one takes a second pod slot, for the pod that will
    hold the device.
    """
    devices, memory_mib = fixed.devices[row], fixed.gpu_memory_mib[node]
    if memory_mib < fixed.memory_mib[row]:
        return NO_ROOM, 0
    need_mib = fixed.device_mib[row, fixed.gpu_size[node]]
    shared = gpu_shares.tenancies(live.shares, node, need_mib, memory_mib, devices)
    idle, releasing = live.idle[node], live.releasing[node]
    if shared < devices and idle[PODS] + releasing[PODS] < 2:
        return NO_ROOM, shared
    if whole_gpus(idle[GPU] + releasing[GPU]) + shared < devices:
        return NO_ROOM, shared
    if whole_gpus(idle[GPU]) + shared < devices:
        found = ROOM_LATER
    return found, shared


@numba.njit(cache=True)
def whole_gpus(units):  # type: ignore[no-untyped-def]
    return max(units, 0) // GPU_UNIT


@numba.njit(cache=True)
def rooms(fixed, live, shape, rows):  # type: ignore[no-untyped-def]
    """`room` for many nodes: (room int64[K], GPUs that are shared already and could take it)."""
    found = np.empty(len(rows), dtype=np.int64)
    shared = np.empty(len(rows), dtype=np.int64)
    for at in range(len(rows)):
        found[at], shared[at] = room(fixed, live, shape, rows[at])
    return found, shared


@numba.njit(cache=True)
def has_room_later(fixed, live, shape, may_use):  # type: ignore[no-untyped-def]
    """Whether some node of `may_use` bool[N] has room, counting what others leave."""
    for node in range(len(may_use)):
        if may_use[node] and room(fixed, live, shape, node)[0] != NO_ROOM:
            return True
    return False


@numba.njit(cache=True)
def most_free_later(live, column, may_use):  # type: ignore[no-untyped-def]
    """The most of one resource that a node of `may_use` bool[N] has, counting what others leave; at
    least 0.
    """
    most = 0
    for node in range(len(may_use)):
        if may_use[node]:
            most = max(most, live.idle[node, column] + live.releasing[node, column])
    return most


# -- how good ----------------------------------------------------------------------------------


@numba.njit(cache=True)
def free_range(fixed, live, column, considered):  # type: ignore[no-untyped-def]
    """The least and the most that a considered node (bool[N]; [0]: all) which has the resource has
    free of it.
    """
    idle, releasing, allocatable = live.idle, live.releasing, fixed.allocatable
    low, high, is_first = np.int64(0), np.int64(0), True
    for node in range(len(idle)):
        if allocatable[node, column] > 0 and (len(considered) == 0 or considered[node]):
            free = idle[node, column] + releasing[node, column]
            low = free if is_first else min(low, free)
            high = free if is_first else max(high, free)
            is_first = False
    return low, high


@numba.njit(cache=True)
def pack_score(fixed, live, packing, column, node, low, high):  # type: ignore[no-untyped-def]
    """How well the node's fullness suits: full nodes up to PACK_SCORE, or empty ones up to 1.

    Nodes without the resource score 0, and all do when none has any of it free.
    """
    free = live.idle[node, column] + live.releasing[node, column]
    if packing == SPREAD:
        return free / max(fixed.allocatable[node, column], 1)
    if packing == NO_PACKING or high <= 0 or fixed.allocatable[node, column] <= 0:
        return 0.0
    return PACK_SCORE * (1.0 - (free - low) / (high - low)) if high > low else PACK_SCORE


@numba.njit(cache=True)
def pack_scores(fixed, live, packing, column, considered, rows):  # type: ignore[no-untyped-def]
    """`pack_score` for many nodes, compared with the considered ones bool[N]: float64[K]."""
    low, high = free_range(fixed, live, column, considered)
    scores = np.empty(len(rows))
    for at in range(len(rows)):
        scores[at] = pack_score(fixed, live, packing, column, rows[at], low, high)
    return scores


# -- what is missing ---------------------------------------------------------------------------


@numba.njit(cache=True)
def missing(fixed, live, shape, node):  # type: ignore[no-untyped-def]
    """The first column of which a node has too little, GPUs before all others; NO_POD_SLOT or
    NO_SHARE for parts of GPUs; NOTHING.
    """
    idle, releasing, request = live.idle, live.releasing, fixed.request
    if request[shape, GPU] > max(0, idle[node, GPU] + releasing[node, GPU]):
        return GPU
    for column in range(request.shape[1]):
        need = request[shape, column]
        if need > 0 and need > idle[node, column] + releasing[node, column]:
            return column
    row = fixed.sharing[shape]
    if row < 0 or fixed.devices[row] == 0 or room(fixed, live, shape, node)[0] != NO_ROOM:
        return NOTHING
    return NO_POD_SLOT if _lacks_only_a_slot(fixed, live, row, node) else NO_SHARE


@numba.njit(cache=True)
def _lacks_only_a_slot(fixed, live, row, node):  # type: ignore[no-untyped-def]
    """Whether there are GPUs to open, but no slot for the pod that would hold one."""
    devices, memory_mib = fixed.devices[row], fixed.gpu_memory_mib[node]
    need_mib = fixed.device_mib[row, fixed.gpu_size[node]]
    shared = gpu_shares.tenancies(live.shares, node, need_mib, memory_mib, devices)
    whole = whole_gpus(live.idle[node, GPU] + live.releasing[node, GPU])
    has_gpus = shared < devices and whole + shared >= devices
    return has_gpus and live.idle[node, PODS] + live.releasing[node, PODS] < 2


PLUGINS, OUTSIDE, SLOTS, SHARES, OTHERS, COLUMNS = range(6)
"""Where nodes are counted: refused by plugins, outside the domain, without a pod slot, without a
GPU share, for no reason that is known here; then by column."""
FACT_COLUMN, FACT_FREE, FACT_NODE, FACTS = range(4)


@numba.njit(cache=True)
def count_missing(fixed, live, shape, refused, within, counts, facts):  # type: ignore[no-untyped-def]
    """Why no node can take a task: how many lack what, `counts` int64[COLUMNS + R], and `facts`
    int64[FACTS]: what most of them lack (a column, or NO_SHARE), who has the most of it, and how
    much that is.

    `refused` bool[N] are the nodes that plugins refuse; `within` bool[N] ([0]: all) are those that
    were looked at.
    """
    for node in range(len(live.idle)):
        if len(within) and not within[node]:
            counts[OUTSIDE] += 1
        elif refused[node]:
            counts[PLUGINS] += 1
        else:
            lack = missing(fixed, live, shape, node)
            if lack >= 0:
                counts[COLUMNS + lack] += 1
            else:
                counts[
                    SLOTS if lack == NO_POD_SLOT else SHARES if lack == NO_SHARE else OTHERS
                ] += 1
    _find_evidence(fixed, live, shape, refused, within, counts, facts)


@numba.njit(cache=True)
def _find_evidence(fixed, live, shape, refused, within, counts, facts):  # type: ignore[no-untyped-def]
    column = NOTHING
    for each in range(len(counts) - COLUMNS):
        if counts[COLUMNS + each] > 0 and (
            column < 0 or counts[COLUMNS + each] > counts[COLUMNS + column]
        ):
            column = each
    row = fixed.sharing[shape]
    if column == NOTHING and row >= 0 and fixed.devices[row] > 0:
        column = NO_SHARE
    facts[FACT_COLUMN], facts[FACT_NODE], facts[FACT_FREE] = column, -1, 0
    for node in range(len(live.idle) if column != NOTHING else 0):
        if refused[node] or (len(within) and not within[node]):
            continue
        free = _free_of(fixed, live, row, column, node)
        if facts[FACT_NODE] < 0 or free > facts[FACT_FREE]:
            facts[FACT_FREE], facts[FACT_NODE] = free, node


@numba.njit(cache=True)
def _free_of(fixed, live, row, column, node):  # type: ignore[no-untyped-def]
    if column != NO_SHARE:
        return max(0, live.idle[node, column] + live.releasing[node, column])
    whole = whole_gpus(live.idle[node, GPU] + live.releasing[node, GPU])
    memory_mib = fixed.gpu_memory_mib[node]
    return gpu_shares.free_part(live.shares, node, whole, fixed.devices[row], memory_mib)
