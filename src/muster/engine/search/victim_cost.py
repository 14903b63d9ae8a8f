"""What an eviction costs: whose it is, the resources it takes away, the work it loses."""

import numpy as np

from muster.engine.session import Session
from muster.numerics.arrays import Bools, Ints, Rows
from muster.numerics.axis import QUEUE_CPU, QUEUE_GPU

_GPU_WEIGHT = 1_000_000
"""A GPU counts for more than any number of CPUs."""


def resource_cost(session: Session, tasks: Rows) -> Ints:
    """What each task is charged where it is, as one number: int64[tasks]."""
    units = session.ledger.placed_units(tasks)
    return np.asarray(units[:, QUEUE_GPU] * _GPU_WEIGHT + units[:, QUEUE_CPU], dtype=np.int64)


def victim_rank(session: Session, jobs: Rows, is_core: Bools) -> Ints:
    """Lower priority goes first, and inside a priority surplus before gangs: int64[jobs].

    `is_core` bool[jobs] are what a job gives up last; of one without a minimum that is surplus too.
    """
    if len(jobs) == 0:
        return np.zeros(0, dtype=np.int64)
    columns = session.snapshot.jobs
    _, rank = np.unique(columns.priority[jobs], return_inverse=True)
    minimum = session.snapshot.leaves.minimum[columns.leaves[columns.start[jobs]]]
    return np.asarray(rank.reshape(-1) * 2 + (is_core & (minimum > 0)), dtype=np.int64)


def work_lost(session: Session, tasks: Rows) -> Ints:
    """What each task has done since its job started or last saved a checkpoint: int64[tasks].

    In seconds times thousandths of a GPU, or of a CPU for tasks without GPUs.
    """
    snapshot = session.snapshot
    units = session.ledger.placed_units(tasks)
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
