"""Accounts: what jobs and queues hold over all resources, kept as the ledger changes.

Tasks that wait for a node count as held, as in Volcano; tasks that leave do not.
"""

import numpy as np

from muster.engine.tiers.groups import IS_HELD, Groups
from muster.model.ledger import Entries, EntryKind
from muster.numerics.arrays import Ints

_CHANGE = {
    EntryKind.ALLOCATE: 1,
    EntryKind.PIPELINE: 1,
    EntryKind.EVICT: -1,
    EntryKind.RESTORE: 1,
    EntryKind.POSTPONE: 0,
}


def held_change(entries: Entries) -> Ints:
    """By entry: whether its task is held once more (1) or less (-1)."""
    change = [_CHANGE[EntryKind(kind)] for kind in entries.kind.tolist()]
    return entries.sign * np.array(change, dtype=np.int64)


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
        amounts = self._groups.request[self._tasks.shape[tasks]] * sign[:, np.newaxis]
        job = self._tasks.job[tasks]
        known = job >= 0
        np.add.at(self.job, job[known], amounts[known])
        queue = np.where(known, self._queue_of_job[job], -1)
        np.add.at(self.queue, queue[queue >= 0], amounts[queue >= 0])
