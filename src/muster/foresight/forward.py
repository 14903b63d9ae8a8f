"""The queue played forward: jobs end, jobs come, and allocate gives away what is free.

One drawn future at a time, on columns: only statuses, nodes and what is idle change, so a look
costs a session and not a snapshot. Ends are never lumped beyond the scheduler's own period. Nobody
is evicted ahead of now; jobs that share GPUs stay where they are and are not estimated.
"""

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from muster.engine.session import Session
from muster.foresight.situation import Actions, Rules
from muster.model.columns import charged
from muster.model.snapshot import ClusterSnapshot
from muster.model.status import IS_ALLOCATED, TaskStatus
from muster.numerics.arrays import Bools, Bytes, Ints, Rows

Drawn = Callable[[int], float]
"""How long a job (by row) runs from its start."""


@dataclass(frozen=True)
class Course:
    """What all futures have in common."""

    snapshot: ClusterSnapshot
    """With jobs that may come later as rows that are gated."""
    rules: Rules
    now_s: float
    horizon_s: float
    period_s: float

    @cached_property
    def tasks_of(self) -> Sequence[Rows]:
        """Tasks by job row."""
        tasks = self.snapshot.tasks
        rows = np.flatnonzero(tasks.live & (tasks.job >= 0))
        order = rows[np.argsort(tasks.job[rows], kind="stable")]
        starts = np.searchsorted(tasks.job[order], np.arange(len(self.snapshot.jobs.live) + 1))
        return [order[starts[job] : starts[job + 1]] for job in range(len(starts) - 1)]

    @cached_property
    def is_simulated(self) -> Bools:
        """Jobs without shared GPUs: [J]."""
        simulated = self.snapshot.jobs.live.copy()
        shared = self.snapshot.demand.sharing[self.snapshot.tasks.shape] >= 0
        rows = shared & self.snapshot.tasks.live & (self.snapshot.tasks.job >= 0)
        simulated[self.snapshot.tasks.job[rows]] = False
        return simulated


@dataclass(slots=True)
class _State:
    status: Bytes
    node: Ints
    idle: Ints


def starts(
    course: Course,
    ends_s: Mapping[int, float],
    arrivals: Sequence[tuple[float, int]],
    drawn: Drawn,
    asked: frozenset[int],
) -> dict[int, float]:
    """When jobs (by row) start in one future; who is missing does not within the horizon.
    `ends_s`: when those that run end, `arrivals`: when gated ones come. Ends as soon as all that
    are `asked` about have started.
    """
    tasks = course.snapshot.tasks
    state = _State(tasks.status.copy(), tasks.node.copy(), course.snapshot.nodes.idle.copy())
    events = [(end_s, 0, job) for job, end_s in ends_s.items()]
    events += [(at_s, 1, job) for at_s, job in arrivals]
    heapq.heapify(events)
    found: dict[int, float] = {}
    now_s, end_s = course.now_s, course.now_s + course.horizon_s
    wanted = set(asked)
    while True:
        for job in _looked(course, state):
            found.setdefault(job, now_s)
            wanted.discard(job)
            heapq.heappush(events, (now_s + drawn(job), 0, job))
        if not wanted or not events:
            return found
        now_s = max(events[0][0], now_s + course.period_s)
        if now_s > end_s:
            return found
        while events and events[0][0] <= now_s:
            _, kind, job = heapq.heappop(events)
            (_come if kind else _end)(course, state, job)


def _end(course: Course, state: _State, job: int) -> None:
    rows = course.tasks_of[job]
    rows = rows[IS_ALLOCATED[state.status[rows]]]
    placed = rows[state.node[rows] >= 0]
    request = course.snapshot.demand.request[course.snapshot.tasks.shape[placed]]
    np.add.at(state.idle, state.node[placed], request)
    state.status[rows] = TaskStatus.SUCCEEDED


def _come(course: Course, state: _State, job: int) -> None:
    rows = course.tasks_of[job]
    state.status[rows[state.status[rows] == TaskStatus.GATED]] = TaskStatus.PENDING


def _looked(course: Course, state: _State) -> list[int]:
    """Jobs that start now; they are placed."""
    if not _may_start(course, state):
        return []
    snapshot = _as_it_is(course, state)
    session = Session(snapshot, course.rules.policy, course.now_s)
    for _, action in _giving(course.rules.until_allocate):
        action(session)
    ledger = session.ledger
    placed = np.flatnonzero(
        (state.status == TaskStatus.PENDING) & (ledger.status == TaskStatus.ALLOCATED)
    )
    if not len(placed):
        return []
    state.status[placed] = TaskStatus.RUNNING
    state.node[placed] = ledger.node[placed]
    state.idle[:] = ledger.idle
    return [int(job) for job in np.unique(snapshot.tasks.job[placed])]


def _may_start(course: Course, state: _State) -> bool:
    """Whether some pod that waits fits somewhere: otherwise nobody can start, and looking is of no
    use. Exact: whoever starts has a pod that fits.
    """
    waits = state.status == TaskStatus.PENDING
    shapes = np.unique(course.snapshot.tasks.shape[waits])
    requests = course.snapshot.demand.request[shapes]
    return any(bool((state.idle >= request).all(axis=1).any()) for request in requests)


def _giving(actions: Actions) -> Actions:
    return [one for one in actions if one[0] == "allocate"]


def _as_it_is(course: Course, state: _State) -> ClusterSnapshot:
    base = course.snapshot
    tasks = replace(base.tasks, status=state.status.copy(), node=state.node.copy())
    nodes = replace(base.nodes, idle=state.idle.copy())
    queues, foreign = charged(base.queues, base.jobs, tasks, nodes, base.demand)
    return replace(
        base,
        tasks=tasks,
        nodes=nodes,
        queues=queues,
        foreign=foreign,
        non_pending_version=object(),
    )
