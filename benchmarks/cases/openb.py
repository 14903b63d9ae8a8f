"""How full a production GPU cluster gets: ours beside random, best fit, FGD and KAI's packing.

`at130` is the part of all GPUs that is in use, in percent, when tasks have asked for 130 % of them,
the mean of ten seeds; `workloads` has it by workload and policy, `curves` how it grows in the
default one, `microseconds` what a task costs in batches of 50. Needs the trace beside the checkout.
"""

import numpy as np

from benchmarks.openb import peers
from benchmarks.openb.fill import Filled, Filling
from benchmarks.openb.trace import ASKED, WORKLOADS, Trace, read
from benchmarks.registry import Measured, case
from muster.engine.config.conf import parse_conf

_SEEDS = range(42, 52)
_BATCH = 50
OURS, KAI = "least-fragmentation", "binpack"
_STEPS = np.linspace(0.0, ASKED, 53)


@case("openb", why="a production cluster is filled, task by task: how full does it get?")
def openb() -> Measured:
    at130: dict[str, dict[str, float]] = {}
    curves: dict[str, list[float]] = {}
    times_us: list[float] = []
    for workload in WORKLOADS:
        trace = read(workload)
        found: dict[str, list[float]] = {}
        lines: dict[str, list[list[float]]] = {}
        for seed in _SEEDS:
            for policy, asked, used in _fillings(trace, seed, times_us):
                found.setdefault(policy, []).append(100 * used[-1] / trace.capacity)
                lines.setdefault(policy, []).append(_curve(trace, asked, used))
        at130[workload] = {name: round(float(np.mean(each)), 2) for name, each in found.items()}
        print(f"  {workload}: {at130[workload]}", flush=True)
        if workload == WORKLOADS[0]:
            curves = {name: _mean(each) for name, each in lines.items()}
    default = at130[WORKLOADS[0]]
    return {
        "at130": default[OURS],
        "least_above_fgd": round(min(each[OURS] - each["fgd"] for each in at130.values()), 2),
        "microseconds": round(float(np.median(times_us)), 1),
        "workloads": at130,
        "curves": {"asked": np.round(100 * _STEPS, 1).tolist(), **curves},
    }


@case("openb-moves", why="the same with consolidation for those who find no place")
def openb_moves() -> Measured:
    trace = read(WORKLOADS[0])
    filled = [_filled(trace, seed, OURS, "allocate, consolidation") for seed in _SEEDS]
    used = [100 * each.used[-1] / trace.capacity for each in filled]
    return {
        "at130": round(float(np.mean(used)), 2),
        "moves": round(float(np.mean([each.moves for each in filled]))),
        "seconds": round(float(np.median(np.concatenate([each.cycle_s for each in filled]))), 6),
    }


def _fillings(
    trace: Trace, seed: int, times_us: list[float]
) -> list[tuple[str, list[int], list[int]]]:
    """(policy, asked, used) of every policy on one draw; how long ours takes for a task."""
    rows = trace.drawn(seed)
    found = []
    for placement in (OURS, KAI):
        filled = _filled(trace, seed, placement)
        found.append((placement, filled.asked, filled.used))
        if placement == OURS:
            times_us.extend(1e6 * each / _BATCH for each in filled.cycle_s)
    asked = np.cumsum(trace.tasks[rows, 2] * trace.tasks[rows, 3]).tolist()
    for name, policy in peers.NAMES.items():
        used = peers.used_after(trace, rows, policy, seed)
        found.append((name, asked, used.tolist()))
    return found


def _filled(trace: Trace, seed: int, placement: str, actions: str = "allocate") -> Filled:
    conf = parse_conf(f"actions: {actions}\nplacement: {placement}\n")
    return Filling(trace, conf).fill(trace.drawn(seed), _BATCH)


def _mean(lines: list[list[float]]) -> list[float]:
    return [round(sum(values) / len(values), 2) for values in zip(*lines, strict=True)]


def _curve(trace: Trace, asked: list[int], used: list[int]) -> list[float]:
    """Percent in use where so much was asked for."""
    at = np.interp(_STEPS * trace.capacity, [0, *asked], [0, *used])
    found: list[float] = (100 * at / trace.capacity).tolist()
    return found
