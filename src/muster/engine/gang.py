"""Which tasks of a job are tried next, and when a job is ready or satisfied.

A job is a tree of sub-groups. A leaf is satisfied when as many of its tasks as its minimum hold a
place; an inner group when enough of its children are (all of them unless it says so). The next
chunk is what is missing for that, all at once; after it, one task at a time.
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from muster.engine.session import Session
from muster.model.ledger import Ledger
from muster.model.reasons import Reason, Refusal
from muster.model.records import DEFAULT_SUB_GROUP, SubGroupRecord
from muster.model.snapshot import ClusterSnapshot
from muster.model.status import (
    IS_ACTIVE_ALLOCATED,
    IS_ACTIVE_USED,
    IS_ALIVE,
    TaskStatus,
)
from muster.numerics.arrays import Bools, Rows

NO_TASKS: Rows = np.zeros(0, dtype=np.int64)
_MAY_START = IS_ALIVE.astype(np.int64)
"""What a task counts for, by status: to multiply copies no columns, as to select and add does."""
_MAY_START[TaskStatus.GATED] = 0


def ready_jobs(snapshot: ClusterSnapshot, ledger: Ledger) -> Bools:
    """Jobs that have enough tasks, gated ones apart, to start: bool[J]."""
    has_enough = ledger.counts @ _MAY_START >= snapshot.leaves.minimum
    jobs = snapshot.jobs
    ready = np.zeros(len(jobs.live), dtype=np.bool_)
    plain = np.flatnonzero(jobs.live & jobs.is_plain)
    ready[plain] = has_enough[jobs.leaves[jobs.start[plain]]]
    is_flat = jobs.live & ~jobs.is_plain & (jobs.flat_minimum >= 0)
    size = np.diff(jobs.start)
    of_job = np.repeat(np.arange(len(size)), size)
    met_count = np.bincount(of_job[has_enough[jobs.leaves[: len(of_job)]]], minlength=len(size))
    ready[is_flat] = met_count[is_flat] >= jobs.flat_minimum[is_flat]
    for job in np.flatnonzero(jobs.live & ~jobs.is_plain & ~is_flat).tolist():
        met = {name for name, row in leaf_by_name(snapshot, job).items() if has_enough[row]}
        ready[job] = _is_met(jobs.records[job].sub_groups, met)
    return ready


def too_few(session: Session, job: int) -> Refusal:
    """Why a job is not ready: the first sub-group that lacks pods, or whose pods are gated."""
    snapshot, counts = session.snapshot, session.ledger.counts
    leaves = snapshot.leaves_of_job(job)
    gated = counts[leaves, TaskStatus.GATED]
    there = counts[leaves][:, IS_ALIVE].sum(axis=1) - gated
    minimum = snapshot.leaves.minimum[leaves]
    short = np.flatnonzero(there < minimum)
    if not len(short):
        return Refusal(Reason.TOO_FEW_TASKS)
    absent = np.flatnonzero(there + gated < minimum)
    at = int(absent[0] if len(absent) else short[0])
    name = snapshot.leaves.names[leaves[at]]
    if not len(absent) and (failed := failed_binding(snapshot, int(leaves[at]))):
        return Refusal(Reason.BIND_REFUSED, subject=failed)
    return Refusal(
        Reason.TOO_FEW_TASKS if len(absent) else Reason.GATED,
        sub_group="" if name == DEFAULT_SUB_GROUP else name,
        found=int(there[at]),
        minimum=int(minimum[at]),
        gated=int(gated[at]),
    )


def failed_binding(snapshot: ClusterSnapshot, leaf: int) -> str:
    """Why the binding of a pod of the leaf failed that is held back for that; "": of none."""
    records = snapshot.tasks.records
    return next(
        filter(None, (records[row].bind_failed for row in snapshot.tasks_of_leaf(leaf))), ""
    )


def gated_jobs(session: Session) -> Rows:
    """Jobs that only gates keep from being looked at: none of their tasks may be placed."""
    gated = session.ledger.counts[:, TaskStatus.GATED] > 0
    if not gated.any():
        return NO_TASKS
    snapshot = session.snapshot
    jobs = np.unique(snapshot.leaves.job[gated]).astype(np.int64)
    is_idle = ~session.waiting_jobs()[jobs] & ~ready_jobs(snapshot, session.ledger)[jobs]
    return jobs[is_idle & snapshot.jobs.live[jobs]]


def leaf_by_name(snapshot: ClusterSnapshot, job: int) -> dict[str, int]:
    """Leaf rows of a job by the name of the sub-group."""
    return {snapshot.leaves.names[row]: row for row in snapshot.leaves_of_job(job).tolist()}


def needs_all(group: SubGroupRecord) -> bool:
    """Whether no sub-group may be left out."""
    if not group.children:
        return True
    needed = len(group.children) if group.minimum is None else group.minimum
    return needed >= len(group.children) and all(map(needs_all, group.children))


def is_occupied(session: Session, job: int) -> bool:
    """As many sub-groups as the job needs have their minimum on nodes, leaving tasks included."""
    rows = leaf_by_name(session.snapshot, job)
    leaves = np.fromiter(rows.values(), np.int64, len(rows))
    used = session.ledger.counts[leaves][:, IS_ACTIVE_USED].sum(axis=1)
    enough = used >= session.snapshot.leaves.minimum[leaves]
    met = {name for name, is_met in zip(rows, enough.tolist(), strict=True) if is_met}
    return _is_met(session.snapshot.jobs.records[job].sub_groups, met)


def next_chunk(session: Session, job: int, is_real: bool = True) -> Rows:
    """The tasks to try next, in order; none when there is nothing to try.

    `is_real` False is a simulation: tasks that were evicted in it may be placed again.
    """
    snapshot = session.snapshot
    if snapshot.jobs.is_plain[job]:
        return _leaf_chunk(session, int(snapshot.leaves_of_job(job)[0]), is_real)
    rows = leaf_by_name(snapshot, job)
    chunk = _Chunk(session, job, rows, is_real).of(snapshot.jobs.records[job].sub_groups)
    return np.array(chunk, dtype=np.int64)


class _Chunk:
    """Collects the tasks of one job, group by group."""

    def __init__(self, session: Session, job: int, rows: dict[str, int], is_real: bool) -> None:
        self._session = session
        self._job = job
        self._rows = rows
        self._is_real = is_real
        self._satisfied = _satisfied_leaves(session, rows)

    def of(self, group: SubGroupRecord) -> list[int]:
        if not group.children and group.name in self._rows:
            return list(_leaf_chunk(self._session, self._rows[group.name], self._is_real))
        members = self._session.ordered_sub_groups(self._job, group.children)
        satisfied = [_is_met(member, self._satisfied) for member in members]
        required = required_members(group)
        if sum(satisfied) >= required:
            return next((tasks for tasks in map(self.of, members) if tasks), [])
        wanted = zip(members[:required], satisfied, strict=False)
        return [task for member, has_enough in wanted if not has_enough for task in self.of(member)]


def required_members(group: SubGroupRecord) -> int:
    """How many children of an inner group must be satisfied."""
    return len(group.children) if group.minimum is None else group.minimum


def leaves_under(group: SubGroupRecord) -> Sequence[SubGroupRecord]:
    """The groups with tasks at or below this one."""
    if not group.children:
        return (group,)
    return tuple(leaf for child in group.children for leaf in leaves_under(child))


def _is_met(group: SubGroupRecord, met: Collection[str]) -> bool:
    """`met` are the names of the leaves that have enough."""
    if not group.children:
        return group.name in met
    return sum(_is_met(child, met) for child in group.children) >= required_members(group)


def are_growing(session: Session, leaves: Rows) -> Bools:
    """Which leaves hold what they need to start, so that one more task is no gang: bool[len]."""
    held = session.ledger.counts[leaves][:, IS_ACTIVE_ALLOCATED].sum(axis=1)
    growing: Bools = held >= np.maximum(session.snapshot.leaves.minimum[leaves], 1)
    return growing


def _satisfied_leaves(session: Session, rows: Mapping[str, int]) -> set[str]:
    """Those that have their minimum; all asked at once, for there may be thousands."""
    leaves = np.fromiter(rows.values(), np.int64, len(rows))
    held = session.ledger.counts[leaves][:, IS_ACTIVE_ALLOCATED].sum(axis=1)
    enough = held >= session.snapshot.leaves.minimum[leaves]
    return {name for name, has_enough in zip(rows, enough.tolist(), strict=True) if has_enough}


def _leaf_chunk(session: Session, leaf: int, is_real: bool) -> Rows:
    waiting = session.waiting_tasks(leaf, is_real)
    held = int(session.ledger.counts[leaf, IS_ACTIVE_ALLOCATED].sum())
    missing = int(session.snapshot.leaves.minimum[leaf]) - held
    return waiting[: missing if missing > 0 else 1]
