"""Reclaim: jobs that starve take from other queues what those hold beyond their due.

A job evicts only if all of it that is missing finds room. Nodes are tried by score.
"""

from muster.engine.session import Session
from muster.engine.statement import Statement
from muster.engine.tiers.evicting import (
    IS_RUNNING,
    NodeTasks,
    evict,
    fits_later,
    nodes_by_score,
    place_at_once,
    settle,
    wait_there,
    would_do,
)
from muster.engine.tiers.fold import Tiers, tiers_of
from muster.engine.tiers.placing import STARTS_FIRST
from muster.engine.tiers.queueing import JobsByQueue
from muster.engine.tiers.waiting import may_be_served
from muster.model.reasons import Reason, Refusal

NAME = "reclaim"


def execute(session: Session) -> None:
    """Queue by queue, job by job."""
    session.availability_score = STARTS_FIRST
    tiers = tiers_of(session)
    on_nodes = NodeTasks(tiers)
    starving = [
        job
        for job in tiers.groups.jobs()
        if may_be_served(session, tiers, job) and tiers.job_starving(job)
    ]
    order = JobsByQueue(tiers, starving)
    while (queue := order.pop_queue()) is not None:
        if tiers.overused(queue):
            order.close(queue)
            continue
        job = order.pop_job(queue)
        _serve(tiers, on_nodes, queue, job)
        order.push_queue(queue)


def _serve(tiers: Tiers, on_nodes: NodeTasks, queue: int, job: int) -> None:
    session, groups = tiers.session, tiers.groups
    snapshot = session.snapshot
    # Where no room was found for one, there is none for its equals.
    in_vain: set[int] = set()
    with Statement(session) as statement:
        for task in tiers.in_task_order(groups.pending(job).tolist()):
            if not tiers.job_starving(job) or _has_its_due(tiers, queue, job):
                break
            shape = int(snapshot.tasks.shape[task])
            if shape in in_vain or snapshot.tasks.records[task].never_preempts:
                continue
            if not tiers.preemptive(queue, groups.task_charge(task)):
                continue
            if session.refused_everywhere(
                snapshot.shape_of(task), job
            ) is not None or not _make_room(tiers, on_nodes, statement, task):
                in_vain.add(shape)
        if settle(tiers, statement, job):
            return
    session.refuse(job, (Refusal(Reason.NO_VICTIMS),))


def _has_its_due(tiers: Tiers, queue: int, job: int) -> bool:
    """Beyond what a job needs to start, its queue is owed no more than it deserves."""
    return tiers.job_pipelined(job) and tiers.overused(queue)


def _make_room(tiers: Tiers, on_nodes: NodeTasks, statement: Statement, task: int) -> bool:
    if place_at_once(tiers, statement, task):
        return True
    groups, snapshot = tiers.groups, tiers.session.snapshot
    queue_of, job_of = snapshot.jobs.queue, snapshot.tasks.job
    own = int(queue_of[job_of[task]])

    def may_go(other: int) -> bool:
        queue = int(queue_of[job_of[other]])
        if queue in (own, -1) or not groups.pod(other).is_preemptable:
            return False
        return groups.queue(queue).is_reclaimable

    for node in nodes_by_score(tiers, task).tolist():
        candidates = on_nodes.on(node, IS_RUNNING, may_go)
        victims = tiers.reclaimable(task, candidates) if candidates else []
        if not candidates or not would_do(tiers, task, node, victims):
            continue
        checkpoint = statement.checkpoint()
        todo = tiers.victims_in_order(victims, task) if victims else []
        while todo and not fits_later(tiers, task, node):
            evict(tiers, statement, todo.pop(0), NAME, task)
        if fits_later(tiers, task, node):
            wait_there(tiers, statement, task, node)
            return True
        statement.rollback(checkpoint)
    return False
