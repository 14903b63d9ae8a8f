"""Jobs that are disrupted whole or not at all: what they lost in a simulation comes back likewise.

If all of it gets its old places again nothing happens to it. If one task has to go elsewhere all of
them start anew, some perhaps where they were; if one finds no place all of them stay evicted.
"""

from dataclasses import replace

import numpy as np

from muster.engine.placement import Attempt, Placed, place_job
from muster.engine.session import Session
from muster.model.records import Disruption
from muster.model.status import TaskStatus
from muster.numerics.arrays import Rows


def is_disrupted_atomically(session: Session, job: int) -> bool:
    return session.snapshot.jobs.records[job].disruption is Disruption.JOB


def place_all_again(attempt: Attempt) -> bool:
    """Whether everything that the job lost has a place again; if not, nothing was changed."""
    session, statement = attempt.session, attempt.statement
    lost = _lost(session, attempt.job)
    before = _places(session, lost)
    start = statement.checkpoint()
    anew = replace(attempt, tasks=lost, restarts=True)
    if not isinstance(place_job(anew), Placed):
        return False
    if _places(session, lost) == before:
        statement.rollback(start)
        if not session.policy.can_return(lost).all():
            return isinstance(place_job(anew), Placed)
        for task in lost.tolist():
            statement.restore(task)
    return True


def _lost(session: Session, job: int) -> Rows:
    """Tasks that the simulation evicted, in task order."""
    leaves = session.snapshot.leaves_of_job(job).tolist()
    waiting = np.concatenate([session.waiting_tasks(leaf, is_real=False) for leaf in leaves])
    is_evicted = session.ledger.status[waiting] == TaskStatus.RELEASING
    return np.asarray(waiting[is_evicted], dtype=np.int64)


def _places(session: Session, tasks: Rows) -> list[tuple[int, tuple[str, ...]]]:
    ledger = session.ledger
    return [(int(ledger.node[task]), ledger.gpu_shares_of(task)) for task in tasks.tolist()]
