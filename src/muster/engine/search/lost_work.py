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
    return np.asarray(seconds_lost(session, jobs) * weight, dtype=np.int64)


def seconds_lost(session: Session, jobs: Rows) -> Ints:
    """For how long each job has worked since its start or its last checkpoint: int64[jobs].

    From whole second to whole second, so that who lost more does not change by waiting.
    """
    since_s = np.floor(session.snapshot.jobs.work_since_s[jobs])
    seconds = np.where(since_s > 0, np.maximum(np.floor(session.now_s) - since_s, 0.0), 0.0)
    return np.asarray(seconds, dtype=np.int64)
