"""What reclaim, preempt and consolidation have in common: every pending job in turn, at most once.

A job that may not cause evictions now, or that no eviction can help, is refused before any search.
One hard job never ends the action for the others.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from muster.engine import gang
from muster.engine.hooks import Actor
from muster.engine.ordering import Turns
from muster.engine.search.candidates import Search
from muster.engine.search.construct import LARGE, solve_at_once
from muster.engine.search.filters import free_gpus
from muster.engine.search.pool import Pool
from muster.engine.search.solver import CONSOLIDATION, Solved, solve
from muster.engine.search.victim_order import QueueStanding
from muster.engine.session import Session
from muster.model.reasons import Evidence, Reason, Refusal
from muster.model.status import IS_ACTIVE_ALLOCATED, IS_ALLOCATED, TaskStatus
from muster.numerics.arrays import Bools, Rows
from muster.numerics.axis import GPU_UNIT, QUEUE_GPU


@dataclass(frozen=True, slots=True)
class Rules:
    """How one action differs from the others."""

    action: str
    gate: Callable[[Session, Actor], Refusal | None]
    """Why the actor may not look for victims at all."""
    candidates: Callable[[Session, Actor, Rows], Rows]
    """Which of the evictable jobs may give way to the actor."""


def run(session: Session, rules: Rules, among: Bools | None = None) -> None:
    """Look for victims for every pending job (of `among`, bool[J]) in turn."""
    _Action(session, rules).run(among)


class _Action:
    """One action on one session, with what is made once for all its searches."""

    def __init__(self, session: Session, rules: Rules) -> None:
        self._session = session
        self._rules = rules
        self._pool: Pool | None = None

    def run(self, among: Bools | None) -> None:
        session = self._session
        may = _may_evict(session)
        turns = Turns(session, self._rules.action, may if among is None else may & among)
        while (job := turns.take()) >= 0:
            refusals = self._attempt(job)
            if refusals:
                session.refuse(job, *refusals)
            turns.done(job)

    def _attempt(self, job: int) -> tuple[Refusal, ...]:
        """Try to make room for one job; why not, if it could not be done."""
        session, rules = self._session, self._rules
        actor = actor_of(session, job)
        refusal = _pointless(session, actor) or rules.gate(session, actor)
        if refusal is not None:
            return (refusal,)
        evictable = _evictable(session)
        candidates = rules.candidates(session, actor, evictable[evictable != job])
        if len(candidates) == 0:
            return (Refusal(Reason.NO_VICTIMS),)
        search = _search(session, rules.action, actor, candidates)
        refusal = _hopeless(search)
        if refusal is not None:
            return (refusal,)
        session.counters[f"{rules.action}.tried"] += 1
        is_large = len(candidates) >= LARGE
        result = solve_at_once(search, self._units(search)) if is_large else solve(search)
        return () if isinstance(result, Solved) else result.refusals

    def _units(self, search: Search) -> Pool:
        if self._pool is None:
            ranks_queues = self._rules.action != CONSOLIDATION
            jobs = _evictable(self._session)
            self._pool = Pool(self._session, jobs, search.standing, ranks_queues)
        return self._pool


def actor_of(session: Session, job: int) -> Actor:
    """The job with the tasks that it wants placed next."""
    tasks = gang.next_chunk(session, job, is_real=False)
    units = session.snapshot.demand.queue_units[session.snapshot.tasks.shape[tasks]]
    return Actor(job, tasks, units.sum(axis=0).astype(np.float64))


def _search(session: Session, action: str, actor: Actor, candidates: Rows) -> Search:
    shares = session.policy.queue_shares()
    return Search(
        session=session,
        action=action,
        actor=actor,
        candidates=candidates,
        feasible=_feasible(session, actor),
        standing=QueueStanding(session.snapshot, session.ledger, shares),
        held_before=session.ledger.queue_allocated.copy(),
        fixed_before=session.ledger.queue_fixed.copy(),
        moved_before=_moved(session),
    )


def _moved(session: Session) -> Bools:
    """Tasks that were evicted in this cycle and have another place: bool[T]."""
    was_there = IS_ALLOCATED[session.snapshot.tasks.status]
    waits: Bools = session.ledger.status == TaskStatus.PIPELINED
    return was_there & waits


def _feasible(session: Session, actor: Actor) -> Bools:
    """Nodes with GPUs to offer; all of them, if some task of the job needs none."""
    snapshot = session.snapshot
    leaves = snapshot.leaves_of_job(actor.job)
    tasks = np.concatenate([snapshot.tasks_of_leaf(int(leaf)) for leaf in leaves])
    shapes = {int(row) for row in snapshot.tasks.shape[tasks]}
    if not all(snapshot.shapes[row].needs_gpu for row in shapes):
        return np.ones(len(snapshot.nodes), dtype=np.bool_)
    return free_gpus(session) > 0


def _hopeless(search: Search) -> Refusal | None:
    """Why the rules cannot let enough go: what queues may lose is less than what is missing."""
    session, actor = search.session, search.actor
    queues = np.unique(session.snapshot.jobs.queue[search.candidates])
    most = session.policy.most_loss(search.action, actor, queues)
    if not np.isfinite(most[QUEUE_GPU]):
        return None
    free = float(free_gpus(session).sum()) * GPU_UNIT
    missing = actor.request[QUEUE_GPU] - free
    if missing <= most[QUEUE_GPU] + _largest_gang(search):
        return None
    numbers = Evidence("gpu", int(missing), int(most[QUEUE_GPU]), "what other queues may lose")
    return Refusal(Reason.NO_VICTIMS, evidence=(numbers,))


def _largest_gang(search: Search) -> float:
    """By how much the last thing taken may go beyond what a queue may lose, in GPU units."""
    session = search.session
    tasks = session.snapshot.tasks
    holds = IS_ACTIVE_ALLOCATED[session.ledger.status] & (tasks.job >= 0)
    units = session.snapshot.demand.queue_units[tasks.shape[holds], QUEUE_GPU]
    held = np.bincount(tasks.job[holds], weights=units, minlength=len(session.snapshot.jobs.live))
    queues = len(np.unique(session.snapshot.jobs.queue[search.candidates]))
    largest = float(held[search.candidates].max(initial=0.0))
    return queues * max(0.0, largest - 1)


def _pointless(session: Session, actor: Actor) -> Refusal | None:
    """Why no eviction can help."""
    if len(actor.tasks) == 0:
        return Refusal(Reason.TOO_FEW_TASKS)
    for row in dict.fromkeys(session.snapshot.tasks.shape[actor.tasks].tolist()):
        refusal = session.refused_everywhere(session.snapshot.shapes[row], actor.job)
        if refusal is not None:
            return refusal
    return None


def _evictable(session: Session) -> Rows:
    """Preemptible jobs that hold something."""
    snapshot, ledger = session.snapshot, session.ledger
    held = ledger.counts[:, IS_ACTIVE_ALLOCATED].sum(axis=1) > 0
    holds = np.zeros(len(snapshot.jobs.live), dtype=np.bool_)
    holds[snapshot.leaves.job[held]] = True
    queue = snapshot.jobs.queue
    in_leaf = (queue >= 0) & snapshot.queues.is_leaf[queue]
    chosen = holds & snapshot.jobs.live & snapshot.jobs.is_preemptible & in_leaf
    return np.flatnonzero(chosen).astype(np.int64)


def _may_evict(session: Session) -> Bools:
    """Jobs that may cause evictions: not those that never do, nor those that must wait a while."""
    jobs = session.snapshot.jobs
    may = np.ones(len(jobs.live), dtype=np.bool_)
    for job in np.flatnonzero(jobs.live).tolist():
        record = jobs.records[job]
        if record.never_preempts:
            may[job] = False
        elif record.preemption_delay_s > 0:
            since_s = max(record.created_s, record.last_eviction_s or record.created_s)
            if session.now_s < since_s + record.preemption_delay_s:
                may[job] = False
                if session.has_waiting(job):
                    until_s = since_s + record.preemption_delay_s
                    session.refuse(job, Refusal(Reason.PREEMPTION_DELAY, subject=f"{until_s:.0f}"))
    return may
