"""Lazy queue, job and task order, by key columns.

`JobQueue` queues every job that may be served; the order itself, re-evaluated along the path
that changed, is in `numerics.queue_order`.
"""

from dataclasses import dataclass

import numpy as np

from muster.api.queue_tree import Rootless
from muster.engine import gang
from muster.engine.session import Session
from muster.model.nearest import nearest
from muster.model.presence import active_allocated
from muster.model.reasons import Reason, Refusal
from muster.model.snapshot import QueueColumns
from muster.model.status import TaskStatus
from muster.numerics import queue_order
from muster.numerics.arrays import Bools, Floats, Ints, Rows
from muster.numerics.axis import QUEUE_WIDTH

_MOST_NAMED = 5
"""Queues that a refusal lists."""
_NO_JOBS: Rows = np.zeros(0, dtype=np.int64)
_ROOTLESS = {
    None: Reason.QUEUE_MISSING,
    Rootless.PARENT_MISSING: Reason.QUEUE_PARENT_MISSING,
    Rootless.CYCLE: Reason.QUEUE_IN_CYCLE,
    Rootless.TOO_DEEP: Reason.QUEUE_TOO_DEEP,
}


@dataclass(frozen=True, slots=True)
class Waiting:
    """Pending tasks of plain jobs in the order in which they start, as CSR by job."""

    start: Ints  # [J + 1]
    tasks: Rows
    leaf: Ints  # [J]: the one leaf of a plain job, -1 for the others


class JobQueue:
    """Pending jobs in the order in which they are served."""

    def __init__(self, session: Session, action: str, among: Bools | None = None) -> None:
        """All that may be served; `among` bool[J] leaves out some."""
        self._session = session
        jobs = servable_jobs(session)
        if among is not None:
            jobs = jobs[among[jobs]]
        snapshot = session.snapshot
        is_plain = snapshot.jobs.is_plain[jobs]
        self.waiting = _waiting(session, jobs[is_plain])
        self.chunk: Ints = _plain_chunk_units(session, jobs[is_plain], self.waiting)
        add_chunk_units(session, jobs[~is_plain], self.chunk)
        keys = np.zeros((len(snapshot.jobs.live), 0))
        if len(jobs):
            columns = session.policy.job_keys(jobs)
            keys = np.zeros((len(snapshot.jobs.live), columns.shape[1]))
            keys[jobs] = columns
        self._keys = keys
        waiting = _within_depth(session, action, jobs, keys)
        self.queues = len(np.unique(snapshot.jobs.queue[waiting]))
        """How many have jobs that wait."""
        self.state = job_heaps(session, waiting, keys, self.chunk)
        self._handle = queue_order.handle(self.state)
        self._passed: Rows = np.empty(len(waiting), dtype=np.int64)
        self._run: Rows = np.empty(len(waiting), dtype=np.int64)

    def pop(self) -> int:
        """The next job, or -1. Call `finish` or `requeue` afterwards."""
        return int(queue_order.pop(self.state))

    def pop_run(self, classes: Ints, refused_at: Ints, changed: int = -1) -> tuple[Rows, Rows]:
        """The next job of a class that was not refused at this version of the ledger, with those
        right after it that want the same, and those that were passed over. All of them are done
        with.

        `classes` int64[J]; `refused_at` int64[classes] is the version of the last refusal. Equal
        jobs are taken together only where no other queue waits: otherwise the queues take turns.
        The queue of the job that `changed` is looked at first; -1: none did.
        """
        version, queue_of = self._session.ledger.version, self._session.snapshot.jobs.queue
        queue = int(queue_of[changed]) if changed >= 0 else -1
        taken, count = queue_order.pop_run(
            self._handle, queue, classes, refused_at, version, self._passed, self._run
        )
        return self._run[:taken], self._passed[:count]

    def drop(self, queue: int) -> list[int]:
        """Take out all jobs of a leaf queue; which they were."""
        start, size = self.state.heap_start[queue], self.state.heap_size[queue]
        dropped: list[int] = self.state.heap[start : start + size].tolist()
        self.state.heap_size[queue] = 0
        queue_order.refresh(self.state, queue)
        return dropped

    def finish(self, job: int) -> None:
        """The job will not be served again."""
        queue_order.refresh(self.state, int(self._session.snapshot.jobs.queue[job]))

    def requeue(self, job: int) -> None:
        """The job has more tasks to place: queue it anew."""
        row = np.array([job], dtype=np.int64)
        self._keys[job] = self._session.policy.job_keys(row)[0]
        add_chunk_units(self._session, row, self.chunk)
        queue_order.push(self.state, job)
        self.finish(job)


def job_heaps(session: Session, waiting: Rows, keys: Floats, chunk: Ints) -> queue_order.JobHeaps:
    """These jobs in the order of their queues; `keys` and `chunk` are by job row."""
    queues, jobs = session.snapshot.queues, session.snapshot.jobs
    found, shares = session.policy.queue_shares(), None
    if found is not None:
        # One memory layout, so that kernels are compiled for no other.
        columns = (found.fair_share, found.allocatable_share, found.quota, found.total)
        shares = queue_order.Shares(*(np.ascontiguousarray(c, dtype=np.float64) for c in columns))
    held = session.ledger.queue_allocated
    return queue_order.job_heaps(
        queue_order.Queues(queues.parent, queues.priority, queues.age_rank, held),
        shares,
        queue_order.Jobs(waiting, keys, jobs.age_rank, jobs.queue, chunk),
    )


def servable_jobs(session: Session) -> Rows:
    """Jobs with pending tasks that are ready and in a leaf queue; the others are refused."""
    snapshot = session.snapshot
    jobs, queues = snapshot.jobs, snapshot.queues
    for job in gang.gated_jobs(session).tolist():
        session.refuse(job, (gang.too_few(session, job),))
    waits = session.waiting_jobs()
    if not waits.any():  # As in most cycles, for the actions after the first.
        return _NO_JOBS
    in_queue = jobs.queue >= 0
    in_leaf = in_queue & queues.is_leaf[jobs.queue] if len(queues) else in_queue
    ready = gang.ready_jobs(snapshot, session.ledger)
    waits &= ~_on_hold(session, waits)
    waits &= ~_held_back(session, waits)
    waits &= ~_shut_out(session, waits)
    by_queue: dict[str, Refusal] = {}
    for job in np.flatnonzero(waits & ~(in_leaf & ready)).tolist():
        if in_leaf[job]:
            session.refuse(job, (gang.too_few(session, job),))
            continue
        queue = jobs.records[job].queue
        if queue not in by_queue:
            by_queue[queue] = _bad_queue(queues, queue, int(jobs.queue[job]))
        session.refuse(job, (by_queue[queue],))
    return np.flatnonzero(waits & in_leaf & ready).astype(np.int64)


def _held_back(session: Session, waits: Bools) -> Bools:
    """Jobs that were refused when they were to be bound, and wait until that is tried again."""
    held = np.zeros(len(waits), dtype=np.bool_)
    row = session.snapshot.jobs.row
    for key, refused in session.snapshot.cluster_objects.refused_binds.items():
        job = row.get(key)
        if job is not None and waits[job]:
            held[job] = True
            why = Refusal(Reason.BIND_REFUSED, subject=refused.why, until_s=refused.until_s)
            session.refuse(job, (why,))
    return held


def _on_hold(session: Session, waits: Bools) -> Bools:
    """Jobs that somebody put on hold."""
    held = np.zeros(len(waits), dtype=np.bool_)
    for job in np.flatnonzero(waits & session.snapshot.jobs.is_on_hold).tolist():
        held[job] = True
        why = session.snapshot.jobs.records[job].on_hold or ""
        session.refuse(job, (Refusal(Reason.HELD, subject=why),))
    return held


def _shut_out(session: Session, waits: Bools) -> Bools:
    """Jobs of namespaces that their queues are not open to."""
    shut_out = np.zeros(len(waits), dtype=np.bool_)
    jobs, open_to = session.snapshot.jobs, session.snapshot.queues.open_to
    for job in np.flatnonzero(waits).tolist() if open_to else ():
        welcome = open_to.get(int(jobs.queue[job]))
        if welcome is not None and jobs.keys[job].partition("/")[0] not in welcome:
            shut_out[job] = True
            session.refuse(job, (Refusal(Reason.QUEUE_CLOSED, subject=jobs.records[job].queue),))
    return shut_out


def _bad_queue(queues: QueueColumns, name: str, row: int) -> Refusal:
    """Why no job can run in the queue of this name; `row` is -1 where it is not in the tree."""
    if row >= 0:
        below = np.flatnonzero(queues.parent == row).tolist()
        listed = tuple(queues.names[child] for child in below[:_MOST_NAMED])
        more = (f"{len(below) - len(listed)} more",) if len(below) > len(listed) else ()
        return Refusal(Reason.QUEUE_NOT_LEAF, subject=name, names=(*listed, *more))
    why = _ROOTLESS[queues.rootless.get(name)]
    meant = nearest(name, queues.names) if why is Reason.QUEUE_MISSING else ""
    subject = queues.missing_ancestor.get(name, name)
    return Refusal(why, subject=subject, names=(meant,) if meant else ())


def _waiting(session: Session, jobs: Rows) -> Waiting:
    """Pending tasks of these plain jobs, in task order."""
    snapshot = session.snapshot
    count = len(snapshot.jobs.live)
    leaf = np.full(count, -1, dtype=np.int64)
    leaf[jobs] = snapshot.jobs.leaves[snapshot.jobs.start[jobs]]
    is_wanted = np.zeros(len(snapshot.leaves.job), dtype=np.bool_)
    is_wanted[leaf[jobs]] = True
    rows = session.pending_in_order()
    is_pending = session.ledger.status[rows] == TaskStatus.PENDING
    rows = rows[is_pending & is_wanted[snapshot.tasks.leaf[rows]]]
    job = snapshot.tasks.job[rows]
    rows = rows[np.argsort(job, kind="stable")]
    start = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(job, minlength=count), out=start[1:])
    return Waiting(start, rows, leaf)


def _plain_chunk_units(session: Session, jobs: Rows, waiting: Waiting) -> Ints:
    """What the next chunk of each plain job adds to its queue: int64[J, queue resources]."""
    snapshot = session.snapshot
    units = np.zeros((len(snapshot.jobs.live), QUEUE_WIDTH), dtype=np.int64)
    per_task = snapshot.demand.queue_units[snapshot.tasks.shape[waiting.tasks]]
    sums = np.zeros((len(per_task) + 1, QUEUE_WIDTH), dtype=np.int64)
    np.cumsum(per_task, axis=0, out=sums[1:])
    leaf = waiting.leaf[jobs]
    missing = snapshot.leaves.minimum[leaf] - active_allocated(session.ledger, leaf)
    start, stop = waiting.start[jobs], waiting.start[jobs + 1]
    units[jobs] = sums[np.minimum(start + np.maximum(missing, 1), stop)] - sums[start]
    return units


def add_chunk_units(session: Session, jobs: Rows, units: Ints, is_real: bool = True) -> None:
    """The same for any jobs, one by one, into `units`; `is_real` as for `next_chunk`."""
    demand, shape = session.snapshot.demand.queue_units, session.snapshot.tasks.shape
    for job in jobs.tolist():
        units[job] = demand[shape[gang.next_chunk(session, job, is_real)]].sum(axis=0)


def _within_depth(session: Session, action: str, jobs: Rows, keys: Floats) -> Rows:
    """The best jobs of each queue, as many as the configuration lets an action look at."""
    depth = session.configured.queue_depth.get(action)
    if depth is None:
        return jobs
    snapshot = session.snapshot
    order = np.lexsort((snapshot.jobs.age_rank[jobs], *keys[jobs].T[::-1]))
    seen: dict[int, int] = {}
    kept = []
    for job in jobs[order].tolist():
        queue = int(snapshot.jobs.queue[job])
        seen[queue] = seen.get(queue, 0) + 1
        if seen[queue] <= depth:
            kept.append(job)
        else:
            name = snapshot.queues.names[queue] if queue >= 0 else ""
            refusal = Refusal(Reason.QUEUE_DEPTH, name, names=(str(seen[queue]), str(depth)))
            session.refuse(job, (refusal,))
    return np.array(sorted(kept), dtype=np.int64)
