"""Whether a node has room for a task, how good it is, and what it lacks: one rule for everybody.

A node must have room counting what others leave (`later`); it starts the task at once if it also
has room without that (`now`). Axes: N nodes, R resources, K rows asked about.
"""

import numba
import numpy as np

from muster.numerics import gpu_shares
from muster.numerics.axis import GPU, GPU_UNIT, PODS
from muster.numerics.gpu_shares import TOO_LARGE, whole_gpus

NO_ROOM, ROOM_LATER, ROOM_NOW = range(3)

MANY = (1 << 31) - 1
"""Slots on a node where nothing is asked for: more than there are tasks, and few enough to add."""

NO_PACKING, BINPACK, SPREAD, LEAST_FRAGMENTATION = range(4)
PACK_SCORE = 9.0
"""The most that packing counts for."""

NOTHING, NO_POD_SLOT, NO_SHARE = -1, -2, -3
"""What a node lacks where it is not a column: nothing; a slot for the pod that holds a shared GPU;
a GPU with enough left."""


@numba.njit(cache=True)
def room(idle, releasing, request, node):  # type: ignore[no-untyped-def]
    """NO_ROOM, ROOM_LATER or ROOM_NOW for a request int64[R] of whole resources."""
    found = ROOM_NOW
    for column in range(len(request)):
        need = request[column]
        if need > 0:
            if idle[node, column] + releasing[node, column] < need:
                return NO_ROOM
            if idle[node, column] < need:
                found = ROOM_LATER
    return found


@numba.njit(cache=True)
def slots(free, request, columns, node):  # type: ignore[no-untyped-def]
    """How many requests for whole resources fit into what a node has free int64[N, R]; `columns`
    int64 are those that are asked for, and MANY fit where that is none.
    """
    fits = np.int64(MANY)
    for at in range(len(columns)):
        fits = min(fits, free[node, columns[at]] // request[columns[at]])
    return max(fits, 0)


@numba.njit(cache=True)
def all_slots(free, request, may_use):  # type: ignore[no-untyped-def]
    """`slots` on each node, none where it may not be used: int64[N]."""
    columns = np.flatnonzero(request)
    found = np.zeros(len(free), dtype=np.int64)
    for node in range(len(free)):
        if may_use[node]:
            found[node] = slots(free, request, columns, node)
    return found


@numba.njit(cache=True)
def has_slot(free, request, columns, node):  # type: ignore[no-untyped-def]
    """Whether at least one request fits."""
    at = 0
    while at < len(columns) and free[node, columns[at]] >= request[columns[at]]:
        at += 1
    return at == len(columns)


@numba.njit(cache=True)
def wanted_parts(ledger, shape):  # type: ignore[no-untyped-def]
    """Of how many GPUs a shape wants a part that its claims do not choose for it, and what a GPU of
    each size must have left for that: int64[M], [0] where it wants none.
    """
    row = ledger.sharing[shape]
    if row < 0:
        return np.int64(0), ledger.gpu_size[:0]
    return ledger.devices[row], ledger.need_mib[row]


@numba.njit(cache=True)
def shared_gpus(ledger, node, devices, need_mib, free_mib):  # type: ignore[no-untyped-def]
    """How many GPUs that are shared already could take one more tenant, counted up to as many as it
    wants; -1 where GPUs are too small for it. `free_mib` is the most that one of them has left.
    """
    if need_mib == TOO_LARGE:
        return -1
    if free_mib < need_mib:
        return 0
    return 1 if devices == 1 else gpu_shares.tenancies(ledger, node, need_mib, devices)


@numba.njit(cache=True)
def room_on_gpus(idle, releasing, node, found, shared, devices):  # type: ignore[no-untyped-def]
    """`found` corrected for parts of GPUs: of those in use that fit, and of whole ones that could
    be opened. Opening one takes a second pod slot, for the pod that will hold the device.
    """
    if shared < 0:
        return NO_ROOM
    if shared >= devices:
        return found
    opened = (devices - shared) * GPU_UNIT
    if idle[node, PODS] + releasing[node, PODS] < 2:
        return NO_ROOM
    if idle[node, GPU] + releasing[node, GPU] < opened:
        return NO_ROOM
    return ROOM_LATER if idle[node, GPU] < opened else found


@numba.njit(cache=True)
def rooms(ledger, shape, rows):  # type: ignore[no-untyped-def]
    """(room int64[K], GPUs that are shared already and could take a task of the shape int64[K])."""
    found = np.empty(len(rows), dtype=np.int64)
    shared = np.zeros(len(rows), dtype=np.int64)
    _whole_rooms(ledger.idle, ledger.releasing, ledger.request[shape], rows, found)
    devices, _ = wanted_parts(ledger, shape)
    if devices:
        _shared_rooms(ledger, shape, rows, found, shared)
    return found, shared


# A loop over all nodes is a kernel of its own, on few arrays: where it also calls what takes the
# ledger, numba counts references at every node, and that takes longer than to look at it.


@numba.njit(cache=True)
def _whole_rooms(idle, releasing, request, rows, found):  # type: ignore[no-untyped-def]
    for at in range(len(rows)):
        found[at] = room(idle, releasing, request, rows[at])


@numba.njit(cache=True)
def _shared_rooms(ledger, shape, rows, found, shared):  # type: ignore[no-untyped-def]
    """`found` corrected for parts of GPUs, where there was room; how many are `shared`."""
    idle, releasing = ledger.idle, ledger.releasing
    gpu_size, free_mib = ledger.gpu_size, ledger.share_free_mib
    devices, need_mib = wanted_parts(ledger, shape)
    if devices > 1:
        for at in range(len(rows)):
            if found[at] != NO_ROOM:
                node = rows[at]
                need = need_mib[gpu_size[node]]
                shared[at] = shared_gpus(ledger, node, devices, need, free_mib[node])
    else:
        _shared_ones(gpu_size, free_mib, need_mib, rows, shared)
    _rooms_on_gpus(idle, releasing, rows, found, shared, devices)


@numba.njit(cache=True)
def _shared_ones(gpu_size, free_mib, need_mib, rows, shared):  # type: ignore[no-untyped-def]
    """`shared_gpus` for tasks that want a part of one."""
    for at in range(len(rows)):
        need = need_mib[gpu_size[rows[at]]]
        shared[at] = -1 if need == TOO_LARGE else np.int64(free_mib[rows[at]] >= need)


@numba.njit(cache=True)
def _rooms_on_gpus(idle, releasing, rows, found, shared, devices):  # type: ignore[no-untyped-def]
    for at in range(len(rows)):
        if found[at] != NO_ROOM:
            found[at] = room_on_gpus(idle, releasing, rows[at], found[at], shared[at], devices)


@numba.njit(cache=True)
def has_room_later(ledger, shape, may_use):  # type: ignore[no-untyped-def]
    """Whether some node of `may_use` bool[N] has room, counting what others leave."""
    idle, releasing, request = ledger.idle, ledger.releasing, ledger.request[shape]
    devices, need_mib = wanted_parts(ledger, shape)
    gpu_size, free_mib = ledger.gpu_size, ledger.share_free_mib
    for node in range(len(may_use)):
        if may_use[node]:
            found = room(idle, releasing, request, node)
            if devices and found != NO_ROOM:
                need = need_mib[gpu_size[node]]
                shared = shared_gpus(ledger, node, devices, need, free_mib[node])
                found = room_on_gpus(idle, releasing, node, found, shared, devices)
            if found != NO_ROOM:
                return True
    return False


@numba.njit(cache=True)
def empty_places(ledger, shape, may_use):  # type: ignore[no-untyped-def]
    """How many tasks that want parts of GPUs each node of `may_use` bool[N] would take at most if
    it were empty: int64[N].
    """
    allocatable, gpu_size = ledger.allocatable, ledger.gpu_size
    devices, need_mib = wanted_parts(ledger, shape)
    found = all_slots(allocatable, ledger.request[shape], may_use)
    for node in np.flatnonzero(found if devices else found[:0]):
        gpus, need = gpu_shares.whole_gpus(allocatable[node, GPU]), need_mib[gpu_size[node]]
        if need == TOO_LARGE or gpus < devices:
            found[node] = 0
        elif need > 0:
            parts = gpus * (ledger.gpu_memory_mib[node] // need)
            found[node] = min(found[node], parts // devices)
    return found


# -- how good ----------------------------------------------------------------------------------


@numba.njit(cache=True)
def free_range(ledger, column, considered):  # type: ignore[no-untyped-def]
    """The least and the most that a considered node (bool[N]; [0]: all) which has the resource has
    free of it.
    """
    idle, releasing, allocatable = ledger.idle, ledger.releasing, ledger.allocatable
    low, high, is_first = np.int64(0), np.int64(0), True
    for node in range(len(idle)):
        if allocatable[node, column] > 0 and (len(considered) == 0 or considered[node]):
            free = idle[node, column] + releasing[node, column]
            low = free if is_first else min(low, free)
            high = free if is_first else max(high, free)
            is_first = False
    return low, high


@numba.njit(cache=True)
def pack_score(packing, free, allocatable, low, high):  # type: ignore[no-untyped-def]
    """How well it suits that so much is free of what a node has: full nodes up to PACK_SCORE, or
    empty ones up to 1.

    Nodes without the resource score 0, and all do when none has any of it free.
    """
    if packing == SPREAD:
        return free / max(allocatable, 1)
    if packing == NO_PACKING or high <= 0 or allocatable <= 0:
        return 0.0
    return PACK_SCORE * (1.0 - (free - low) / (high - low)) if high > low else PACK_SCORE


@numba.njit(cache=True)
def pack_scores(ledger, packing, column, considered, rows):  # type: ignore[no-untyped-def]
    """`pack_score` for many nodes, compared with the considered ones bool[N]: float64[K]."""
    idle, releasing, allocatable = ledger.idle, ledger.releasing, ledger.allocatable
    low, high = free_range(ledger, column, considered)
    scores = np.empty(len(rows))
    for at in range(len(rows)):
        free = idle[rows[at], column] + releasing[rows[at], column]
        scores[at] = pack_score(packing, free, allocatable[rows[at], column], low, high)
    return scores


# -- what is missing ---------------------------------------------------------------------------


@numba.njit(cache=True)
def missing(idle, releasing, request, node):  # type: ignore[no-untyped-def]
    """The first column of which a node has too little, GPUs before all others; NOTHING."""
    if request[GPU] > max(0, idle[node, GPU] + releasing[node, GPU]):
        return GPU
    for column in range(len(request)):
        free = idle[node, column] + releasing[node, column]
        if request[column] > 0 and request[column] > free:
            return column
    return NOTHING


@numba.njit(cache=True)
def missing_gpus(idle, releasing, node, shared, devices):  # type: ignore[no-untyped-def]
    """What a node lacks of GPUs for parts of them: NO_POD_SLOT, NO_SHARE or NOTHING."""
    if room_on_gpus(idle, releasing, node, ROOM_NOW, shared, devices) != NO_ROOM:
        return NOTHING
    whole = whole_gpus(idle[node, GPU] + releasing[node, GPU])
    has_gpus = 0 <= shared < devices and whole + shared >= devices
    return NO_POD_SLOT if has_gpus else NO_SHARE


PLUGINS, OUTSIDE, SLOTS, SHARES, OTHERS, COLUMNS = range(6)
"""Where nodes are counted: refused by plugins, outside the domain, without a pod slot, without a
GPU share, for no reason that is known here; then by column."""
FACT_COLUMN, FACT_FREE, FACT_NODE, FACT_TOTAL, FACTS = range(5)


@numba.njit(cache=True)
def count_missing(ledger, shape, refused, within, counts, facts):  # type: ignore[no-untyped-def]
    """Why no node can take a task: how many lack what, `counts` int64[COLUMNS + R], and `facts`
    int64[FACTS]: what most of them lack (a column, or NO_SHARE), who has the most of it, how much
    that is (of a share: as `gpu_shares.free_for` has it), and how much all of them have.

    `refused` bool[N] are the nodes that plugins refuse; `within` bool[N] ([0]: all) are those that
    were looked at.
    """
    idle, releasing, request = ledger.idle, ledger.releasing, ledger.request[shape]
    devices, need_mib = wanted_parts(ledger, shape)
    gpu_size, free_mib = ledger.gpu_size, ledger.share_free_mib
    for node in range(len(refused)):
        if len(within) and not within[node]:
            counts[OUTSIDE] += 1
        elif refused[node]:
            counts[PLUGINS] += 1
        else:
            lack = missing(idle, releasing, request, node)
            if devices and lack == NOTHING:
                need = need_mib[gpu_size[node]]
                shared = shared_gpus(ledger, node, devices, need, free_mib[node])
                lack = missing_gpus(idle, releasing, node, shared, devices)
            counts[_place_of(lack)] += 1
    _find_evidence(ledger, devices, need_mib, refused, within, counts, facts)


@numba.njit(cache=True)
def _place_of(lack):  # type: ignore[no-untyped-def]
    if lack >= 0:
        return COLUMNS + lack
    if lack == NO_POD_SLOT:
        return SLOTS
    return SHARES if lack == NO_SHARE else OTHERS


@numba.njit(cache=True)
def _find_evidence(ledger, devices, need_mib, refused, within, counts, facts):  # type: ignore[no-untyped-def]
    column = NOTHING
    for each in range(len(counts) - COLUMNS):
        if counts[COLUMNS + each] > 0 and (
            column < 0 or counts[COLUMNS + each] > counts[COLUMNS + column]
        ):
            column = each
    if column == NOTHING and devices:
        column = NO_SHARE
    facts[FACT_COLUMN], facts[FACT_NODE], facts[FACT_FREE] = column, -1, 0
    facts[FACT_TOTAL] = 0
    idle, releasing = ledger.idle, ledger.releasing
    for node in range(len(refused) if column != NOTHING else 0):
        if refused[node] or (len(within) and not within[node]):
            continue
        if column == NO_SHARE:
            need = need_mib[ledger.gpu_size[node]]
            free = gpu_shares.free_for(ledger, node, devices, need)
        else:
            free = max(0, idle[node, column] + releasing[node, column])
            facts[FACT_TOTAL] += free
        if facts[FACT_NODE] < 0 or free > facts[FACT_FREE]:
            facts[FACT_FREE], facts[FACT_NODE] = free, node
