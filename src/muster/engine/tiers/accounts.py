"""Accounts: what jobs and queues hold over all resources, kept as the ledger changes.

Tasks that wait for a node count as held, as in Volcano; tasks that leave do not.
"""

import numpy as np

from muster.engine.tiers.groups import IS_HELD, Groups
from muster.model.ledger import Entries, EntryKind
from muster.numerics.arrays import Ints

_CHANGE = np.zeros(len(EntryKind) + 1, dtype=np.int64)
_CHANGE[[EntryKind.ALLOCATE, EntryKind.PIPELINE, EntryKind.RESTORE]] = 1
_CHANGE[EntryKind.EVICT] = -1


def held_change(entries: Entries) -> Ints:
    """By entry: whether its task is held once more (1) or less (-1)."""
    change: Ints = entries.sign * _CHANGE[entries.kind]
    return change


class Accounts:
    """int64[J, R] and int64[Q, R]."""

    def __init__(self, groups: Groups) -> None:
        snapshot = groups.snapshot
        self._groups, self._tasks = groups, snapshot.tasks
        self._queue_of_job = snapshot.jobs.queue
        width = len(snapshot.axis)
        self.job: Ints = np.zeros((len(snapshot.jobs.live), width), dtype=np.int64)
        self.queue: Ints = np.zeros((len(snapshot.queues), width), dtype=np.int64)
        tasks = snapshot.tasks
        held = np.flatnonzero(tasks.live & (tasks.job >= 0) & IS_HELD[groups.ledger.status])
        self._add(held, np.ones(len(held), dtype=np.int64))

    def on_ledger_change(self, entries: Entries) -> None:
        self._add(entries.task, held_change(entries))

    def _add(self, tasks: Ints, sign: Ints) -> None:
        amounts = self._groups.charges(tasks) * sign[:, np.newaxis]
        job = self._tasks.job[tasks]
        if len(job) and job[0] >= 0 and (job == job[0]).all():
            total, queue = amounts.sum(axis=0), int(self._queue_of_job[job[0]])
            self.job[job[0]] += total
            if queue >= 0:
                self.queue[queue] += total
            return
        known = job >= 0
        np.add.at(self.job, job[known], amounts[known])
        queues = np.where(known, self._queue_of_job[job], -1)
        np.add.at(self.queue, queues[queues >= 0], amounts[queues >= 0])
