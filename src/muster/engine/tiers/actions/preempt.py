"""Preempt: inside a queue jobs that starve take from others, and tasks from their own job's.

A job evicts only if all of it that is missing finds room. With `enableTopologyAwarePreemption` the
node is chosen on which the least important and fewest go; without, it is the best node by score.
"""

from collections.abc import Callable

from muster.engine.session import Session
from muster.engine.statement import Statement
from muster.engine.tiers.evicting import (
    IS_EVICTABLE,
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
from muster.model.ledger import EntryKind
from muster.model.reasons import Reason, Refusal

NAME = "preempt"
_Wanted = Callable[[int], bool]


def execute(session: Session) -> None:
    """Queue by queue: first between jobs, then inside each."""
    session.availability_score = STARTS_FIRST
    tiers = tiers_of(session)
    preemption = _Preemption(tiers)
    starving = [
        job
        for job in tiers.groups.jobs()
        if may_be_served(session, tiers, job) and tiers.job_starving(job)
        if tiers.groups.terms(job).nearness is None
    ]
    order = JobsByQueue(tiers, starving)
    served: dict[int, list[int]] = {}
    while (queue := order.pop_queue()) is not None:
        job = order.pop_job(queue)
        preemption.between_jobs(job)
        served.setdefault(queue, []).append(job)
        order.push_queue(queue)
    for jobs in served.values():
        for job in jobs:
            preemption.inside(job)


class _Preemption:
    def __init__(self, tiers: Tiers) -> None:
        self._tiers, self._session = tiers, tiers.session
        self._on_nodes = NodeTasks(tiers)
        arguments = tiers.session.configured.action_arguments.get(NAME)
        self._by_victims = arguments is not None and arguments.key(
            "enableTopologyAwarePreemption"
        ).flag(False)

    def between_jobs(self, job: int) -> None:
        """All that the job is missing, or nothing."""
        tiers, tasks = self._tiers, self._session.snapshot.tasks
        queue_of = self._session.snapshot.jobs.queue
        queue = int(queue_of[job])
        # Where no room was found for one, there is none for its equals.
        in_vain: set[int] = set()
        with Statement(self._session) as statement:
            for task in tiers.in_task_order(tiers.groups.pending(job).tolist()):
                if not tiers.job_starving(job):
                    break
                if int(tasks.shape[task]) in in_vain:
                    continue
                if not place_at_once(tiers, statement, task) and not self._make_room(
                    statement,
                    task,
                    lambda other: tasks.job[other] != job and queue_of[tasks.job[other]] == queue,
                ):
                    in_vain.add(int(tasks.shape[task]))
            if settle(tiers, statement, job):
                return
        self._session.refuse(job, (Refusal(Reason.NO_VICTIMS),))

    def inside(self, job: int) -> None:
        """Task by task, as far as it goes. Who has room without it waits for nobody to leave:
        backfill, or the next allocate, starts him.
        """
        tiers, tasks = self._tiers, self._session.snapshot.tasks
        for task in tiers.in_task_order(tiers.groups.pending(job).tolist()):
            with Statement(self._session) as statement:
                if not self._make_room(statement, task, lambda other: tasks.job[other] == job):
                    return
                if (statement.entries().kind == EntryKind.EVICT).any():
                    statement.commit()

    def _make_room(self, statement: Statement, task: int, wanted: _Wanted) -> bool:
        tiers, groups = self._tiers, self._tiers.groups
        record = self._session.snapshot.tasks.records[task]
        job = int(self._session.snapshot.tasks.job[task])
        if record.never_preempts:
            return False
        if self._session.refused_everywhere(self._session.snapshot.shape_of(task), job):
            return False
        is_free = bool(groups.is_best_effort[task])

        def may_go(other: int) -> bool:
            if is_free and not groups.is_best_effort[other]:
                return False
            return groups.pod(other).is_preemptable and wanted(other)

        if self._by_victims:
            return self._where_least_go(statement, task, may_go)
        for node in nodes_by_score(tiers, task).tolist():
            victims = tiers.preemptable(task, self._on_nodes.on(node, IS_EVICTABLE, may_go))
            if would_do(tiers, task, node, victims) and self._evict(statement, task, node, victims):
                return True
        return False

    def _evict(self, statement: Statement, task: int, node: int, victims: list[int]) -> bool:
        """Evict in order until the task fits; nothing if it does not."""
        tiers, checkpoint = self._tiers, statement.checkpoint()
        todo = tiers.victims_in_order(victims, task) if victims else []
        fits = self._fits(task, node)
        while todo and not fits:
            evict(tiers, statement, todo.pop(0), NAME, task)
            fits = self._fits(task, node)
        if fits:
            wait_there(tiers, statement, task, node)
        else:
            statement.rollback(checkpoint)
        return fits

    def _fits(self, task: int, node: int) -> bool:
        tiers, snapshot = self._tiers, self._session.snapshot
        queue = int(snapshot.jobs.queue[snapshot.tasks.job[task]])
        is_allowed = tiers.allocatable(queue, task)
        return is_allowed and fits_later(tiers, task, node)

    def _where_least_go(self, statement: Statement, task: int, may_go: _Wanted) -> bool:
        """The node whose victims matter least; each is spared if the task fits without."""
        tiers, best = self._tiers, None
        for node in nodes_by_score(tiers, task).tolist():
            named = tiers.preemptable(task, self._on_nodes.on(node, IS_EVICTABLE, may_go))
            victims = self._least(statement, task, node, named)
            if victims is None:
                continue
            cost = self._cost(victims)
            if best is None or cost < best[0]:
                best = (cost, node, victims)
        if best is None:
            return False
        _, node, victims = best
        for victim in victims:
            evict(tiers, statement, victim, NAME, task)
        wait_there(tiers, statement, task, node)
        return True

    def _least(
        self, statement: Statement, task: int, node: int, named: list[int]
    ) -> list[int] | None:
        """The victims without which the task does not fit, the most important spared first."""
        tiers, checkpoint = self._tiers, statement.checkpoint()
        for victim in named:
            evict(tiers, statement, victim, NAME, task)
        kept = list(tiers.victims_in_order(named, task)) if named else []
        found: list[int] | None = None
        if self._fits(task, node):
            found = []
            for victim in reversed(kept):
                statement.restore(victim)
                if not self._fits(task, node):
                    evict(tiers, statement, victim, NAME, task)
                    found.append(victim)
        statement.rollback(checkpoint)
        return found

    def _cost(self, victims: list[int]) -> tuple[float, ...]:
        priorities = [self._tiers.groups.priority(victim) for victim in victims]
        started = [self._tiers.groups.pod(victim).scheduled_s or 0.0 for victim in victims]
        return (
            max(priorities, default=-(1 << 40)),
            sum(priorities),
            len(victims),
            -min(started, default=0.0),
        )
