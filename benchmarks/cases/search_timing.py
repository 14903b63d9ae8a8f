"""How the benchmarks of the searching actions are measured."""

import statistics
import time
from collections.abc import Callable, Mapping

from benchmarks.registry import Measured
from muster.base.gc_pause import gc_paused
from muster.engine.config.settings import EngineSettings
from muster.engine.cycle import run_cycle
from muster.engine.profiles.known import MUSTER, conf_of
from muster.engine.registry import build_actions, build_policy
from muster.model.records import ClusterRecords
from muster.model.tables import snapshot_of

_NOW_S = 2e6
_RUNS = 5

Load = Callable[..., ClusterRecords]
"""Takes `is_perturbed` and what grows, by keyword."""


def each_size(load: Load, actions: str, sizes: Mapping[str, tuple[int, ...]]) -> Measured:
    """One figure for each size."""
    ((what, values),) = sizes.items()
    measured = [{what: value, **_measure(load(**{what: value}), actions)} for value in values]
    return {"seconds": measured[-1]["seconds"], "sizes": measured}


def perturbed(load: Load, actions: str) -> Measured:
    """The same load twice, once with odd things in it."""
    plain, odd = (_measure(load(is_perturbed=each), actions) for each in (False, True))
    seconds = {name: float(str(each["seconds"])) for name, each in (("p", plain), ("o", odd))}
    return {
        "seconds": seconds["o"],
        "times_plain": round(seconds["o"] / seconds["p"], 3),
        "plain": plain,
        "perturbed": odd,
    }


def growth(load: Load, actions: str, doubled: Mapping[str, tuple[int, ...]]) -> Measured:
    """Growth over three sizes of each thing; the worst of them is the figure."""
    sizes: list[Measured] = []
    per_doubling: dict[str, float] = {}
    for what, values in doubled.items():
        measured = [{what: value, **_measure(load(**{what: value}), actions)} for value in values]
        first, last = (float(str(measured[at]["seconds"])) for at in (0, -1))
        per_doubling[what] = round((last / first) ** (1 / (len(values) - 1)), 3)
        sizes.extend(measured)
    return {
        "seconds": sizes[-1]["seconds"],
        "growth_per_doubling": max(per_doubling.values()),
        "by": per_doubling,
        "sizes": sizes,
    }


def _measure(records: ClusterRecords, actions: str) -> Measured:
    """Median of five; the first run compiles and is reported apart."""
    conf = conf_of(MUSTER, f'actions: "{actions}"', "benchmark")  # the default
    policy = build_policy(conf, EngineSettings(max_consolidation_victims=None))
    in_order = build_actions(conf)
    started = time.perf_counter()
    snapshot = snapshot_of(records)
    snapshot_s = time.perf_counter() - started
    spent: list[float] = []
    for _ in range(1 + _RUNS):
        with gc_paused():  # as the scheduler does it
            started = time.process_time()
            result = run_cycle(snapshot, policy, in_order, _NOW_S)
            spent.append(time.process_time() - started)
    plan = result.plan
    return {
        "seconds": round(statistics.median(spent[1:]), 6),
        "first_s": round(spent[0], 4),
        "snapshot_s": round(snapshot_s, 4),
        "waiting_for_a_place": len(plan.nominations),
        "evicted": len(plan.evictions),
    }
