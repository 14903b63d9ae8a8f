"""Allocate: place what was let in on idle resources, queue by queue, job by job.

A job gets what it needs to be ready, then goes back into its queue for one task at a time. What is
only pipelined keeps its places until the cycle ends.
"""

from muster.api.volcano import INQUEUE
from muster.engine.session import Session
from muster.engine.statement import Statement
from muster.engine.tiers.fast_gangs import FastGangs
from muster.engine.tiers.fold import Tiers, tiers_of
from muster.engine.tiers.nearness import place_near, wants_nearness
from muster.engine.tiers.placing import STARTS_FIRST, Round, keep_waiting, once, place_tasks
from muster.engine.tiers.queueing import JobsByQueue
from muster.engine.tiers.waiting import candidates

NAME = "allocate"


def execute(session: Session) -> None:
    """Place what can be placed; say why about the rest."""
    session.availability_score = STARTS_FIRST
    tiers = tiers_of(session)
    if not tiers.groups.lets_in:
        for job in tiers.groups.jobs():
            if tiers.groups.has_pending_phase(job):
                tiers.groups.phases[job] = INQUEUE
    _execute_generally(session, tiers)


def _execute_generally(session: Session, tiers: Tiers) -> None:
    todo = candidates(tiers, NAME)
    order, fast = JobsByQueue(tiers, todo), FastGangs(tiers)
    while (queue := order.pop_queue()) is not None:
        if tiers.overused(queue):
            order.close(queue)
            continue
        job = order.pop_job(queue)
        if _serve(session, tiers, fast, job, todo[job]) and todo[job]:
            order.push_job(job)
        order.push_queue(queue)


def _serve(session: Session, tiers: Tiers, fast: FastGangs, job: int, tasks: list[int]) -> bool:
    """Give one job its turn; whether what it got starts now."""
    before = list(tasks)
    with Statement(session) as statement:
        if fast.serve(statement, job, tasks) and tiers.job_ready(job):
            statement.commit()
            return True
    tasks[:] = before
    attempt = Round()
    part = tiers.groups.sub_jobs(job)[0]
    with Statement(session) as statement:
        if wants_nearness(tiers, job):
            is_placed = place_near(tiers, statement, job, tasks, attempt)
        else:
            nodes = session.all_nodes >= 0
            place_tasks(tiers, statement, part, tasks, nodes, attempt)
            is_placed = len(statement.entries().task) > 0
        is_ready = is_placed and tiers.job_ready(job)
        if is_ready:
            statement.commit()
        elif is_placed and tiers.job_pipelined(job):
            keep_waiting(session, statement)
            statement.commit()
    if not is_ready and attempt.refusals:
        session.refuse(job, once(attempt.refusals))
    return is_ready
