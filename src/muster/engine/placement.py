"""A job's tasks onto nodes: shared by allocate and by every search.

The next chunk of a job is placed group by group: each group is tried in the node sets that plugins
propose for it, best first, its children inside the set that it got, the tasks of a leaf one after
another. The first set in which everything fits is taken; there is no look-ahead across siblings. If
a gang could only partly start now, all of it waits.
"""

from dataclasses import dataclass

import msgspec
import numpy as np

from muster.engine import gang
from muster.engine.hooks import Dependence, NodeSubset, NoSubset, SubGroupRequest
from muster.engine.node_choice import NodeQuery, best_place, refusal
from muster.engine.session import Session
from muster.engine.statement import Statement
from muster.model.ledger import EntryKind
from muster.model.reasons import Refusal
from muster.model.records import SubGroupRecord
from muster.model.status import IS_ACTIVE_ALLOCATED, IS_ALLOCATED, TaskStatus
from muster.numerics.arrays import Bools, Rows
from muster.numerics.place_victims import can_stay


@dataclass(frozen=True, slots=True)
class Placed:
    """The chunk has its places, in the statement."""

    tasks: Rows
    waits: bool
    """Some or all of it waits for what others leave."""


@dataclass(frozen=True, slots=True)
class NotPlaced:
    """Nothing was changed. Most important refusal first."""

    refusals: tuple[Refusal, ...]


@dataclass(frozen=True, slots=True)
class Failure:
    """How many equal tasks were too many, and why."""

    size: int
    refusals: tuple[Refusal, ...]


Failures = dict[int, Failure]
"""By shape. Valid as long as nothing is given back."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A job that is to be placed within some nodes. `may_start` False: a simulation."""

    session: Session
    statement: Statement
    job: int
    within: Bools
    may_start: bool = True
    tasks: Rows | None = None
    """Which tasks to place; None is the next chunk of the job."""
    restarts: bool = False
    """Whether a task that was evicted in this simulation starts anew even in its old place."""
    failures: Failures | None = None
    """What failed before and would fail again, where the caller keeps account of it."""


def place_job(attempt: Attempt) -> Placed | NotPlaced:
    """Place the next chunk of the job, whole or not at all."""
    session, job = attempt.session, attempt.job
    chunk = attempt.tasks
    if chunk is None:
        chunk = gang.next_chunk(session, job, is_real=attempt.may_start)
    objection = _objection(session, job, chunk)
    if objection is not None:
        return NotPlaced((objection,))
    known = _known_failure(attempt, chunk)
    if known is not None:
        return NotPlaced(tuple(_about(session, job, each) for each in known.refusals))
    start = attempt.statement.checkpoint()
    groups = _Groups(attempt, chunk)
    if groups.place(session.snapshot.jobs.records[job].sub_groups, NodeSubset(attempt.within)):
        return Placed(chunk, _wait_as_a_whole(attempt))
    attempt.statement.rollback(start)
    refusals = tuple(dict.fromkeys(groups.refusals))
    _remember_failure(attempt, chunk, refusals)
    return NotPlaced(refusals)


def _known_failure(attempt: Attempt, chunk: Rows) -> Failure | None:
    """An equal gang, no larger, that found no place before."""
    if not attempt.failures:
        return None
    key = _class_of(attempt, chunk)
    known = attempt.failures.get(key) if key is not None else None
    return known if known is not None and len(chunk) >= known.size else None


def _about(session: Session, job: int, refusal: Refusal) -> Refusal:
    """The refusal of an equal plain job, with this one's own sub-group and minimum."""
    leaf = session.snapshot.jobs.records[job].sub_groups.children[0]
    grows = bool(gang.are_growing(session, session.snapshot.leaves_of_job(job)[:1])[0])
    return msgspec.structs.replace(
        refusal, sub_group=leaf.name, minimum=1 if grows else leaf.minimum or 0
    )


def _remember_failure(attempt: Attempt, chunk: Rows, refusals: tuple[Refusal, ...]) -> None:
    key = _class_of(attempt, chunk) if attempt.failures is not None else None
    if attempt.failures is not None and key is not None:
        attempt.failures[key] = Failure(len(chunk), refusals)


def _class_of(attempt: Attempt, chunk: Rows) -> int | None:
    """The shape of a plain job of equal tasks whose fit depends on nothing but room."""
    snapshot = attempt.session.snapshot
    shapes = snapshot.tasks.shape[chunk]
    row = int(shapes[0])
    if not snapshot.jobs.is_plain[attempt.job] or bool((shapes != row).any()):
        return None
    if snapshot.demand.is_memory[row]:
        return None  # what a node costs the queue counts too
    if attempt.session.answers(snapshot.shapes[row]).dependence >= Dependence.NODE:
        return None
    return row


def _objection(session: Session, job: int, chunk: Rows) -> Refusal | None:
    """Why it is pointless to look for nodes."""
    if len(chunk) == 0:
        return gang.too_few(session, job)
    over = session.policy.over_capacity(job, chunk)
    if over is not None:
        return over
    for row in dict.fromkeys(session.snapshot.tasks.shape[chunk].tolist()):
        refused = session.refused_everywhere(session.snapshot.shapes[row], job)
        if refused is not None:
            return refused
    return None


class _Groups:
    """Places the groups of one job and collects why it could not."""

    def __init__(self, attempt: Attempt, chunk: Rows) -> None:
        self._attempt = attempt
        self._session = attempt.session
        self._statement = attempt.statement
        self._leaves = gang.leaf_by_name(attempt.session.snapshot, attempt.job)
        leaf_of_task = attempt.session.snapshot.tasks.leaf[chunk]
        self._chunk = {name: chunk[leaf_of_task == row] for name, row in self._leaves.items()}
        self.refusals: list[Refusal] = []

    def place(self, group: SubGroupRecord, inside: NodeSubset) -> bool:
        """Place everything of the chunk that lies under the group."""
        tasks = self._tasks_under(group)
        if len(tasks) == 0:
            return True
        request = SubGroupRequest(self._attempt.job, group, tasks, self._allocated_under(group))
        subsets = self._session.policy.node_subsets(request, inside.nodes)
        if isinstance(subsets, NoSubset):
            self.refusals.append(subsets.refusal)
            return False
        for subset in subsets:
            score = inside.score if subset.score is None else subset.score
            chosen = NodeSubset(subset.nodes, score, subset.label)
            checkpoint = self._statement.checkpoint()
            if self._place_inside(group, tasks, chosen):
                return True
            self._statement.rollback(checkpoint)
        return False

    def _place_inside(self, group: SubGroupRecord, tasks: Rows, subset: NodeSubset) -> bool:
        if not group.children:
            return self._place_tasks(group, tasks, subset)
        members = self._session.ordered_sub_groups(self._attempt.job, group.children)
        return all(self.place(member, subset) for member in members)

    def _place_tasks(self, group: SubGroupRecord, tasks: Rows, subset: NodeSubset) -> bool:
        for found, task in enumerate(tasks.tolist()):
            query = NodeQuery(
                self._session, self._attempt.job, task, subset, self._attempt.may_start
            )
            place = best_place(query)
            if place is None:
                self._explain(query, found, group)
                return False
            if place.starts_now:
                self._statement.allocate(task, place.node, place.shares)
            elif self._stays(task, place.node, place.shares):
                self._statement.restore(task)
            else:
                self._statement.pipeline(task, place.node, place.shares)
        return True

    def _stays(self, task: int, node: int, shares: Rows) -> bool:
        """Whether a task that was evicted in this simulation got its old place again."""
        ledger = self._session.ledger
        return (
            not self._attempt.restarts
            and ledger.status[task] == TaskStatus.RELEASING
            and int(ledger.node[task]) == node
            and (len(shares) == 0 or bool(can_stay(ledger.handle, task, shares)))
            and bool(self._session.policy.can_return(np.array([task])).all())
        )

    def _explain(self, query: NodeQuery, found: int, group: SubGroupRecord) -> None:
        if self._attempt.may_start:
            self.refusals.append(refusal(query, found, group.minimum or 0))

    def _tasks_under(self, group: SubGroupRecord) -> Rows:
        parts = [self._chunk[leaf.name] for leaf in gang.leaves_under(group) if leaf.name]
        return np.concatenate(parts) if parts else gang.NO_TASKS

    def _allocated_under(self, group: SubGroupRecord) -> Rows:
        snapshot = self._session.snapshot
        rows = [
            snapshot.tasks_of_leaf(self._leaves[leaf.name])
            for leaf in gang.leaves_under(group)
            if len(self._chunk[leaf.name])
        ]
        held = np.concatenate(rows) if rows else gang.NO_TASKS
        return held[IS_ACTIVE_ALLOCATED[self._session.ledger.status[held]]]


def _wait_as_a_whole(attempt: Attempt) -> bool:
    """Postpone what was allocated if a gang of the job cannot start with what can start now.

    Returns whether anything of the job waits.
    """
    session = attempt.session
    leaves = session.snapshot.leaves_of_job(attempt.job)
    counts = session.ledger.counts[leaves]
    waiting = counts[:, TaskStatus.PIPELINED] > 0
    if not waiting.any():
        return False
    started = counts[:, IS_ALLOCATED].sum(axis=1)
    if not attempt.may_start:
        return True  # nothing starts in a simulation
    if (waiting & (started < session.snapshot.leaves.minimum[leaves])).any():
        entries = attempt.statement.entries()
        is_mine = session.snapshot.tasks.job[entries.task] == attempt.job
        for task in entries.task[is_mine & (entries.kind == EntryKind.ALLOCATE)].tolist():
            attempt.statement.postpone(task)
    return True
