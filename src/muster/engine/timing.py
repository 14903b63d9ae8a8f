"""When to look again although nothing happens: the next moment at which waiting alone changes
what a cycle would decide. A gang's grace ends, a job may begin to evict, protection runs out.
"""

import math
from collections.abc import Iterable

import numpy as np

from muster.engine.session import Session

_A_MOMENT_S = 1e-3
"""Just after it, so that what was to end then has ended."""


def next_turn_s(session: Session) -> float | None:
    """The earliest such moment after now; None when there is none."""
    waits = session.waiting_jobs()
    turns = [_grace_ends_s(session), _delay_ends_s(session)]
    if waits.any():
        turns.append(session.policy.next_turn_s())
    earliest_s = min(turns)
    return None if math.isinf(earliest_s) else earliest_s + _A_MOMENT_S


def _grace_ends_s(session: Session) -> float:
    """When the next gang that is below its minimum has been so for too long."""
    jobs, default_s = session.snapshot.jobs, session.configured.settings.staleness_grace_s
    timed = np.flatnonzero(jobs.live & jobs.is_timed).tolist()
    stale = {job: jobs.records[job].stale_since_s for job in timed} | session.stale_since_s
    ends = (
        since_s + (default_s if (own_s := jobs.records[job].staleness_grace_s) is None else own_s)
        for job, since_s in stale.items()
        if since_s is not None
    )
    return _next(ends, session.now_s)


def _delay_ends_s(session: Session) -> float:
    """When the next waiting job may begin to evict others."""
    jobs = session.snapshot.jobs
    delayed = np.flatnonzero(session.waiting_jobs() & jobs.is_timed).tolist()
    records = (jobs.records[job] for job in delayed)
    ends = (
        max(record.created_s, record.last_eviction_s or record.created_s)
        + record.preemption_delay_s
        for record in records
    )
    return _next(ends, session.now_s)


def _next(moments: Iterable[float], now_s: float) -> float:
    return min((at_s for at_s in moments if at_s > now_s), default=math.inf)
