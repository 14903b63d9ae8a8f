"""Which jobs an action looks at, and with which of their tasks."""

from muster.engine.session import Session
from muster.engine.tiers.fold import Tiers
from muster.model.reasons import Reason, Refusal


def candidates(tiers: Tiers, action: str, wants_best_effort: bool = False) -> dict[int, list[int]]:
    """Pending tasks of jobs that were let in, are whole and have a queue, in the order in which
    they start; those that ask for nothing are backfill's.
    """
    session, groups = tiers.session, tiers.groups
    pending = groups.pending_of_all()
    wanted = pending[groups.is_best_effort[pending] == wants_best_effort]
    by_job = tiers.in_task_order_by_job(wanted)
    return {
        job: by_job[job]
        for job in groups.jobs()
        if job in by_job and may_be_served(session, tiers, job)
    }


def may_be_served(session: Session, tiers: Tiers, job: int) -> bool:
    """Whether a job was let in, is whole and has a queue; otherwise it is told why."""
    groups, columns = tiers.groups, session.snapshot.jobs
    if groups.is_pending(job):
        return False
    if columns.queue[job] < 0:
        missing = Refusal(Reason.QUEUE_MISSING, subject=columns.records[job].queue)
        session.refuse(job, (missing,))
        return False
    invalid = tiers.job_invalid(job)
    if invalid is not None:
        session.refuse(job, (invalid,))
    return invalid is None
