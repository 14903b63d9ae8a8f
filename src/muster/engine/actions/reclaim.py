"""Reclaim: take back what other queues hold above their share."""

import numpy as np

from muster.engine.hooks import Actor
from muster.engine.search.action import ActionRules, run
from muster.engine.search.evictable import Evictable
from muster.engine.session import Session
from muster.model.reasons import Reason, Refusal
from muster.numerics.arrays import Rows

NAME = "reclaim"


def execute(session: Session) -> None:
    """Make room for jobs of queues that are below their share."""
    run(session, ActionRules(NAME, _gate, _considered))


def _gate(session: Session, actor: Actor) -> Refusal | None:
    rows = np.array([actor.job], dtype=np.int64)
    if session.policy.may_reclaim(rows, actor.request[np.newaxis])[0]:
        return None
    queue = session.snapshot.jobs.records[actor.job].queue
    return Refusal(Reason.OVER_SHARE, subject=queue)


def _considered(session: Session, actor: Actor, evictable: Evictable) -> Rows:
    return evictable.outside(int(session.snapshot.jobs.queue[actor.job]))
