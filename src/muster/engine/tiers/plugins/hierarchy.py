"""Hierarchy: dominant shares in a tree of queues (hdrf). Queues name their place and its weights in
annotations: `volcano.sh/hierarchy: root/a/b` and `volcano.sh/hierarchy-weights: 1/2/3`.

A job is saturated when it got all it asks for of something, or asks for something of which nothing
is left. What an inner place has is what its saturated children have, and of the others as much as
the poorest of them; so a child that cannot grow does not hold back its siblings.
"""

from dataclasses import dataclass, field

import numpy as np

from muster.api.volcano import HIERARCHY, HIERARCHY_WEIGHTS
from muster.engine.tiers.accounts import Accounts
from muster.engine.tiers.groups import Groups
from muster.model.batch_terms import QueueTerms
from muster.numerics.arrays import Floats, Ints
from muster.numerics.axis import PODS

_DEEPEST = 32


@dataclass(slots=True)
class _Place:
    weight: float = 1.0
    children: "dict[str, _Place]" = field(default_factory=dict)
    jobs: list[int] = field(default_factory=list)
    share: float = 0.0
    is_saturated: bool = False
    held: Floats = field(default_factory=lambda: np.zeros(0))


class Hierarchy:
    """The tree over all queues with jobs; counted anew when asked after something changed."""

    def __init__(self, groups: Groups, accounts: Accounts, total: Floats) -> None:
        self._groups, self._accounts, self._total = groups, accounts, total
        self._paths = [_path(groups.queue(q)) for q in range(len(groups.snapshot.queues))]
        self._request = {
            job: groups.charge_of(groups.tasks(job))
            for job in groups.jobs()
            if groups.snapshot.jobs.queue[job] >= 0
        }
        self._known: tuple[bytes, _Place] | None = None

    def compared(self, left: int, right: int) -> float:
        return _compared(self._tree(self._accounts.job), self._paths[left], self._paths[right])

    def may_take(self, task: int, victim: int) -> bool:
        """Whether the task's queue would still come first if it had the victim's place."""
        snapshot, held = self._groups.snapshot, self._accounts.job.copy()
        jobs = int(snapshot.tasks.job[task]), int(snapshot.tasks.job[victim])
        held[jobs[0]] += self._groups.task_charge(task)
        held[jobs[1]] -= self._groups.task_charge(victim)
        queues = (int(snapshot.jobs.queue[job]) for job in jobs)
        left, right = (self._paths[queue] for queue in queues)
        return _compared(self._counted(held), left, right) < 0

    def _tree(self, held: Ints) -> _Place:
        key = held.tobytes()
        if self._known is None or self._known[0] != key:
            self._known = (key, self._counted(held))
        return self._known[1]

    def _counted(self, held: Ints) -> _Place:
        root = _Place()
        for job in self._request:
            place = root
            for name, weight in self._paths[int(self._groups.snapshot.jobs.queue[job])][1:]:
                place = place.children.setdefault(name, _Place(weight))
            place.jobs.append(job)
        every = held[list(self._request)].sum(axis=0) if self._request else self._total * 0
        exhausted = (self._total > 0) & (every >= self._total)
        self._count(root, held, exhausted)
        return root

    def _count(
        self, place: _Place, held: Ints, exhausted: "np.ndarray[tuple[int], np.dtype[np.bool_]]"
    ) -> None:
        parts = [
            *place.children.values(),
            *(self._leaf(job, held, exhausted) for job in place.jobs),
        ]
        for child in place.children.values():
            self._count(child, held, exhausted)
        shares = [part.share for part in parts if part.share > 0 and not part.is_saturated]
        least = min(shares, default=1.0)
        total = np.zeros(len(self._total))
        for part in parts:
            if part.is_saturated or part.share == 0:
                total += part.held
            else:
                total += part.held * (least / part.share)
        place.held = total
        place.share = self._share(total)
        place.is_saturated = bool(parts) and all(part.is_saturated for part in parts)

    def _leaf(
        self, job: int, held: Ints, exhausted: "np.ndarray[tuple[int], np.dtype[np.bool_]]"
    ) -> _Place:
        mine, wanted = held[job].astype(np.float64), self._request[job]
        asks = (wanted > 0) & (np.arange(len(wanted)) != PODS)
        is_done = ((mine > 0) & (mine >= wanted) & asks).any()
        place = _Place(held=mine, share=self._share(mine))
        place.is_saturated = bool(is_done or (exhausted & asks).any())
        return place

    def _share(self, held: Floats) -> float:
        matters = self._total > 0
        return float((held[matters] / self._total[matters]).max(initial=0.0))


_Path = list[tuple[str, float]]


def _path(queue: QueueTerms) -> _Path:
    names = queue.notes.get(HIERARCHY, "root").split("/")[:_DEEPEST]
    weights = queue.notes.get(HIERARCHY_WEIGHTS, "").split("/")
    return [
        (name, max(_number(weights[at]) if at < len(weights) else 1.0, 1.0))
        for at, name in enumerate(names)
    ]


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        return 1.0
    return number if 1.0 <= number < 1e9 else 1.0


def _compared(root: _Place, left: _Path, right: _Path) -> float:
    places = root, root
    for at in range(min(len(left), len(right))):
        one, other = places
        if one.is_saturated != other.is_saturated:
            return 1.0 if one.is_saturated else -1.0
        shares = one.share / one.weight, other.share / other.weight
        if shares[0] != shares[1]:
            return shares[0] - shares[1]
        if at + 1 < min(len(left), len(right)):
            places = (
                one.children.get(left[at + 1][0], _Place()),
                other.children.get(right[at + 1][0], _Place()),
            )
    return 0.0
