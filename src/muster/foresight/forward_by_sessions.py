"""The queue played forward with a session for each look: for what the compiled run does not know.

Topologies, several sub-groups, affinities between pods, and policies whose order depends on more
than shares and priorities are decided by the engine itself each time. The same futures, some ten
times dearer. Ends are never lumped beyond the scheduler's own period.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from muster.engine.session import Session
from muster.foresight.course import Course, Future, IsOver, OutOfTime
from muster.foresight.situation import Actions
from muster.model.columns import charged
from muster.model.snapshot import ClusterSnapshot
from muster.model.status import IS_ALLOCATED, TaskStatus
from muster.numerics.arrays import Bytes, Floats, Ints


@dataclass(slots=True)
class _State:
    status: Bytes
    node: Ints
    idle: Ints


def starts(
    course: Course, future: Future, asked: Sequence[int], is_over: IsOver = lambda: False
) -> Floats:
    """When jobs start in one future: float64[J], nan for who does not within the horizon. Ends as
    soon as all that are `asked` about have started. Raises `OutOfTime`.
    """
    tasks = course.snapshot.tasks
    state = _State(tasks.status.copy(), tasks.node.copy(), course.snapshot.nodes.idle.copy())
    for job in course.comes.tolist():
        state.status[course.tasks_of(job)] = TaskStatus.GATED
    events = [(float(at_s), 0, job) for job, at_s in _known(future.ends_s)]
    events += [(float(at_s), 1, job) for job, at_s in _known(future.comes_s)]
    heapq.heapify(events)
    found = np.full(len(future.runs_s), np.nan)
    now_s, end_s = course.now_s, course.now_s + course.horizon_s
    wanted = set(asked)
    while True:
        for job in _looked(course, state):
            if np.isnan(found[job]):
                found[job] = now_s
                wanted.discard(job)
                heapq.heappush(events, (now_s + float(future.runs_s[job]), 0, job))
        if not wanted or not events:
            return found
        now_s = max(events[0][0], now_s + course.period_s)
        if now_s > end_s:
            return found
        if is_over():
            raise OutOfTime
        while events and events[0][0] <= now_s:
            _, kind, job = heapq.heappop(events)
            (_come if kind else _end)(course, state, job)


def _known(at_s: Floats) -> list[tuple[int, float]]:
    """Jobs and when, of those of whom it is known."""
    jobs = np.flatnonzero(np.isfinite(at_s))
    return list(zip(jobs.tolist(), at_s[jobs].tolist(), strict=True))


def _end(course: Course, state: _State, job: int) -> None:
    rows = course.tasks_of(job)
    rows = rows[IS_ALLOCATED[state.status[rows]]]
    placed = rows[state.node[rows] >= 0]
    request = course.snapshot.demand.request[course.snapshot.tasks.shape[placed]]
    np.add.at(state.idle, state.node[placed], request)
    state.status[rows] = TaskStatus.SUCCEEDED


def _come(course: Course, state: _State, job: int) -> None:
    rows = course.tasks_of(job)
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
    return any(_fits_somewhere(state.idle, request) for request in requests)


def _fits_somewhere(idle: Ints, request: Ints) -> bool:
    """Whether some node has enough of what is asked for; of the rest it may have less than none."""
    asked = request > 0
    return bool((idle[:, asked] >= request[asked]).all(axis=1).any())


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
