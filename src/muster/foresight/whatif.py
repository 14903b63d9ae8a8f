"""What another policy would change: the same moment decided with it and without it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from muster.engine.plan import Evict, Plan
from muster.engine.search_time import ElapsedS, no_time_passes
from muster.engine.session import Session
from muster.foresight.arrivals import Past
from muster.foresight.lost_nodes import displaced
from muster.foresight.outlook import Outlook, outlook, with_same_draws
from muster.foresight.situation import Rules, Situation
from muster.foresight.variants import Variants
from muster.foresight.when import Asked
from muster.model.record_changes import Delta
from muster.model.records import UNLIMITED
from muster.numerics.axis import GPU_UNIT, QUEUE_RESOURCES

_GPU = QUEUE_RESOURCES.index("gpu")
_MOVED_S = 300.0
"""Starts that move by less are told apart by nobody."""


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
    displaced: tuple[Evict, ...] = ()
    """Pods whose nodes are lost or drained."""
    placed_again: int = 0
    """How many of these get another place at once."""

    def verdict(self) -> list[str]:
        """In a few lines."""
        gone = len(self.evicted_only_with) - len(self.evicted_only_without)
        more = self.placed[1] - self.placed[0]
        lines = [
            f"{abs(gone)} pods {'more' if gone >= 0 else 'fewer'} evicted, "
            f"{abs(more)} {'more' if more >= 0 else 'fewer'} get a place"
        ]
        if self.displaced:
            lines.append(
                f"{len(self.displaced)} pods lose their node, {self.placed_again} of them get "
                "another place"
            )
        lines += [f"queue {name} falls below its quota" for name in self.below_quota]
        return lines


def difference(
    situation: Situation, state: Variants, edit: Delta, rules: Rules | None = None
) -> Difference:
    """One cycle each. `state` are variants of the situation's records."""
    before = situation.result.plan
    moved = tuple(displaced(state, edit))
    with state.variant(edit) as snapshot:
        changed = replace(situation, snapshot=snapshot, rules=rules or situation.rules)
        after = changed.result.plan
        shares = _moved(_shares(situation), _shares(changed))
        below = _below(situation, changed)
    starts = [
        {one.job for one in plan.binds} | {one.job for one in plan.nominations}
        for plan in (before, after)
    ]
    gone = [{evict.task: evict for evict in plan.evictions} for plan in (before, after)]
    again = set(_started(after)) & {one.task for one in moved}
    return Difference(
        tuple(sorted(starts[1] - starts[0])),
        tuple(sorted(starts[0] - starts[1])),
        tuple(evict for task, evict in gone[1].items() if task not in gone[0]),
        tuple(evict for task, evict in gone[0].items() if task not in gone[1]),
        (
            len(before.binds) + len(before.nominations),
            len(after.binds) + len(after.nominations) - len(again),
        ),
        shares,
        tuple(sorted(below)),
        not (situation.is_cut_short or changed.is_cut_short),
        moved,
        len(again),
    )


@dataclass(frozen=True, slots=True)
class Ahead:
    """The hours after, without the change and with it, in the same futures."""

    before: Outlook
    after: Outlook

    @property
    def why_not(self) -> str:
        """Why nothing can be said; "": something is."""
        return self.before.why_not or self.after.why_not

    def waits_s(self) -> Mapping[str, tuple[float, float]]:
        """How long jobs of each queue still wait on average, of those that wait now."""
        if self.why_not:
            return {}
        waits: dict[str, list[str]] = {}
        for job in sorted(self.before.waits_s.keys() & self.after.waits_s.keys()):
            waits.setdefault(self.before.queues[job], []).append(job)
        return {
            queue: (self.before.mean_wait_s(jobs), self.after.mean_wait_s(jobs))
            for queue, jobs in sorted(waits.items())
        }

    def restarts_s(self) -> Mapping[str, float]:
        """How long those wait that run now and would have to start again, the longest first."""
        again = self.after.waits_s.keys() - self.before.waits_s.keys()
        found = [(job, self.after.waits_s[job]) for job in again]
        return dict(sorted(found, key=lambda one: (-one[1], one[0])))

    def moved_s(self) -> Mapping[str, float]:
        """By how much jobs start later (earlier: below zero), the most moved first."""
        both = self.before.waits_s.keys() & self.after.waits_s.keys()
        moved = {job: self.after.waits_s[job] - self.before.waits_s[job] for job in both}
        found = [(job, by_s) for job, by_s in moved.items() if abs(by_s) >= _MOVED_S]
        return dict(sorted(found, key=lambda one: (-abs(one[1]), one[0])))


def ahead(
    situation: Situation,
    state: Variants,
    edit: Delta,
    rules: Rules | None,
    past: Past,
    asked: Asked,
    elapsed_s: ElapsedS = no_time_passes,
) -> Ahead:
    """The hours after. `state` are variants of the situation's records. Each of the two has half of
    the time.
    """
    asked = with_same_draws(asked, situation)
    before = outlook(situation, past, asked, elapsed_s)
    with state.variant(edit) as snapshot:
        changed = replace(situation, snapshot=snapshot, rules=rules or situation.rules)
        return Ahead(before, outlook(changed, past, asked, elapsed_s))


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


def _below(situation: Situation, changed: Situation) -> set[str]:
    """Queues that hold less than their quota of GPUs with the change, and would hold it without."""
    before, after = _held(situation), _held(changed)
    queues = changed.snapshot.queues
    quota = dict(zip(queues.names, queues.quota[:, _GPU].tolist(), strict=True))
    return {
        name
        for name, held in after.items()
        if quota[name] != UNLIMITED and held < quota[name] <= before.get(name, 0.0)
    }


def _started(plan: Plan) -> list[str]:
    """Pods that start, now or once others have left."""
    return [one.task for one in plan.binds] + [one.task for one in plan.nominations]


def _held(situation: Situation) -> dict[str, float]:
    """GPUs by queue once those that are evicted have left, and those that start are there."""
    snapshot, plan = situation.snapshot, situation.result.plan
    queues, held = snapshot.queues, snapshot.queues.allocated[:, _GPU].astype(np.float64)
    gone = [evict.task for evict in plan.evictions]
    for sign, tasks in ((-1.0, gone), (1.0, _started(plan))):
        for task in tasks:
            row = snapshot.tasks.row[task]
            units = snapshot.demand.queue_units[int(snapshot.tasks.shape[row]), _GPU]
            chain = queues.chain[int(snapshot.jobs.queue[snapshot.tasks.job[row]])]
            held[chain[chain >= 0]] += sign * units
    return dict(zip(queues.names, held.tolist(), strict=True))
