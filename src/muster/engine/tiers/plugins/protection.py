"""Who is spared: `cdp` for a while after its start, `pdb` by disruption budgets."""

from collections.abc import Sequence

import numpy as np

from muster.api.duration import BadDuration, Duration
from muster.api.volcano import COOLDOWN_TIME
from muster.engine.hooks import SessionPlugin, View, WithoutArguments
from muster.engine.tiers.rules import Rules, TieredPlugin


class Cooldown(WithoutArguments):
    """Volcano's `cdp`: a pod that says `volcano.sh/cooldown-time` stays for so long."""

    name = "cdp"

    def open(self, view: View) -> SessionPlugin:
        return _CoolsDown(view)


class _CoolsDown(TieredPlugin):
    depends_on_time = True

    def __init__(self, view: View) -> None:
        self._now_s = view.now_s

    def begin(self, tiers: Rules) -> None:
        self._groups = tiers.groups

    def next_change_s(self) -> float:
        tasks = np.flatnonzero(self._groups.snapshot.tasks.live).tolist()
        later = [end_s for task in tasks if (end_s := self._until_s(task)) > self._now_s]
        return min(later, default=np.inf)

    def _until_s(self, task: int) -> float:
        terms = self._groups.pod(task)
        text = terms.notes.get(COOLDOWN_TIME)
        if text is None or terms.scheduled_s is None:
            return -np.inf
        try:
            return terms.scheduled_s + Duration(text).seconds
        except BadDuration:
            return -np.inf

    def preemptable(self, task: int, candidates: Sequence[int]) -> list[int]:
        return [each for each in candidates if self._until_s(each) <= self._now_s]

    reclaimable = preemptable

    def evictable(self, action: str, job: int, candidates: Sequence[int]) -> list[int]:
        return self.preemptable(-1, candidates)


class DisruptionBudgets(WithoutArguments):
    """Volcano's `pdb`: no more pods go than their PodDisruptionBudgets allow. A pod that no budget
    covers may go, whatever its labels.
    """

    name = "pdb"

    def open(self, view: View) -> SessionPlugin:
        return _Budgets(view)


class _Budgets(TieredPlugin):
    def __init__(self, view: View) -> None:
        self._allowances = view.snapshot.cluster_objects.disruption_allowances
        self._records = view.snapshot.tasks.records

    def preemptable(self, task: int, candidates: Sequence[int]) -> list[int]:
        left = {key: budget.allowed for key, budget in self._allowances.items()}
        victims = []
        for candidate in candidates:
            record = self._records[candidate]
            mine = [
                key
                for key, budget in self._allowances.items()
                if budget.namespace == record.namespace and budget.selector.matches(record.labels)
            ]
            if all(left[key] > 0 for key in mine):
                victims.append(candidate)
                for key in mine:
                    left[key] -= 1
        return victims

    reclaimable = preemptable

    def evictable(self, action: str, job: int, candidates: Sequence[int]) -> list[int]:
        return self.preemptable(-1, candidates)
