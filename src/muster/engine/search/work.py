"""How much work an eviction loses."""

import numpy as np

from muster.engine.session import Session
from muster.numerics.arrays import Ints, Rows
from muster.numerics.axis import QUEUE_CPU, QUEUE_GPU


def work_lost(session: Session, tasks: Rows) -> Ints:
    """What each task has done since its job started or last saved a checkpoint: int64[tasks].

    In seconds times thousandths of a GPU, or of a CPU for tasks without GPUs.
    """
    snapshot = session.snapshot
    units = snapshot.demand.queue_units[snapshot.tasks.shape[tasks]]
    weight = np.where(units[:, QUEUE_GPU] > 0, units[:, QUEUE_GPU], units[:, QUEUE_CPU])
    jobs = snapshot.tasks.job[tasks]
    seconds = np.zeros(len(snapshot.jobs.live), dtype=np.int64)
    for job in np.unique(jobs).tolist():
        record = snapshot.jobs.records[job]
        since_s = max(record.last_start_s or 0.0, record.checkpoint_s or 0.0)
        if since_s:
            seconds[job] = max(0, int(session.now_s - since_s))
    return np.asarray(seconds[jobs] * weight, dtype=np.int64)
