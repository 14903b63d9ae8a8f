"""QueueBook: what queues hold, ask for, promised and may hold at most; proportion's and capacity's.

Slots for pods are not counted: nodes bound those.
"""

import numpy as np

from muster.api.volcano import INQUEUE, RUNNING
from muster.engine.tiers.accounts import Accounts
from muster.engine.tiers.groups import IS_HELD, Groups
from muster.model.ledger import Entries
from muster.numerics.arrays import Bools, Ints
from muster.numerics.axis import LARGEST_SUM, PODS

NO_BOUND = LARGEST_SUM


class QueueBook:
    """All int64[Q, R], by queue row, the queues above none included."""

    def __init__(self, groups: Groups) -> None:
        self.groups = groups
        snapshot = groups.snapshot
        self.names = snapshot.queues.names
        self.count, self.width = len(snapshot.queues), len(snapshot.axis)
        self.counts: Bools = np.ones(self.width, dtype=np.bool_)
        self.counts[PODS] = False
        self.accounts = Accounts(groups)
        self.allocated = self.accounts.queue
        self.has_jobs: Bools = np.zeros(self.count, dtype=np.bool_)
        self.request: Ints = self.allocated.copy()
        self.inqueue: Ints = np.zeros_like(self.allocated)
        self.elastic: Ints = np.zeros_like(self.allocated)
        self.guarantee = self._by_queue(lambda queue: groups.queue(queue).guarantee, 0)
        self.capability = self._by_queue(lambda queue: groups.queue(queue).capability, NO_BOUND)
        self.deserved = self._by_queue(lambda queue: groups.queue(queue).deserved, 0)
        self.names_deserved = self.deserved > 0
        self._count()

    def _by_queue(self, amounts, otherwise: int) -> Ints:  # type: ignore[no-untyped-def]
        rows = [self.groups.bound(amounts(queue), otherwise) for queue in range(self.count)]
        return np.array(rows, dtype=np.int64).reshape(self.count, self.width)

    def _count(self) -> None:
        """What waits, was promised, and is held beyond the least that jobs need."""
        groups, snapshot = self.groups, self.groups.snapshot
        queue_of = snapshot.jobs.queue
        pending = groups.pending_of_all()
        pending = pending[queue_of[snapshot.tasks.job[pending]] >= 0]
        queues = queue_of[snapshot.tasks.job[pending]]
        np.add.at(self.request, queues, groups.charges(pending))
        jobs = np.flatnonzero(snapshot.jobs.live & (queue_of >= 0))
        self.has_jobs[queue_of[jobs]] = True
        holds: Bools = np.asarray(self.accounts.job.any(axis=1))
        for job in jobs.tolist():
            queue = queue_of[job]
            if groups.terms(job).min_resources is not None:
                self.inqueue[queue] += self.promised(job)
            if holds[job]:
                more = self.accounts.job[job] - self.min_resources(job)
                self.elastic[queue] += np.maximum(more, 0)

    def min_resources(self, job: int) -> Ints:
        return self.groups.vector(self.groups.terms(job).min_resources or {})[0]

    def promised(self, job: int) -> Ints:
        """What a job was let in for and does not hold yet."""
        groups, terms = self.groups, self.groups.terms(job)
        phase = groups.phase(job)
        is_in = terms.min_resources is not None and phase in (INQUEUE, RUNNING)
        if is_in and phase == RUNNING:
            is_in = len(groups.in_status(job, IS_HELD)) >= terms.minimum
        if not is_in:
            return np.zeros(self.width, dtype=np.int64)
        missing: Ints = np.maximum(self.min_resources(job) - self.accounts.job[job], 0)
        return missing

    def real_capability(self) -> Ints:
        """What each queue may hold: of the cluster without others' guarantees, within its own."""
        total = self.guarantee.sum(axis=0)
        shared = np.maximum(self.groups.total - total, 0)
        most: Ints = np.minimum(shared + self.guarantee, self.capability)
        return most

    def is_within(self, used: Ints, bound: Ints, asked: Ints) -> bool:
        """Whether the sum is within the bound in all that is asked for."""
        matters = self.counts & (asked > 0)
        return bool((used[matters] <= bound[matters]).all())

    def may_enter(self, job: int, queue: int, bound: Ints) -> bool:
        """Whether what a job needs at least fits beside what is held and promised."""
        least, is_known = self.groups.vector(self.groups.terms(job).min_resources or {})
        used = least + self.allocated[queue] + self.inqueue[queue] - self.elastic[queue]
        return is_known and self.is_within(used, bound, least)

    def on_ledger_change(self, entries: Entries) -> None:
        self.accounts.on_ledger_change(entries)


def share(held: Ints, of: Ints) -> float:
    """The largest part that is held of any resource; all of nothing is 1."""
    matters = (held > 0) | (of > 0)
    if not matters.any():
        return 0.0
    held, of = held[matters], of[matters]
    return float(np.where(of > 0, held / np.maximum(of, 1), 1.0).max())
