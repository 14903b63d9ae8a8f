"""Who might be evicted at all: preemptible jobs that hold something."""

import numpy as np

from muster.engine.session import Session
from muster.model.status import IS_ACTIVE_ALLOCATED
from muster.numerics.arrays import Rows


class Evictable:
    """The jobs, ascending, and the queue of each, as they are when this is made.

    A job with a pod on a node that is not here (it is gone, or another shard's by now) is none of
    them: nobody knows what room its pod would leave, and the others of its gang go with it.
    """

    def __init__(self, session: Session) -> None:
        self.version = session.ledger.version
        self.jobs = _evictable(session)
        self.queue: Rows = session.snapshot.jobs.queue[self.jobs]
        order = np.argsort(self.queue, kind="stable")
        self._by_queue = self.jobs[order]
        rows = np.arange(len(session.snapshot.queues) + 1)
        self._start = np.searchsorted(self.queue[order], rows).tolist()
        self._outside: dict[int, Rows] = {}

    def in_queue(self, queue: int) -> Rows:
        """Those of one leaf queue."""
        return self._by_queue[self._start[queue] : self._start[queue + 1]]

    def outside(self, queue: int) -> Rows:
        """Those of all other queues."""
        if queue not in self._outside:
            self._outside[queue] = self.jobs[self.queue != queue]
        return self._outside[queue]


def _evictable(session: Session) -> Rows:
    snapshot, ledger = session.snapshot, session.ledger
    held = ledger.counts[:, IS_ACTIVE_ALLOCATED].sum(axis=1) > 0
    holds = np.zeros(len(snapshot.jobs.live), dtype=np.bool_)
    holds[snapshot.leaves.job[held]] = True
    elsewhere = IS_ACTIVE_ALLOCATED[ledger.status] & (ledger.node < 0) & (snapshot.tasks.job >= 0)
    holds[snapshot.tasks.job[elsewhere]] = False
    queue = snapshot.jobs.queue
    in_leaf = (queue >= 0) & snapshot.queues.is_leaf[queue]
    chosen = holds & snapshot.jobs.live & snapshot.jobs.is_preemptible & in_leaf
    return np.flatnonzero(chosen).astype(np.int64)
