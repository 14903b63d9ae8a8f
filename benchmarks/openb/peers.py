"""Other policies on the trace, written down as their papers say: random, best fit, and FGD.

FGD ("Beware of Fragmentation", USENIX ATC 2023) knows the mix of all tasks before the first comes,
and compares nodes by a score of whole numbers from 0 to 100; of equal ones the first is taken.
"""

import numba
import numpy as np

from benchmarks.openb.trace import CPU, GPUS, MEMORY, MILLI, MODELS, WHOLE, Trace
from muster.numerics.arrays import Floats, Ints

RANDOM, BEST_FIT, FGD = range(3)
NAMES = {"random": RANDOM, "best fit": BEST_FIT, "fgd": FGD}


def used_after(trace: Trace, rows: Ints, policy: int, seed: int) -> Floats:
    """Thousandths of GPUs in use after each task: float64[len(rows)]."""
    kinds, count = np.unique(trace.tasks, axis=0, return_counts=True)
    kinds, count = kinds[kinds[:, GPUS] > 0], count[kinds[:, GPUS] > 0]
    most = int(trace.node_gpus.max())
    free = np.where(np.arange(most) < trace.node_gpus[:, None], WHOLE, 0).astype(np.int64)
    room = np.column_stack((trace.node_cpu, trace.node_memory))
    used = np.zeros(len(rows))
    chance = np.random.default_rng(seed).random((len(rows), len(room)))
    largest = np.array([room[:, 0].max(), most * WHOLE], dtype=np.float64)
    weight = count / count.sum()
    _fill(trace.tasks[rows], room, free, trace.node_model, kinds, weight, largest, policy, chance,
          used)  # fmt: skip
    return used


@numba.njit(cache=True)
def _fill(tasks, room, free, model, kinds, weight, largest, policy, chance, used):  # type: ignore[no-untyped-def]
    total = 0
    after = np.zeros(free.shape[1], dtype=np.int64)
    before = np.full(len(room), np.nan)
    for at in range(len(tasks)):
        task = tasks[at]
        node, device = _best(
            task, room, free, model, kinds, weight, largest, policy, chance[at], before, after
        )
        if node >= 0:
            room[node, 0] -= task[CPU]
            room[node, 1] -= task[MEMORY]
            _take(task, free[node], device)
            before[node] = np.nan
            total += task[GPUS] * task[MILLI]
        used[at] = total


@numba.njit(cache=True)
def _best(task, room, free, model, kinds, weight, largest, policy, chance, before, after):  # type: ignore[no-untyped-def]
    best, best_device, best_score = -1, -1, -np.inf
    for node in range(len(room)):
        if room[node, 0] < task[CPU] or room[node, 1] < task[MEMORY]:
            continue
        if not task[MODELS] >> model[node] & 1:
            continue
        is_shared = task[GPUS] > 0 and task[MILLI] < WHOLE
        if task[GPUS] > 0 and (free[node] >= task[MILLI]).sum() < task[GPUS]:
            continue
        if policy != FGD:
            device = _fullest(free[node], task[MILLI]) if is_shared else -1
            score = chance[node]
            if policy == BEST_FIT:
                left = free[node].sum() - task[GPUS] * task[MILLI]
                score = -((room[node, 0] - task[CPU]) / largest[0] + left / largest[1])
            if score > best_score:
                best, best_device, best_score = node, device, score
            continue
        if np.isnan(before[node]):
            before[node] = _fragments(room[node, 0], free[node], model[node], kinds, weight)
        for device in range(len(after) if is_shared else 1):
            if is_shared and (free[node, device] < task[MILLI] or _seen(free[node], device)):
                continue
            after[:] = free[node]
            _take(task, after, device)
            cpu = room[node, 0] - task[CPU]
            grows = _fragments(cpu, after, model[node], kinds, weight) - before[node]
            score = np.floor(100.0 / (1.0 + np.exp(grows / WHOLE)))
            if score > best_score:
                best, best_device, best_score = node, device, score
    return best, best_device


@numba.njit(cache=True)
def _take(task, free, device):  # type: ignore[no-untyped-def]
    if task[GPUS] > 0 and task[MILLI] < WHOLE:
        free[device] -= task[MILLI]
        return
    left = task[GPUS]
    for at in range(len(free)):
        if left > 0 and free[at] == WHOLE:
            free[at] = 0
            left -= 1


@numba.njit(cache=True)
def _fullest(free, milli):  # type: ignore[no-untyped-def]
    best = -1
    for device in range(len(free)):
        if free[device] >= milli and (best < 0 or free[device] < free[best]):
            best = device
    return best


@numba.njit(cache=True)
def _seen(free, device):  # type: ignore[no-untyped-def]
    """Whether a GPU before it is just as free."""
    return (free[:device] == free[device]).any()


@numba.njit(cache=True)
def _fragments(cpu, free, model, kinds, weight):  # type: ignore[no-untyped-def]
    """Thousandths of a node's free GPUs that the kinds of tasks could not use."""
    total = free.sum()
    if total == 0:
        return 0.0
    lost = 0.0
    for kind in range(len(kinds)):
        want = kinds[kind]
        usable, count = 0, 0
        for device in range(len(free)):
            if free[device] >= want[MILLI]:
                usable += free[device]
                count += 1
        fits = want[CPU] <= cpu and count >= want[GPUS] and want[MODELS] >> model & 1
        lost += weight[kind] * (total - usable if fits else total)
    return lost
