"""`drf`: jobs with the smaller dominant share of the cluster first; in a hierarchy queues too."""

from collections.abc import Sequence

import numpy as np

from muster.engine.hooks import SessionPlugin, View, WithoutArguments
from muster.engine.tiers.accounts import Accounts
from muster.engine.tiers.plugins.hierarchy import Hierarchy
from muster.engine.tiers.rules import Rules, TieredPlugin
from muster.model.ledger import Entries
from muster.numerics.arrays import Floats, Ints, Rows
from muster.numerics.axis import PODS

_EQUAL = 1e-6
"""Shares that differ by less are equal."""


class DominantShare(WithoutArguments):
    """Volcano's and kube-batch's `drf`."""

    name = "drf"

    def open(self, view: View) -> SessionPlugin:
        return _ByShare()


class _ByShare(TieredPlugin):
    def begin(self, tiers: Rules) -> None:
        self._groups = tiers.groups
        self._accounts = Accounts(tiers.groups)
        total = tiers.groups.total.astype(np.float64)
        total[PODS] = 0
        self._total = total
        is_tree = tiers.is_hierarchical("drf")
        self._tree = Hierarchy(tiers.groups, self._accounts, total) if is_tree else None

    def on_ledger_change(self, entries: Entries) -> None:
        self._accounts.on_ledger_change(entries)

    def shares(self, held: Ints) -> Floats:
        """The largest part of any resource: float64[len(held)]."""
        matters = self._total > 0
        if not matters.any():
            return np.zeros(len(held))
        parts: Floats = (held[:, matters] / self._total[matters]).max(axis=1)
        return parts

    def job_keys(self, jobs: Rows) -> Floats:
        return self.shares(self._accounts.job[jobs])[:, np.newaxis]

    def preemptable(self, task: int, candidates: Sequence[int]) -> list[int]:
        """Those whose jobs have no less without them than the task's job has with it."""
        job_of, groups = self._groups.snapshot.tasks.job, self._groups
        mine = self._accounts.job[job_of[task]] + groups.task_charge(task)
        own = float(self.shares(mine[np.newaxis])[0])
        left, victims = dict[int, Ints](), []
        for candidate in candidates:
            job = int(job_of[candidate])
            held = left.get(job, self._accounts.job[job]) - groups.task_charge(candidate)
            left[job] = held
            if own <= float(self.shares(held[np.newaxis])[0]) + _EQUAL:
                victims.append(candidate)
        return victims

    def queue_order(self, left: int, right: int) -> float:
        return 0 if self._tree is None else self._tree.compared(left, right)

    def reclaimable(self, task: int, candidates: Sequence[int]) -> list[int] | None:
        if self._tree is None:
            return None
        return [each for each in candidates if self._tree.may_take(task, each)]
