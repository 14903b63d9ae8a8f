"""How full a production GPU cluster gets: ours beside random, best fit, FGD and KAI's packing.

`at130` is the part of all GPUs that is in use, in percent, when tasks have asked for 130 % of them,
the mean of ten seeds, by workload and policy. Needs the trace beside the checkout.
"""

import json
from pathlib import Path

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
CURVE = Path(__file__).resolve().parents[1] / "openb" / "curve.json"
"""The curves of the default workload, from which the picture in docs is drawn."""


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
    CURVE.write_text(json.dumps({"asked": np.round(100 * _STEPS, 1).tolist(), **curves}) + "\n")
    default = at130[WORKLOADS[0]]
    return {
        "at130": default[OURS],
        "least_above_fgd": round(min(each[OURS] - each["fgd"] for each in at130.values()), 2),
        "microseconds": round(float(np.median(times_us)), 1),
        "workloads": at130,
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


def _filled(trace: Trace, seed: int, placement: str) -> Filled:
    conf = parse_conf(f"actions: allocate\nplacement: {placement}\n")
    return Filling(trace, conf).fill(trace.drawn(seed), _BATCH)


def _mean(curves: list[list[float]]) -> list[float]:
    return [round(float(each), 2) for each in np.mean(np.asarray(curves), axis=0)]


def _curve(trace: Trace, asked: list[int], used: list[int]) -> list[float]:
    """Percent in use where so much was asked for."""
    at = np.interp(_STEPS * trace.capacity, [0, *asked], [0, *used])
    found: list[float] = (100 * at / trace.capacity).tolist()
    return found
