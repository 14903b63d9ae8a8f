"""Two plans for one cluster: the smallest victims of each search, or those the rules lead to first.

The smallest for one job may leave less to the next: a gang that goes as a whole serves two jobs,
two small victims one each. So where victims were refined, the cycle is also run without, and the
order of the rules has its way unless the refined plan is no worse in every respect.
"""

from collections import Counter

import numpy as np

from muster.engine.plan import Plan
from muster.model.snapshot import ClusterSnapshot
from muster.model.status import TaskStatus
from muster.numerics.arrays import Ints, Rows
from muster.numerics.axis import QUEUE_GPU


def is_no_worse(snapshot: ClusterSnapshot, plan: Plan, other: Plan) -> bool:
    """Whether each job is placed at least as far as in the other plan, and of no priority and those
    above it more GPUs are taken.
    """
    ours, theirs = _placed(snapshot, plan), _placed(snapshot, other)
    if any(ours[job] < count for job, count in theirs.items()):
        return False
    priorities = np.unique(snapshot.jobs.priority)[::-1]
    taken = [_taken(snapshot, each, priorities).cumsum() for each in (plan, other)]
    return bool((taken[0] <= taken[1]).all())


def _placed(snapshot: ClusterSnapshot, plan: Plan) -> Counter[str]:
    """Pending tasks that got a place, by job."""
    tasks = snapshot.tasks
    placed = [(bind.task, bind.job) for bind in plan.binds]
    placed += [(nominate.task, nominate.job) for nominate in plan.nominations]
    return Counter(
        job for task, job in placed if tasks.status[tasks.row[task]] == TaskStatus.PENDING
    )


def _taken(snapshot: ClusterSnapshot, plan: Plan, priorities: Ints) -> Ints:
    """GPU units of victims at each of these priorities, highest first."""
    tasks = snapshot.tasks
    rows: Rows = np.array([tasks.row[evict.task] for evict in plan.evictions], dtype=np.int64)
    units = snapshot.demand.queue_units[tasks.shape[rows], QUEUE_GPU]
    priority = snapshot.jobs.priority[tasks.job[rows]]
    at = np.searchsorted(-priorities, -priority)
    return np.bincount(at, units, len(priorities)).astype(np.int64)
