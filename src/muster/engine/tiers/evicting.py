"""Making room on a node for one task: who is there, whether it would do, who goes first."""

from collections.abc import Callable

import numpy as np

from muster.engine.hooks import Dependence, NodeSubset, View
from muster.engine.node_choice import NodeQuery, best_place
from muster.engine.plugins.predicates.dynamic_filters import DynamicFilters
from muster.engine.session import Eviction
from muster.engine.statement import Statement
from muster.engine.tiers.fold import Tiers
from muster.engine.tiers.placing import keep_waiting, place_for, within_shard
from muster.engine.tiers.plugins.predicates import Predicates
from muster.model.ledger import NO_SHARES, EntryKind
from muster.model.shapes import Shape
from muster.model.status import IS_ACTIVE_ALLOCATED, TaskStatus
from muster.model.volumes import Volumes
from muster.numerics.arrays import Floats, Ints, Rows
from muster.numerics.place_victims import can_stay

IS_RUNNING = (TaskStatus.RUNNING,)
IS_EVICTABLE = (TaskStatus.RUNNING, TaskStatus.BOUND)
_MOVES = (Dependence.NODE, Dependence.CLUSTER)


class NodeTasks:
    """Tasks of jobs on each node when the cycle began."""

    def __init__(self, tiers: Tiers) -> None:
        tasks = tiers.session.snapshot.tasks
        self._status = tiers.session.ledger.status
        there = np.flatnonzero(tasks.live & (tasks.node >= 0) & (tasks.job >= 0))
        self._on: dict[int, list[int]] = {}
        for task, node in zip(there.tolist(), tasks.node[there].tolist(), strict=True):
            self._on.setdefault(node, []).append(task)

    def on(self, node: int, statuses: tuple[int, ...], wanted: Callable[[int], bool]) -> list[int]:
        """Those in these statuses now that are wanted."""
        return [
            task
            for task in self._on.get(node, ())
            if self._status[task] in statuses and wanted(task)
        ]


def nodes_by_score(tiers: Tiers, task: int) -> Rows:
    """Nodes that may take the task if there were room, the best first."""
    session = tiers.session
    shape = session.snapshot.shape_of(task)
    answers = session.answers(shape)
    subset = tiers.nodes_for(task, within_shard(session, NodeSubset(answers.fits)))
    rows = np.flatnonzero(subset.nodes)
    score: Floats = session.policy.score(shape, rows)
    if subset.score is not None:
        score = score + subset.score[rows]
    return rows[np.argsort(-score, kind="stable")]


def free_later(tiers: Tiers, node: int) -> Ints:
    """What the node has free once all who leave have left."""
    ledger = tiers.session.ledger
    free: Ints = ledger.idle[node] + ledger.releasing[node]
    return free


def fits_later(tiers: Tiers, task: int, node: int) -> bool:
    """Whether the node has room for the task, and takes it, once all who leave have left."""
    request = tiers.groups.task_request(task)
    asked = request > 0
    if (free_later(tiers, node)[asked] < request[asked]).any():
        return False
    if shares_later(tiers, task, node) is None:
        return False
    session = tiers.session
    shape = session.snapshot.shape_of(task)
    if session.answers(shape).dependence not in _MOVES:
        return True
    row = np.array([node], dtype=np.int64)
    if session.policy.fits(shape, row, _MOVES)[0]:
        return True
    return _fits_without_leaving(tiers, shape, row)


def shares_later(tiers: Tiers, task: int, node: int) -> Rows | None:
    """The shared GPUs that the task would get on the node once all who leave have left, none where
    it asks for none; None: there is no room on them.
    """
    session = tiers.session
    shape = session.snapshot.shape_of(task)
    if not shape.is_shared and not shape.gpu.claimed:
        return NO_SHARES
    only = np.zeros(len(session.snapshot.nodes), dtype=np.bool_)
    only[node] = True
    job = int(session.snapshot.tasks.job[task])
    place = best_place(NodeQuery(session, job, task, NodeSubset(only), may_start=False))
    return None if place is None else place.shares


def wait_there(tiers: Tiers, statement: Statement, task: int, node: int) -> None:
    """Let the task wait on a node on which it fits later."""
    shares = shares_later(tiers, task, node)
    assert shares is not None, "it fits later"
    statement.pipeline(task, node, shares)


def could_stay(tiers: Tiers, task: int) -> bool:
    """Whether a task that was evicted has its old place still, without anybody else leaving."""
    ledger = tiers.session.ledger
    node = int(ledger.node[task])
    if not would_do(tiers, task, node, []):
        return False
    shares = shares_later(tiers, task, node)
    if shares is None:
        return False
    return len(shares) == 0 or bool(can_stay(ledger.handle, task, shares))


def _fits_without_leaving(tiers: Tiers, shape: Shape, row: Rows) -> bool:
    """Whether the node takes the shape once nobody is there who leaves."""
    session = tiers.session
    view = View(session.snapshot, session.ledger, session.now_s, session.configured.settings)
    for each in session.policy.by_tier():
        plugin = each.answers
        if "fits" not in each.hooks or plugin.dependence(shape) not in _MOVES:
            continue
        if isinstance(each.made, Predicates):
            volumes = Volumes(session.snapshot)
            dynamic = DynamicFilters(view, volumes, IS_ACTIVE_ALLOCATED, each.made.off)
            if dynamic.reasons(shape, row).any():
                return False
        elif not plugin.fits(shape, row)[0]:
            return False
    return True


def would_do(tiers: Tiers, task: int, node: int, victims: list[int]) -> bool:
    """Whether the room of all victims, with what is free, is enough."""
    request = tiers.groups.task_request(task)
    asked = request > 0
    free = free_later(tiers, node) + tiers.groups.sum_of(victims)
    return bool((free[asked] >= request[asked]).all())


def place_at_once(tiers: Tiers, statement: Statement, task: int) -> bool:
    """Where nobody has to go for the task, it has that place: allocate comes later, or came before
    others gave something back.
    """
    session = tiers.session
    job = int(session.snapshot.tasks.job[task])
    if not tiers.allocatable(int(session.snapshot.jobs.queue[job]), task):
        return False
    place = place_for(session, job, task, NodeSubset(session.all_nodes >= 0))
    if place is None:
        return False
    if place.starts_now:
        statement.allocate(task, place.node, place.shares)
    else:
        statement.pipeline(task, place.node, place.shares)
    return True


def settle(tiers: Tiers, statement: Statement, job: int) -> bool:
    """Whether a job got something, and enough. It is committed where others go for it; what can be
    had without that is left to allocate, which starts it.
    """
    entries = statement.entries()
    if not len(entries.task) or not tiers.job_pipelined(job):
        return False
    starts = bool((entries.kind == EntryKind.ALLOCATE).any())
    if not starts or (entries.kind == EntryKind.EVICT).any():
        keep_waiting(tiers.session, statement)
        statement.commit()
    return True


def evict(tiers: Tiers, statement: Statement, victim: int, action: str, task: int) -> None:
    actor = int(tiers.session.snapshot.tasks.job[task])
    statement.evict(victim, Eviction(action, actor))
