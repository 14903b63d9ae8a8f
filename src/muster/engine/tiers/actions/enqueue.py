"""Enqueue: let pod groups in, as long as there is hope for them. Their pods come after that."""

from muster.api.volcano import INQUEUE
from muster.engine.session import Session
from muster.engine.tiers.fold import tiers_of
from muster.engine.tiers.queueing import JobsByQueue
from muster.model.reasons import Reason, Refusal

NAME = "enqueue"
_OF_QUEUES = ("capacity", "proportion")


def execute(session: Session) -> None:
    """Queue by queue, job by job."""
    tiers = tiers_of(session)
    groups, columns, queues = tiers.groups, session.snapshot.jobs, session.snapshot.queues
    waiting = [job for job in groups.jobs() if groups.is_pending(job) and columns.queue[job] >= 0]
    order = JobsByQueue(tiers, waiting)
    while (queue := order.pop_queue()) is not None:
        job = order.pop_job(queue)
        if groups.terms(job).min_resources is None or tiers.job_enqueueable(job):
            tiers.job_enqueued(job)
            groups.phases[job] = INQUEUE
        else:
            session.kept_out.add(job)
            session.refuse(job, (_refusal(tiers.keeper_out(job), queues.names[queue]),))
        order.push_queue(queue)


def _refusal(plugin: str, queue: str) -> Refusal:
    if plugin in _OF_QUEUES:
        return Refusal(Reason.OVER_LIMIT, subject=queue)
    return Refusal(Reason.REFUSED_BY_PLUGIN, subject=plugin)
