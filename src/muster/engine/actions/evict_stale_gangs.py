"""Evict gangs that fell below their minimum for too long.

A gang is stale while some of its tasks sit on nodes, none has ended well, and fewer than its
minimum do. It is given a grace period, its own or the configured one, in which it may recover.
"""

import numpy as np

from muster.engine import gang
from muster.engine.search.batches import active_tasks
from muster.engine.search.disruption import refused_tasks
from muster.engine.session import Eviction, Session
from muster.engine.statement import Statement
from muster.model.status import IS_ACTIVE_USED, TaskStatus
from muster.numerics.arrays import Bools

NAME = "stalegangeviction"


def execute(session: Session) -> None:
    """Stamp gangs that became stale, clear those that recovered, evict those that did not."""
    incomplete, jobs = _incomplete(session), session.snapshot.jobs
    for job in np.flatnonzero(jobs.live & (incomplete | jobs.is_timed)).tolist():
        since_s = jobs.records[job].stale_since_s
        if not incomplete[job] or not _is_stale(session, job):
            if since_s is not None:
                session.stale_since_s[job] = None
            continue
        if since_s is None:
            since_s = session.stale_since_s[job] = session.now_s
        grace_s = _grace_s(session, job)
        if 0 <= grace_s <= session.now_s - since_s:
            _evict(session, job)


def _incomplete(session: Session) -> Bools:
    """Jobs that have something on nodes, and a sub-group with less than its minimum: bool[J]."""
    snapshot, count = session.snapshot, len(session.snapshot.jobs.live)
    used = session.ledger.counts[:, IS_ACTIVE_USED].sum(axis=1)
    has_some, has_less = np.zeros(count, dtype=np.bool_), np.zeros(count, dtype=np.bool_)
    has_some[snapshot.leaves.job[used > 0]] = True
    has_less[snapshot.leaves.job[used < snapshot.leaves.minimum]] = True
    return has_some & has_less


def _is_stale(session: Session, job: int) -> bool:
    leaves = session.snapshot.leaves_of_job(job)
    counts = session.ledger.counts[leaves]
    if counts[:, TaskStatus.SUCCEEDED].any() or not counts[:, IS_ACTIVE_USED].any():
        return False
    return not gang.is_occupied(session, job)


def _grace_s(session: Session, job: int) -> float:
    own_s = session.snapshot.jobs.records[job].staleness_grace_s
    return session.configured.settings.staleness_grace_s if own_s is None else own_s


def _evict(session: Session, job: int) -> None:
    """All that may go: a pod whose eviction was refused lately follows when it may be tried."""
    stays = set(refused_tasks(session).tolist())
    going = [task for task in active_tasks(session, job) if task not in stays]
    if not going:
        return
    with Statement(session) as statement:
        for task in going:
            statement.evict(task, Eviction(NAME, -1))
        statement.commit()
