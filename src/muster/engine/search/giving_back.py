"""Victims whose room nobody needs in the end stay.

Each search takes as little as it can for its own job. A later one may take more than it needs, for
a gang goes as a whole, and leave over what an earlier victim was evicted for. So when all actions
are done, victims are let stay where they are, the dearest first, as far as there is room.
"""

import numpy as np

from muster.engine.placement import Attempt, Placed, place_job
from muster.engine.search.atomic_disruption import is_disrupted_atomically
from muster.engine.search.idle_resources import free_with_parts
from muster.engine.session import Session
from muster.engine.statement import Statement
from muster.model.status import IS_ACTIVE_ALLOCATED, TaskStatus
from muster.numerics.arrays import Rows

_MOST_JOBS = 64
"""So many are asked in a cycle, those that have room by what nodes have free."""


def give_back(session: Session) -> None:
    """Let victims stay whose room was not needed after all."""
    evicted = _evicted(session)
    for job in _with_room(session, evicted)[:_MOST_JOBS]:
        lost = evicted[session.snapshot.tasks.job[evicted] == job]
        while len(lost) and _stay(session, job, chunk := _next(session, job, lost)):
            lost = np.setdiff1d(lost, chunk)


def _evicted(session: Session) -> Rows:
    """Tasks that leave for somebody, and have no other place."""
    tasks, actors = session.evicted_for_whom()
    leaves: Rows = tasks[(actors >= 0) & (session.ledger.status[tasks] == TaskStatus.RELEASING)]
    return leaves


def _with_room(session: Session, evicted: Rows) -> list[int]:
    """Jobs of which some task has room where it was, the dearest first."""
    if len(evicted) == 0:
        return []
    snapshot, ledger = session.snapshot, session.ledger
    request = snapshot.demand.request[snapshot.tasks.shape[evicted]]
    free = free_with_parts(session)[ledger.node[evicted]]
    has_room = ((free >= request) | (request == 0)).all(axis=1)
    jobs = np.unique(snapshot.tasks.job[evicted[has_room]]).tolist()
    records = snapshot.jobs.records
    return sorted(jobs, key=lambda job: (-records[job].priority, records[job].created_s, job))


def _next(session: Session, job: int, lost: Rows) -> Rows:
    """What of its losses a job must get back together: all, or what a single gang needs to be one
    again, or one task of it.
    """
    leaves = session.snapshot.leaves_of_job(job).tolist()
    if len(leaves) > 1 or is_disrupted_atomically(session, job):
        return lost
    held = int(session.ledger.counts[leaves[0], IS_ACTIVE_ALLOCATED].sum())
    missing = int(session.snapshot.leaves.minimum[leaves[0]]) - held
    in_order = session.tasks_in_order(leaves[0])
    return in_order[np.isin(in_order, lost)][: max(missing, 1)]


def _stay(session: Session, job: int, tasks: Rows) -> bool:
    """Whether all these tasks of a job could stay; if not, nothing was changed."""
    ledger = session.ledger
    with Statement(session) as statement:
        for task in tasks.tolist():
            within = np.zeros(len(session.snapshot.nodes), dtype=np.bool_)
            within[ledger.node[task]] = True
            own = np.array([task], dtype=np.int64)
            attempt = Attempt(session, statement, job, within, may_start=False, tasks=own)
            is_placed = isinstance(place_job(attempt), Placed)
            if not is_placed or ledger.status[task] == TaskStatus.PIPELINED:
                return False
        if not is_gang(session, job):
            return False
        statement.commit()
    return True


def is_gang(session: Session, job: int) -> bool:
    """Whether each of its sub-groups that holds something has its minimum."""
    leaves = session.snapshot.leaves_of_job(job)
    held = session.ledger.counts[leaves][:, IS_ACTIVE_ALLOCATED].sum(axis=1)
    return bool(((held == 0) | (held >= session.snapshot.leaves.minimum[leaves])).all())
