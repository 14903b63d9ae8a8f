"""What another policy would change: the same moment decided with it and without it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from muster.engine.plan import Evict
from muster.engine.session import Session
from muster.foresight.situation import Rules, Situation
from muster.foresight.variants import Variants
from muster.model.record_changes import Delta
from muster.model.records import UNLIMITED
from muster.model.snapshot import ClusterSnapshot
from muster.numerics.axis import GPU_UNIT, QUEUE_RESOURCES

_GPU = QUEUE_RESOURCES.index("gpu")


@dataclass(frozen=True, slots=True)
class Difference:
    """What happens at once only with the change, and only without it."""

    starts_only_with: tuple[str, ...]
    starts_only_without: tuple[str, ...]
    evicted_only_with: tuple[Evict, ...]
    evicted_only_without: tuple[Evict, ...]
    placed: tuple[int, int]
    """Pods that get a place: without, with."""
    shares: Mapping[str, tuple[float, float]]
    """GPUs of queues whose fair share moves by one or more: before, after."""
    below_quota: tuple[str, ...]
    """Queues that hold less than their quota, and would hold it without the change."""
    is_complete: bool = True
    """Whether the searches of both cycles came to their end."""

    def verdict(self) -> list[str]:
        """In a few lines."""
        gone = len(self.evicted_only_with) - len(self.evicted_only_without)
        more = self.placed[1] - self.placed[0]
        lines = [
            f"{abs(gone)} pods {'more' if gone >= 0 else 'fewer'} evicted, "
            f"{abs(more)} {'more' if more >= 0 else 'fewer'} get a place"
        ]
        lines += [f"queue {name} falls below its quota" for name in self.below_quota]
        return lines


def difference(
    situation: Situation, state: Variants, edit: Delta, rules: Rules | None = None
) -> Difference:
    """One cycle each. `state` are variants of the situation's records."""
    before = situation.result.plan
    with state.variant(edit) as snapshot:
        changed = replace(situation, snapshot=snapshot, rules=rules or situation.rules)
        after = changed.result.plan
        shares = _moved(_shares(situation), _shares(changed))
        below = _below(changed.snapshot, after.evictions) - _below(
            situation.snapshot, before.evictions
        )
    starts = [
        {one.job for one in plan.binds} | {one.job for one in plan.nominations}
        for plan in (before, after)
    ]
    gone = [{evict.task: evict for evict in plan.evictions} for plan in (before, after)]
    return Difference(
        tuple(sorted(starts[1] - starts[0])),
        tuple(sorted(starts[0] - starts[1])),
        tuple(evict for task, evict in gone[1].items() if task not in gone[0]),
        tuple(evict for task, evict in gone[0].items() if task not in gone[1]),
        (
            len(before.binds) + len(before.nominations),
            len(after.binds) + len(after.nominations),
        ),
        shares,
        tuple(sorted(below)),
        not (situation.is_cut_short or changed.is_cut_short),
    )


def _shares(situation: Situation) -> dict[str, float]:
    session = Session(situation.snapshot, situation.rules.policy, situation.now_s)
    shares = session.policy.queue_shares()
    names = situation.snapshot.queues.names
    if shares is None:
        return {}
    return {name: float(shares.fair_share[row, _GPU]) for row, name in enumerate(names)}


def _moved(
    before: Mapping[str, float], after: Mapping[str, float]
) -> dict[str, tuple[float, float]]:
    """Shares that move by less than a GPU are remainders that went elsewhere."""
    return {
        name: (before.get(name, 0.0) / GPU_UNIT, after.get(name, 0.0) / GPU_UNIT)
        for name in sorted(before.keys() | after.keys())
        if abs(before.get(name, 0.0) - after.get(name, 0.0)) >= GPU_UNIT
    }


def _below(snapshot: ClusterSnapshot, evictions: tuple[Evict, ...]) -> set[str]:
    """Queues that hold less than their quota of GPUs once these are gone."""
    queues, held = snapshot.queues, snapshot.queues.allocated[:, _GPU].astype(np.float64)
    held = held.copy()
    for evict in evictions:
        row = snapshot.tasks.row[evict.task]
        units = snapshot.demand.queue_units[int(snapshot.tasks.shape[row]), _GPU]
        for queue in queues.chain[int(snapshot.jobs.queue[snapshot.tasks.job[row]])].tolist():
            if queue >= 0:
                held[queue] -= units
    quota = queues.quota[:, _GPU]
    lost = (quota != UNLIMITED) & (held < quota) & (queues.allocated[:, _GPU] >= quota)
    return {queues.names[row] for row in np.flatnonzero(lost).tolist()}
