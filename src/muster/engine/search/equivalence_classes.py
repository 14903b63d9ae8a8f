"""Equivalence classes: which pending jobs are equal to a search: same queue, importance and wishes.

The refusal of one of them holds for the next, as long as nothing is decided in between, and many of
them can be served at once. Jobs with sub-groups or with unlike tasks are equal only to themselves.
"""

from collections.abc import Sequence

import numpy as np

from muster.engine import gang
from muster.engine.ordering import JobQueue
from muster.engine.session import Session
from muster.model.status import IS_ACTIVE_ALLOCATED
from muster.numerics.arrays import Bools, Floats, Ints, Rows


class JobClasses:
    """Classes of the jobs that wait in an action, and the tasks that each wants placed next."""

    def __init__(self, session: Session, job_queue: JobQueue) -> None:
        self._session = session
        self._waiting = job_queue.waiting
        self._units = job_queue.chunk
        self._chunk = _chunk_sizes(session, job_queue)
        self.of_job = _job_classes(session, job_queue, self._chunk)
        """The class of every job, int64[J]; equal jobs have equal classes."""
        self.refused_at: Ints = np.full(2 * len(self.of_job), -1, dtype=np.int64)
        """By class: the version of the ledger when such a job was refused last; -1: never."""

    def of(self, job: int) -> int:
        """The class of a job."""
        return int(self.of_job[job])

    def request(self, jobs: list[int], tasks: Rows) -> Floats:
        """What these jobs ask of their queue for their next tasks: float64[queue resources]."""
        if int(self._chunk[jobs[0]]):
            return np.asarray(self._units[jobs[0]] * float(len(jobs)))
        snapshot = self._session.snapshot
        units = snapshot.demand.queue_units[snapshot.tasks.shape[tasks]]
        return np.asarray(units.sum(axis=0), dtype=np.float64)

    def chunk(self, jobs: list[int]) -> Rows:
        """The tasks that these equal jobs want placed next."""
        size = int(self._chunk[jobs[0]])
        if size == 0:
            return gang.next_chunk(self._session, jobs[0], is_real=False)
        if len(jobs) == 1:
            first = int(self._waiting.start[jobs[0]])
            return self._waiting.tasks[first : first + size]
        start = self._waiting.start[np.array(jobs, dtype=np.int64)]
        chunk: Rows = self._waiting.tasks[(start[:, np.newaxis] + np.arange(size)).reshape(-1)]
        return chunk


def _chunk_sizes(session: Session, job_queue: JobQueue) -> Ints:
    """Tasks in the next chunk of each plain job; 0 for the others: int64[J]."""
    waiting, leaf = job_queue.waiting, job_queue.waiting.leaf
    sizes = np.zeros(len(leaf), dtype=np.int64)
    jobs = np.flatnonzero(leaf >= 0)
    held = session.ledger.counts[leaf[jobs]][:, IS_ACTIVE_ALLOCATED].sum(axis=1)
    missing = session.snapshot.leaves.minimum[leaf[jobs]] - held
    waits = waiting.start[jobs + 1] - waiting.start[jobs]
    sizes[jobs] = np.minimum(np.maximum(missing, 1), waits)
    return sizes


def _job_classes(session: Session, job_queue: JobQueue, chunk: Ints) -> Ints:
    snapshot, waiting = session.snapshot, job_queue.waiting
    classes = len(chunk) + np.arange(len(chunk), dtype=np.int64)
    jobs = np.flatnonzero(chunk > 0)
    if len(jobs) == 0:
        return classes
    shape = snapshot.tasks.shape[waiting.tasks]
    first = shape[waiting.start[jobs]]
    owner = np.repeat(np.arange(len(chunk)), np.diff(waiting.start))
    lead = np.zeros(len(chunk), dtype=np.int64)
    lead[jobs] = first
    unlike = np.zeros(len(chunk), dtype=np.bool_)
    unlike[owner[shape != lead[owner]]] = True
    alike = ~unlike[jobs]
    columns = (
        snapshot.jobs.queue[jobs],
        snapshot.jobs.priority[jobs],
        snapshot.jobs.is_preemptible[jobs],
        first,
        chunk[jobs],
    )
    classes[jobs[alike]] = _codes([column[alike] for column in columns])
    return classes


def _codes(columns: Sequence[Rows | Bools]) -> Ints:
    """One number for each row: equal rows have equal ones."""
    order = np.lexsort(columns)
    is_new = np.zeros(len(order), dtype=np.bool_)
    for column in columns:
        ordered = column[order]
        is_new[1:] |= ordered[1:] != ordered[:-1]
    codes = np.empty(len(order), dtype=np.int64)
    codes[order] = np.cumsum(is_new)
    return codes
