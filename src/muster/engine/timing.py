"""The next moments at which waiting alone changes what a cycle would decide: a gang's grace ends, a
job may begin to evict, a round of defragmentation may begin. What plugins know of (protection that
runs out) they say themselves.
"""

import math
from collections.abc import Iterable, Mapping

import numpy as np

from muster.engine.config.defragmentation import Defragmentation
from muster.model.snapshot import ClusterSnapshot
from muster.numerics.arrays import Bools

_AGAIN_S = 60.0
"""When a round that was put off is tried again."""


def grace_ends_s(
    snapshot: ClusterSnapshot, default_s: float, now_s: float, stamped: Mapping[int, float | None]
) -> float:
    """When the next gang that is below its minimum has been so for too long. `stamped` are jobs of
    which it was found in this cycle since when that is so.
    """
    jobs = snapshot.jobs
    timed = np.flatnonzero(jobs.live & jobs.is_timed).tolist()
    stale = {job: jobs.records[job].stale_since_s for job in timed} | dict(stamped)
    ends = (
        since_s + (default_s if (own_s := jobs.records[job].staleness_grace_s) is None else own_s)
        for job, since_s in stale.items()
        if since_s is not None
    )
    return _next(ends, now_s)


def delay_ends_s(snapshot: ClusterSnapshot, among: Bools, now_s: float) -> float:
    """When the next of these jobs (bool[J]) may begin to evict others."""
    jobs = snapshot.jobs
    records = (jobs.records[job] for job in np.flatnonzero(among & jobs.is_timed).tolist())
    ends = (
        max(record.created_s, record.last_eviction_s or record.created_s)
        + record.preemption_delay_s
        for record in records
    )
    return _next(ends, now_s)


def round_begins_s(wanted: Defragmentation | None, last_s: float | None, now_s: float) -> float:
    """When the next round of defragmentation may begin, the last one being at `last_s`; one that is
    due and was put off, because the cycle had something to decide, is tried again soon.
    """
    if wanted is None or last_s is None:
        return math.inf
    due_s = wanted.next_round_s(last_s)
    return due_s if due_s > now_s else wanted.next_round_s(now_s + _AGAIN_S - wanted.every_s)


def _next(moments: Iterable[float], now_s: float) -> float:
    return min((at_s for at_s in moments if at_s > now_s), default=math.inf)
