"""`proportion`: what a queue deserves of the cluster follows from its weight and its demand."""

from collections.abc import Sequence

import numpy as np

from muster.engine.hooks import SessionPlugin, View, WithoutArguments
from muster.engine.tiers.plugins.queue_book import QueueBook, share
from muster.engine.tiers.rules import Rules, TieredPlugin, Vote
from muster.model.ledger import Entries
from muster.numerics.arrays import Bools, Ints


class Proportion(WithoutArguments):
    """Volcano's and kube-batch's `proportion`."""

    name = "proportion"

    def open(self, view: View) -> SessionPlugin:
        return _ByWeight()


class CarefulProportion(WithoutArguments):
    """That of kube-batch: no queue is cut below what it deserves for one that goes beyond its own
    due, as there it may: a last victim too many would be taken back for ever.
    """

    name = "proportion"

    def open(self, view: View) -> SessionPlugin:
        return _KeepsWhatItDeserves()


class _ByWeight(TieredPlugin):
    def begin(self, tiers: Rules) -> None:
        self._groups = tiers.groups
        self._book = QueueBook(tiers.groups)
        self._capability = self._book.real_capability()
        self._shares: dict[int, float] = {}
        self.deserved = deserved_by_weight(self._book, self._capability)

    def on_ledger_change(self, entries: Entries) -> None:
        self._shares.clear()
        self._book.on_ledger_change(entries)

    def queue_order(self, left: int, right: int) -> float:
        priority = self._groups.snapshot.queues.priority
        if priority[left] != priority[right]:
            return float(priority[right] - priority[left])
        return self._share(left) - self._share(right)

    def _share(self, queue: int) -> float:
        known = self._shares.get(queue)
        if known is None:
            counts = self._book.counts
            known = share(self._book.allocated[queue][counts], self.deserved[queue][counts])
            self._shares[queue] = known
        return known

    def overused(self, queue: int) -> bool:
        counts = self._book.counts
        return bool((self.deserved[queue] <= self._book.allocated[queue])[counts].all())

    def allocatable(self, queue: int, request: Ints) -> bool:
        if not self._groups.queue(queue).is_open:
            return False
        used = self._book.allocated[queue] + request
        return self._book.is_within(used, self.deserved[queue], request)

    preemptive = allocatable

    def reclaimable(self, task: int, candidates: Sequence[int]) -> list[int]:
        snapshot, left, victims = self._groups.snapshot, dict[int, Ints](), []
        for candidate in candidates:
            queue = int(snapshot.jobs.queue[snapshot.tasks.job[candidate]])
            held = left.setdefault(queue, self._book.allocated[queue].copy())
            charge = self._groups.task_charge(candidate)
            if self._may_lose(task, queue, held, charge):
                held -= charge
                victims.append(candidate)
        return victims

    def _may_lose(self, task: int, queue: int, held: Ints, charge: Ints) -> bool:
        """Whether a queue that holds so much may lose so much for a task."""
        return bool((held > self.deserved[queue])[self._book.counts].any())

    def job_enqueueable(self, job: int) -> Vote:
        queue = int(self._groups.snapshot.jobs.queue[job])
        if not self._groups.queue(queue).is_open:
            return Vote.REJECT
        if self._groups.terms(job).min_resources is None:
            return Vote.PERMIT
        fits = self._book.may_enter(job, queue, self._capability[queue])
        return Vote.PERMIT if fits else Vote.REJECT

    def job_enqueued(self, job: int) -> None:
        queue = int(self._groups.snapshot.jobs.queue[job])
        self._book.inqueue[queue] += self._book.min_resources(job)


class _KeepsWhatItDeserves(_ByWeight):
    def begin(self, tiers: Rules) -> None:
        super().begin(tiers)
        lacks = (self.deserved < self._book.request).any(axis=0)
        self._is_scarce: Bools = np.asarray(lacks & self._book.counts)
        """Of what somebody gets less than he asks for. Of the rest all deserve what they hold."""

    def _may_lose(self, task: int, queue: int, held: Ints, charge: Ints) -> bool:
        scarce, deserved = self._is_scarce, self.deserved[queue]
        if not charge[scarce].any():
            return False
        if self._is_owed(task):
            return bool((held > deserved)[scarce].any())
        return bool((held - charge >= deserved)[scarce].all())

    def _is_owed(self, task: int) -> bool:
        """Whether the task's queue deserves it too, beside what it holds."""
        groups = self._groups
        queue = int(groups.snapshot.jobs.queue[groups.snapshot.tasks.job[task]])
        asked = groups.task_charge(task)
        used = self._book.allocated[queue] + asked
        return self._book.is_within(used, self.deserved[queue], asked)


def deserved_by_weight(book: QueueBook, capability: Ints) -> Ints:
    """int64[Q, R]: the cluster divided by weight among queues that have jobs, none more than it
    asks for or may hold, none less than its guarantee; what is left over is divided again.
    """
    groups = book.groups
    weight = np.array([groups.queue(queue).weight for queue in range(book.count)], dtype=float)
    deserved = np.zeros((book.count, book.width))
    remaining = groups.total.astype(np.float64)
    unmet = book.has_jobs.copy()
    while unmet.any() and (remaining[book.counts] >= 1).any():
        part = weight[unmet] / weight[unmet].sum()
        before = deserved[unmet]
        grown = np.minimum(before + part[:, np.newaxis] * remaining, capability[unmet])
        grown = np.maximum(np.minimum(grown, book.request[unmet]), book.guarantee[unmet])
        deserved[unmet] = grown
        left = remaining - (grown - before).sum(axis=0)
        is_met = (book.request[unmet] <= grown)[:, book.counts].all(axis=1)
        is_met |= (np.abs(grown - before) < 1e-6).all(axis=1)
        unmet[np.flatnonzero(unmet)[is_met]] = False
        remaining = np.maximum(left, 0)
        if not is_met.any() and (np.abs(grown - before) < 1).all():
            break
    return np.floor(deserved + 1e-6).astype(np.int64)
