"""How many free GPUs the tasks that are usual here could not use, and where one more costs least.

The measure is that of "Beware of Fragmentation" (USENIX ATC 2023): of a node's free GPUs, those
that a task of some kind cannot use are lost to that kind (all of them, where it does not fit), and
a node's loss is the mean over the mix of kinds. A task goes where the loss grows least. Losses that
are nearly equal count as equal, the more so the fewer tasks the mix rests on; then the node that is
left with the fewest GPUs and the least CPU is taken. Work without GPUs goes where GPUs are already
taken.

The mix is kept as running sums over amounts of CPU and GPU, so a node costs a few look-ups however
many kinds there are. Axes: N nodes, G tables, C amounts of CPU, S sizes of shares.
"""

from typing import NamedTuple

import numba
import numpy as np

from muster.numerics import gpu_shares
from muster.numerics.arrays import Ints
from muster.numerics.axis import CPU, GPU, GPU_UNIT
from muster.numerics.handles import handle_of

MOST_GPUS = 16
"""Whole GPUs of one task that are told apart; what asks for more counts as fitting nowhere."""
MOST_PARTS = 64
"""Shared GPUs of one node that are looked at."""
_STEP = 45
"""Losses are compared in steps of so many thousandths of a GPU where many tasks are known."""
_FEW_TASKS = 200
"""In steps twice as large where the mix rests on so many: what it says is chance in part."""
_MOST_LEVELS = 100
"""Growing and shrinking by more steps than these counts as by so many."""
_CPU_WEIGHT = 0.5
"""Among equal losses: what the CPU that goes with a GPU counts for, beside a GPU, as far as there
is more of it than the free GPUs need."""
_IDLE_GPU, _IDLE_CPU = 10.0, 5.0
"""For work without GPUs: what a free GPU, and the CPU that goes with one, count for, in thousandths
of a lost GPU."""
_NOW = 1e9
"""A shared GPU with room now comes before one that others still have to leave."""


class Mix(NamedTuple):
    """What kinds of tasks ask for GPUs, as parts of `whole`, by the tables that nodes read. Parts
    are whole numbers, so that sums are exact in whatever order things came.
    """

    cpu: Ints  # [C]: amounts of CPU that tasks ask for, ascending
    table: Ints  # [N]: which table holds for a node: its constraints, and the size of its GPUs
    size: Ints  # [G, GPU_UNIT + 1]: how many sizes of shares are at most so many thousandths
    shares: Ints  # [G, C + 1, S + 1]: tasks that want at most this CPU and this share
    wholes: Ints  # [G, C + 1, MOST_GPUS + 1]: tasks that want at most this CPU and so many GPUs
    whole: int  # all parts together, at least 1
    step: int  # losses that differ by less than so many thousandths of a GPU count as equal
    cpu_per_gpu: float  # what CPU the cluster has for each GPU


NO_MIX = Mix(
    np.zeros(0, dtype=np.int64),
    np.zeros(0, dtype=np.int64),
    np.zeros((0, GPU_UNIT + 1), dtype=np.int64),
    np.zeros((0, 1, 1), dtype=np.int64),
    np.zeros((0, 1, MOST_GPUS + 1), dtype=np.int64),
    1,
    _STEP,
    1.0,
)
"""Where nobody asks how much is lost."""


def is_same_mix(left: Mix, right: Mix) -> bool:
    """Whether nodes are chosen alike by both."""
    if left is right:
        return True
    arrays = (
        (left.cpu, right.cpu),
        (left.table, right.table),
        (left.size, right.size),
        (left.shares, right.shares),
        (left.wholes, right.wholes),
    )
    numbers = (left.whole, left.step, left.cpu_per_gpu)
    if numbers != (right.whole, right.step, right.cpu_per_gpu):
        return False
    return all(np.array_equal(*pair) for pair in arrays)


def step_of(tasks: int) -> int:
    """How finely losses are compared where the mix rests on so many tasks."""
    return round(_STEP * (1 + _FEW_TASKS / max(tasks, 1)))


MixHandle = handle_of(Mix, __name__)


class Places(NamedTuple):
    """Columns of the ledger that say what nodes have left."""

    idle: Ints  # [N, R]
    releasing: Ints  # [N, R]
    gpu_size: Ints  # [N]
    gpu_memory_mib: Ints  # [N]
    share_free_mib: Ints  # [N]
    newest_share: Ints  # [N]
    share_next: Ints  # these [shared GPUs]
    share_node: Ints
    share_physical: Ints
    share_releasing: Ints
    share_pipelined: Ints


PlacesHandle = handle_of(Places, __name__)


@numba.njit(cache=True)
def places(ledger):  # type: ignore[no-untyped-def]
    """These columns of a ledger, as they are now."""
    return PlacesHandle(
        ledger.idle,
        ledger.releasing,
        ledger.gpu_size,
        ledger.gpu_memory_mib,
        ledger.share_free_mib,
        ledger.newest_share,
        ledger.share_next,
        ledger.share_node,
        ledger.share_physical,
        ledger.share_releasing,
        ledger.share_pipelined,
    )


# -- one node ----------------------------------------------------------------------------------


@numba.njit(cache=True)
def free_parts(columns, node, parts):  # type: ignore[no-untyped-def]
    """Thousandths that shared GPUs of a node have free once others left, into `parts` int64; how
    many they are. GPUs that are full are left out.
    """
    count, row, memory_mib = 0, columns.newest_share[node], columns.gpu_memory_mib[node]
    while row >= 0 and count < MOST_PARTS:
        part = gpu_shares.free_later(columns, row) * GPU_UNIT // memory_mib
        if part > 0:
            parts[count] = min(part, GPU_UNIT)
            count += 1
        row = columns.share_next[row]
    return count


@numba.njit(cache=True)
def loss(mix, table, cpu, whole, parts, count):  # type: ignore[no-untyped-def]
    """Thousandths of GPUs that the mix could not use, times `mix.whole`, of a node with so much
    CPU, so many whole GPUs, and `count` shared ones with these parts free.
    """
    step = cpu_step(mix.cpu, cpu)
    rest, most, used = 0, 0, 0
    for at in range(count):
        part = parts[at]
        rest += part
        most = max(most, part)
        used += part * mix.shares[table, step, mix.size[table, part]]
    return _lost(mix, table, step, whole, rest, most, used)


@numba.njit(cache=True)
def node_losses(ledger, mix, nodes):  # type: ignore[no-untyped-def]
    """GPUs of these nodes that the mix could not use once those who leave have left: float64[K]."""
    columns, handle = places(ledger), MixHandle(*mix)
    parts = np.zeros(MOST_PARTS + 1, dtype=np.int64)
    losses = np.empty(len(nodes))
    for at in range(len(nodes)):
        node = nodes[at]
        cpu = columns.idle[node, CPU] + columns.releasing[node, CPU]
        whole = gpu_shares.whole_gpus(columns.idle[node, GPU] + columns.releasing[node, GPU])
        count = free_parts(columns, node, parts)
        lost = loss(handle, mix.table[node], cpu, whole, parts, count)
        losses[at] = lost / mix.whole / GPU_UNIT
    return losses


@numba.njit(cache=True)
def cpu_step(steps, cpu):  # type: ignore[no-untyped-def]
    """How many of the ascending amounts are at most so much."""
    low, high = 0, len(steps)
    while low < high:
        middle = (low + high) // 2
        if steps[middle] <= cpu:
            low = middle + 1
        else:
            high = middle
    return low


@numba.njit(cache=True)
def _lost(mix, table, step, whole, rest, most, used):  # type: ignore[no-untyped-def]
    """`loss` from sums over the shared GPUs: what they have free together, the most that one has,
    and what of it those could use who fit into each.
    """
    whole = max(whole, 0)
    share = mix.shares[table, step, mix.size[table, GPU_UNIT if whole > 0 else most]]
    wants_whole = mix.wholes[table, step, min(whole, MOST_GPUS)]
    free = whole * GPU_UNIT + rest
    return free * (mix.whole - share - wants_whole) + rest * (wants_whole + share) - used


@numba.njit(cache=True)
def _least_lost(mix, table, step, whole, parts, count, need):  # type: ignore[no-untyped-def]
    """The least loss that is left once one GPU, shared or whole, gave so much."""
    rest, used, first, second = 0, 0, 0, 0
    for at in range(count):
        part = parts[at]
        rest += part
        used += part * mix.shares[table, step, mix.size[table, part]]
        second = max(second, min(first, part))
        first = max(first, part)
    least = np.inf
    for at in range(count):
        part = parts[at]
        if part >= need and (at == 0 or part != parts[at - 1]):
            now = part - need
            then = used - part * mix.shares[table, step, mix.size[table, part]]
            then += now * mix.shares[table, step, mix.size[table, now]]
            most = max(second if part == first else first, now)
            least = min(least, _lost(mix, table, step, whole, rest - need, most, then))
    if whole > 0:
        new = GPU_UNIT - need
        then = used + new * mix.shares[table, step, mix.size[table, new]]
        most = max(first, new)
        least = min(least, _lost(mix, table, step, whole - 1, rest + new, most, then))
    return least


# -- how good ----------------------------------------------------------------------------------


@numba.njit(cache=True)
def score_of(columns, mix, want, node, known, parts):  # type: ignore[no-untyped-def]
    """How good a node that has room is for a task, 0 to 1. `want` says what it wants (`wanted`);
    `known` float64[N] is what nodes lose as they are, nan where that is to be found; `parts`
    int64[MOST_PARTS + 1] is room to calculate in.
    """
    cpu_wanted, gpus, devices, takes_mib = want
    table = mix.table[node]
    cpu = columns.idle[node, CPU] + columns.releasing[node, CPU]
    whole = max(columns.idle[node, GPU] + columns.releasing[node, GPU], 0) // GPU_UNIT
    count = free_parts(columns, node, parts)
    if np.isnan(known[node]):
        known[node] = loss(mix, table, cpu, whole, parts, count)
    cpu -= cpu_wanted
    rest = whole * GPU_UNIT
    for which in range(count):
        rest += parts[which]
    left = rest / GPU_UNIT
    if devices == 0 and gpus == 0:
        grows = (loss(mix, table, cpu, whole, parts, count) - known[node]) / mix.whole
        grows += _IDLE_GPU * left + _IDLE_CPU * cpu / mix.cpu_per_gpu
        return 1.0 / (1.0 + np.exp(grows / GPU_UNIT))
    if devices == 0:
        left -= gpus
        grows = loss(mix, table, cpu, whole - gpus, parts, count) - known[node]
    else:
        memory_mib = columns.gpu_memory_mib[node]
        need = min(takes_mib[columns.gpu_size[node]] * GPU_UNIT // memory_mib, GPU_UNIT)
        left -= devices * need / GPU_UNIT
        step = cpu_step(mix.cpu, cpu)
        grows = _least_lost(mix, table, step, whole, parts, count, need) - known[node]
    steps = np.floor(grows / mix.whole / mix.step + 0.5)
    level = _MOST_LEVELS - min(max(steps, -_MOST_LEVELS), _MOST_LEVELS)
    left = max(left, 0.0)
    left += _CPU_WEIGHT * max(cpu / mix.cpu_per_gpu - left, 0.0)
    return (level + 1.0 / (1.0 + left)) / (2 * _MOST_LEVELS + 1)


@numba.njit(cache=True)
def wanted(ledger, shape):  # type: ignore[no-untyped-def]
    """(CPU, whole GPUs, shared GPUs, what is taken of each by size int64[M]) that a shape wants."""
    row = ledger.sharing[shape]
    cpu, gpus = ledger.request[shape, CPU], ledger.request[shape, GPU] // GPU_UNIT
    if row < 0:
        return cpu, gpus, np.int64(0), ledger.gpu_size[:0]
    return cpu, np.int64(0), ledger.devices[row], ledger.device_mib[row]


@numba.njit(cache=True)
def node_scores(ledger, mix, shape, rows):  # type: ignore[no-untyped-def]
    """How good nodes are for a task, as far as they have room, 0 to 1: float64[K]."""
    columns, handle, want = places(ledger), MixHandle(*mix), wanted(ledger, shape)
    known = np.full(len(ledger.gpu_size), np.nan)
    parts = np.zeros(MOST_PARTS + 1, dtype=np.int64)
    scores = np.empty(len(rows))
    for at in range(len(rows)):
        scores[at] = score_of(columns, handle, want, rows[at], known, parts)
    return scores


@numba.njit(cache=True)
def device_scores(ledger, mix, shape, node, rows, need_mib):  # type: ignore[no-untyped-def]
    """How good each of these shared GPUs of a node is, float64[C + 1]; the last is that of a whole
    one.
    """
    parts = np.zeros(MOST_PARTS + 1, dtype=np.int64)
    count = free_parts(places(ledger), node, parts)
    table, memory_mib = mix.table[node], ledger.gpu_memory_mib[node]
    takes_mib = ledger.device_mib[ledger.sharing[shape], ledger.gpu_size[node]]
    need = min(takes_mib * GPU_UNIT // memory_mib, GPU_UNIT)
    cpu = ledger.idle[node, CPU] + ledger.releasing[node, CPU] - ledger.request[shape, CPU]
    whole = gpu_shares.whole_gpus(ledger.idle[node, GPU] + ledger.releasing[node, GPU])
    scores = np.empty(len(rows) + 1)
    for at in range(len(rows)):
        part = gpu_shares.free_later(ledger, rows[at]) * GPU_UNIT // memory_mib
        which = 0
        while which < count - 1 and parts[which] != part:
            which += 1
        was = parts[which]
        parts[which] = max(part - need, 0)
        scores[at] = -loss(mix, table, cpu, whole, parts, count) / mix.whole
        parts[which] = was
        if gpu_shares.takes_now(ledger, rows[at], need_mib):
            scores[at] += _NOW
    parts[count] = GPU_UNIT - need
    scores[-1] = -loss(mix, table, cpu, whole - 1, parts, count + 1) / mix.whole
    if ledger.idle[node, GPU] >= GPU_UNIT:
        scores[-1] += _NOW
    return scores


# -- the mix -----------------------------------------------------------------------------------


@numba.njit(cache=True)
def running_sums(weight, cpu_step, gpus, share_step, allowed, shares, wholes):  # type: ignore[no-untyped-def]
    """Fill the tables of a mix: kinds of `weight` int64[K] that ask for so much CPU (a step) and
    either `gpus` whole ones or, where that is 0, a share (`share_step` int64[G, K]); `allowed`
    bool[G, K] says which nodes they fit.
    """
    for table in range(len(shares)):
        for kind in range(len(weight)):
            if allowed[table, kind]:
                if gpus[kind] == 0:
                    shares[table, cpu_step[kind] + 1, share_step[table, kind]] += weight[kind]
                elif gpus[kind] <= MOST_GPUS:
                    wholes[table, cpu_step[kind] + 1, gpus[kind]] += weight[kind]
        _sum_up(shares[table])
        _sum_up(wholes[table])


@numba.njit(cache=True)
def _sum_up(counts):  # type: ignore[no-untyped-def]
    """Sums over both axes, up to and including each."""
    for row in range(counts.shape[0]):
        for column in range(1, counts.shape[1]):
            counts[row, column] += counts[row, column - 1]
        if row:
            for column in range(counts.shape[1]):
                counts[row, column] += counts[row - 1, column]
