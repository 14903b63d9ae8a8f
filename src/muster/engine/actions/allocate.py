"""Allocate: place pending gangs on idle resources, queue by queue.

Jobs for which room was made come before all others, each on the nodes that it was promised.
Jobs are taken in the order of their queues. A job that got its minimum and has more tasks is queued
again for one task at a time, so that growing and starting jobs share fairly. Most jobs are served
by the compiled loop; those with features it does not know are placed here, in their turn, on the
same tables.
"""

from collections.abc import Container

import numpy as np

from muster.engine import kernel
from muster.engine.holds import Hold, promised_nodes
from muster.engine.ordering import JobQueue, servable_jobs
from muster.engine.placement import Attempt, Failures, NotPlaced, place_job
from muster.engine.session import Session
from muster.engine.statement import Statement
from muster.numerics import allocate_state as steps

NAME = "allocate"


def execute(session: Session) -> None:
    """Place what can be placed; say why about the rest."""
    _serve_holders(session)
    job_queue = JobQueue(session, NAME)
    if kernel.suits(session):
        _execute_compiled(session, job_queue)
    else:
        execute_generally(session, job_queue)


def execute_generally(session: Session, job_queue: JobQueue) -> None:
    """Every job by the general path."""
    failures: Failures = {}
    while (job := job_queue.pop()) >= 0:
        _serve(session, job_queue, job, failures)


def _serve_holders(session: Session) -> None:
    """Give jobs the room that was made for them, and forget what nobody can use any longer."""
    if session.holds:
        servable = set(servable_jobs(session).tolist())
        session.holds = tuple(
            hold for hold in session.holds if _serve_holder(session, hold, servable)
        )


def _serve_holder(session: Session, hold: Hold, servable: Container[int]) -> bool:
    """Place the job where it was promised room; whether that stands."""
    job, within = session.snapshot.jobs.row[hold.job], promised_nodes(session.snapshot, hold)
    if not session.has_waiting(job):
        return hold.is_of_a_victim
    placed, is_next = 0, job in servable
    while is_next and placed < len(hold.nodes) and session.has_waiting(job):
        with Statement(session) as statement:
            outcome = place_job(Attempt(session, statement, job, within))
            is_next = not isinstance(outcome, NotPlaced)
            if not isinstance(outcome, NotPlaced):
                statement.commit()
                placed += len(outcome.tasks)
    return placed > 0


def _execute_compiled(session: Session, job_queue: JobQueue) -> None:
    compiled = kernel.AllocateKernel(session, job_queue)
    failures: Failures = {}
    while (step := compiled.advance()).why != steps.DONE:
        if step.why == steps.SHAPE:
            compiled.answer(step.subject)
        elif step.why == steps.REQUEUE:
            job_queue.requeue(step.subject)
        else:
            _serve(session, job_queue, step.subject, failures)
            compiled.changed_outside()
    compiled.refuse_the_rest()


def _serve(session: Session, job_queue: JobQueue, job: int, failures: Failures) -> None:
    """Give one job its turn."""
    everywhere = np.ones(len(session.snapshot.nodes), dtype=np.bool_)
    with Statement(session) as statement:
        outcome = place_job(Attempt(session, statement, job, everywhere, failures=failures))
        if not isinstance(outcome, NotPlaced):
            statement.commit()
    if isinstance(outcome, NotPlaced):
        session.refuse(job, outcome.refusals)
        job_queue.finish(job)
    elif session.has_waiting(job):
        job_queue.requeue(job)
    else:
        job_queue.finish(job)
