"""How often estimates of starts are right: traces with noisy runtimes, on seeds of their own.

Nothing in `muster.foresight` was fitted to these seeds. Each trace is five days of a cluster of 48
GPUs at full load; forecasts are made 16 times, with what could be known then, and judged by when
jobs then started. Beside them stands what a plan by declared limits says (Slurm's way).
"""

import json
from pathlib import Path

import numpy as np
from tests.support.noisy_trace import DAY_S, Told, judged, trace

from benchmarks.registry import Measured, case
from muster.foresight.when import Asked
from muster.testing import make

SEEDS = range(8001, 8007)
KEPT = Path("benchmarks/when-coverage.json")
"""What was told and what happened, for the picture in the documents."""
_NODES, _DAYS, _LOAD = 6, 5.0, 1.0


@case("when-coverage", why="how often an interval of 80 % covers what then happened")
def coverage() -> Measured:
    told: list[Told] = []
    for seed in SEEDS:
        moments = [make.NOW_S + DAY_S * (1.5 + 0.21 * at) for at in range(16)]
        told += judged(trace(seed, _DAYS, _NODES, _LOAD), _NODES, moments, Asked()).told
    KEPT.write_text(json.dumps([_plain(one) for one in told], separators=(",", ":")) + "\n")
    errors = [one.error_s / 60 for one in told]
    limits = [abs(one.by_limits_s - one.started_s) / 60 for one in told]
    return {
        "coverage": float(np.mean([one.is_covered for one in told])),
        "jobs": len({(one.estimate.job, one.started_s) for one in told}),
        "estimates": len(told),
        "median_error_min": float(np.median(errors)),
        "median_error_by_limits_min": float(np.median(limits)),
        "median_wait_min": float(np.median([one.started_s - one.at_s for one in told])) / 60,
    }


def _plain(one: Told) -> list[float]:
    """Minutes from when it was said: likely, by limits, what happened; and whether it covers."""
    likely = one.estimate.likely_s or 0.0
    minutes = [
        round((at_s - one.at_s) / 60, 1) for at_s in (likely, one.by_limits_s, one.started_s)
    ]
    return [*minutes, float(one.is_covered)]
