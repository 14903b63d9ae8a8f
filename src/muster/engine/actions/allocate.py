"""Allocate: place pending gangs on idle resources, queue by queue.

Jobs are taken in the order of their queues. A job that got its minimum and has more tasks is queued
again for one task at a time, so that growing and starting jobs share fairly. Most jobs are served
by the compiled loop; those with features it does not know are placed here, in their turn, on the
same tables.
"""

import numpy as np

from muster.engine import kernel
from muster.engine.ordering import Turns
from muster.engine.placement import Attempt, Failures, NotPlaced, place_job
from muster.engine.session import Session
from muster.engine.statement import Statement
from muster.numerics import allocate_state as steps

NAME = "allocate"


def execute(session: Session) -> None:
    """Place what can be placed; say why about the rest."""
    turns = Turns(session, NAME)
    if kernel.suits(session):
        _execute_compiled(session, turns)
    else:
        execute_generally(session, turns)


def execute_generally(session: Session, turns: Turns) -> None:
    """Every job by the general path."""
    failures: Failures = {}
    while (job := turns.take()) >= 0:
        _serve(session, turns, job, failures)


def _execute_compiled(session: Session, turns: Turns) -> None:
    compiled = kernel.AllocateKernel(session, turns)
    failures: Failures = {}
    while (step := compiled.advance()).why != steps.DONE:
        if step.why == steps.SHAPE:
            compiled.answer(step.subject)
        elif step.why == steps.REQUEUE:
            turns.again(step.subject)
        else:
            _serve(session, turns, step.subject, failures)
            compiled.changed_outside()
    compiled.refuse_the_rest()


def _serve(session: Session, turns: Turns, job: int, failures: Failures) -> None:
    """Give one job its turn."""
    everywhere = np.ones(len(session.snapshot.nodes), dtype=np.bool_)
    with Statement(session) as statement:
        outcome = place_job(Attempt(session, statement, job, everywhere, failures=failures))
        if not isinstance(outcome, NotPlaced):
            statement.commit()
    if isinstance(outcome, NotPlaced):
        session.refuse(job, outcome.refusals)
        turns.done(job)
    elif session.has_waiting(job):
        turns.again(job)
    else:
        turns.done(job)
