"""Allocate: place pending gangs on idle resources, queue by queue.

Jobs are taken in the order of their queues. A job that got its minimum and has more tasks is queued
again for one task at a time, so that growing and starting jobs share fairly.
"""

import numpy as np

from muster.engine.ordering import Turns
from muster.engine.placement import Attempt, Placed, place_job
from muster.engine.session import Session
from muster.engine.statement import Statement

NAME = "allocate"


def execute(session: Session) -> None:
    """Place what can be placed; say why about the rest."""
    turns = Turns(session, NAME)
    within = np.ones(len(session.snapshot.nodes), dtype=np.bool_)
    while (job := turns.take()) >= 0:
        session.counters["allocate.tried"] += 1
        with Statement(session) as statement:
            outcome = place_job(Attempt(session, statement, job, within))
            if isinstance(outcome, Placed):
                statement.commit()
        if isinstance(outcome, Placed) and session.has_waiting(job):
            turns.again(job)
            continue
        turns.done(job)
        if not isinstance(outcome, Placed):
            session.refuse(job, *outcome.refusals)
