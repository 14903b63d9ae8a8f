"""Two plans for one cluster: the smallest victims of each search, or those the rules lead to first.

The smallest for one job may leave less to the next: a gang that goes as a whole serves two jobs,
two small victims one each. So where victims were refined, the cycle is also run without, and the
order of the rules has its way unless the refined plan is no worse in every respect.

Likewise what consolidation gives may cost others what they had just been given: the queue of a job
that it serves is above its share then, and another queue takes from it. So where that came to pass
the cycle is also run without consolidation, and with it each job must be placed at least as far.
"""

from collections import Counter

import numpy as np

from muster.engine.plan import Plan
from muster.engine.search.solver import CONSOLIDATION
from muster.engine.session import Session
from muster.model.snapshot import ClusterSnapshot
from muster.model.status import TaskStatus
from muster.numerics.arrays import Ints, Rows
from muster.numerics.axis import QUEUE_GPU


def is_no_worse(snapshot: ClusterSnapshot, plan: Plan, other: Plan) -> bool:
    """Whether each job is placed at least as far as in the other plan, and of no priority and those
    above it more GPUs are taken.
    """
    if not places_no_less(snapshot, plan, other):
        return False
    priorities = np.unique(snapshot.jobs.priority)[::-1]
    taken = [_taken(snapshot, each, priorities).cumsum() for each in (plan, other)]
    return bool((taken[0] <= taken[1]).all())


def places_no_less(snapshot: ClusterSnapshot, plan: Plan, other: Plan) -> bool:
    """Whether each job is placed at least as far as in the other plan."""
    ours, theirs = _placed(snapshot, plan), _placed(snapshot, other)
    return all(ours[job] >= count for job, count in theirs.items())


def has_undone_its_gifts(session: Session) -> bool:
    """Whether some job lost a place of this cycle to another's search, and consolidation moved
    somebody.
    """
    evictions = session.evictions
    if CONSOLIDATION not in {why.action for why in evictions.values()}:
        return False
    taken = [task for task, why in evictions.items() if why.action != CONSOLIDATION]
    return bool((session.snapshot.tasks.status[taken] == TaskStatus.PENDING).any())


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
