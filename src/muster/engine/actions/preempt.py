"""Preempt: lower priority gives way inside a queue."""

import numpy as np

from muster.engine.hooks import Actor
from muster.engine.search.action import ActionRules, run
from muster.engine.search.evictable import Evictable
from muster.engine.session import Session
from muster.model.reasons import Reason, Refusal
from muster.numerics.arrays import Rows

NAME = "preempt"


def execute(session: Session) -> None:
    """Make room for jobs at the cost of less important jobs of their queue."""
    run(session, ActionRules(NAME, _gate, _considered, is_within_queue=True))


def _gate(session: Session, actor: Actor) -> Refusal | None:
    rows = np.array([actor.job], dtype=np.int64)
    if session.policy.may_preempt(rows, actor.request[np.newaxis])[0]:
        return None
    # The quota that binds may be that of a queue above.
    if over := session.policy.over_capacity(actor.job, actor.tasks):
        return over
    queue = session.snapshot.jobs.records[actor.job].queue
    return Refusal(Reason.OVER_QUOTA, subject=queue)


def _considered(session: Session, actor: Actor, evictable: Evictable) -> Rows:
    columns = session.snapshot.jobs
    jobs = evictable.in_queue(int(columns.queue[actor.job]))
    lower: Rows = jobs[columns.priority[jobs] < columns.priority[actor.job]]
    return lower
