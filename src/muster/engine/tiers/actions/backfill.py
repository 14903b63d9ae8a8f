"""Backfill: tasks that ask for nothing but a slot go wherever they may."""

from muster.engine.hooks import NodeSubset
from muster.engine.session import Session
from muster.engine.statement import Statement
from muster.engine.tiers.fold import tiers_of
from muster.engine.tiers.placing import STARTS_FIRST, place_for
from muster.engine.tiers.queueing import JobsByQueue
from muster.engine.tiers.waiting import candidates

NAME = "backfill"


def execute(session: Session) -> None:
    """Queue by queue, each with all its jobs."""
    session.availability_score = STARTS_FIRST
    tiers = tiers_of(session)
    todo = candidates(tiers, NAME, wants_best_effort=True)
    order = JobsByQueue(tiers, todo)
    everywhere = NodeSubset(session.all_nodes >= 0)
    while (queue := order.pop_queue()) is not None:
        job = order.pop_job(queue)
        for task in todo[job]:
            place = place_for(session, job, task, everywhere)
            if place is not None and place.starts_now:
                with Statement(session) as statement:
                    statement.allocate(task, place.node, place.shares)
                    statement.commit()
        order.push_queue(queue)
