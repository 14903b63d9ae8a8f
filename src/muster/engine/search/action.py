"""What reclaim, preempt and consolidation have in common: every pending job in turn, at most once.

A job that may not cause evictions now, or that no eviction can help, is refused before any search.
One hard job never ends the action for the others.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import repeat

import numpy as np

from muster.engine.gang import too_few
from muster.engine.holds import spared_jobs
from muster.engine.hooks import Actor, LossBudget
from muster.engine.ordering import JobQueue
from muster.engine.search.batches import active_tasks
from muster.engine.search.bulk_search import is_large, solve_bulk
from muster.engine.search.candidates import VictimSearch
from muster.engine.search.disruption import spared, why_spared, within_budgets
from muster.engine.search.domains import has_places
from muster.engine.search.equivalence_classes import JobClasses
from muster.engine.search.evictable import Evictable
from muster.engine.search.gpu_packing import Arrangements
from muster.engine.search.idle_resources import free_gpus
from muster.engine.search.shared_gpus import solve_nearby, wants_parts
from muster.engine.search.solver import CONSOLIDATION, Solved, Unsolved, solve
from muster.engine.search.victim_table import VictimTable
from muster.engine.search_time import ActionTime, JobTime, QueueTime
from muster.engine.session import Eviction, Session
from muster.model.reasons import Reason, Refusal
from muster.model.status import IS_ACTIVE_ALLOCATED, TaskStatus
from muster.numerics.arrays import Bools, Floats, Rows
from muster.numerics.axis import GPU_UNIT, QUEUE_GPU

_NOBODY = Refusal(Reason.NO_VICTIMS)
_OUT_OF_TIME = Refusal(Reason.SEARCH_TIME)
_MOST_NAMED = 3
"""Queues that a refusal names at most."""


@dataclass(frozen=True, slots=True)
class ActionRules:
    """How one action differs from the others."""

    action: str
    gate: Callable[[Session, Actor], Refusal | None]
    """Why the actor may not look for victims at all."""
    considered: Callable[[Session, Actor, Evictable], Rows]
    """Which of the evictable jobs could give way to the actor, if no rule spares them."""
    is_within_queue: bool = False
    """Whether they are all of the actor's own queue, so that queues need no order."""


def run(session: Session, rules: ActionRules, among: Bools | None = None) -> None:
    """Look for victims for every pending job (of `among`, bool[J]) in turn."""
    _Action(session, rules).run(among)


class _Action:
    """One action on one session, with what is made once for all its searches."""

    def __init__(self, session: Session, rules: ActionRules) -> None:
        self._session = session
        self._rules = rules
        self._table: VictimTable | None = None
        self._evictable: Evictable | None = None
        self._refusals: dict[int, tuple[Refusal, ...]] = {}
        """Why jobs of a class were refused last."""
        self._tried: set[int] = set()
        """Jobs that victims were searched for."""
        self._held: tuple[int, Floats] | None = None
        """The version of the ledger when it was counted what jobs hold, and that."""
        self._time = ActionTime(rules.action, session.configured.search_budgets, session.elapsed_s)
        self._spared = spared_jobs(session.snapshot, session.holds)
        self._arrangements = Arrangements(session)
        self._finished = 0
        """Searches that came to their end."""

    def run(self, among: Bools | None) -> None:
        session = self._session
        may = _may_evict(session)
        job_queue = JobQueue(session, self._rules.action, may if among is None else may & among)
        queue_time = QueueTime(job_queue.queues, session.elapsed_s, session.is_awaited)
        classes = JobClasses(session, job_queue)
        served = -1
        while True:
            run, passed = job_queue.pop_run(classes.of_job, classes.refused_at, served)
            if len(passed):
                refusals = map(self._refusals.__getitem__, classes.of_job[passed].tolist())
                session.refuse_all(self._rules.action, passed.tolist(), refusals)
            if len(run) == 0:
                if self._tried:
                    session.counters[f"{self._rules.action}.tried"] += len(self._tried)
                return
            before, queue = session.ledger.version, int(session.snapshot.jobs.queue[run[0]])
            if queue_time.is_over(queue):
                self._out_of_time([*run.tolist(), *job_queue.drop(queue)])
                continue
            with queue_time.spent_by(queue):
                self._serve_all(run.tolist(), classes)
            served = int(run[0]) if session.ledger.version != before else -1

    def _serve_all(self, run: list[int], classes: JobClasses) -> None:
        """Try to make room for equal jobs, as many as possible at once."""
        while run:
            run = run[self._serve(run, classes) :]

    def _serve(self, run: list[int], classes: JobClasses) -> int:
        """Try to make room for equal jobs; how many of them are done with."""
        job_class, version = classes.of(run[0]), self._session.ledger.version
        cached = partial(self._session.cached_refusal, self._rules.action)
        known = cached(run[0])
        if known is not None and all(cached(job) is not None for job in run):
            self._refusals[job_class], classes.refused_at[job_class] = known, version
        count = len(run) if classes.refused_at[job_class] != version else 0
        time = self._time.of_job()
        while count:
            if self._time.is_over:
                return self._out_of_time(run)
            refusals = self._attempt(_actor(classes, run[:count]), time)
            if not refusals:
                return count
            if time.is_over and time.is_reduced:
                return self._out_of_time(run)
            self._refusals[job_class] = refusals
            count = 0 if time.is_over else count // 2
        self._finished += 1
        classes.refused_at[job_class] = version
        if _OUT_OF_TIME in self._refusals[job_class]:
            self._session.counters[f"{self._rules.action}.cut_short"] += len(run)
        self._session.refuse_all(self._rules.action, run, repeat(self._refusals[job_class]))
        return len(run)

    def _out_of_time(self, run: list[int]) -> int:
        """Refuse jobs because the action has used up its time. No later cycle takes that for
        granted: the next one gets further, if this one got anywhere.
        """
        session = self._session
        session.counters[f"{self._rules.action}.cut_short"] += len(run)
        session.is_cut_short = True
        session.gets_further |= self._finished > 0
        for job in run:
            session.refuse(job, (_OUT_OF_TIME,))
        return len(run)

    def _attempt(self, actor: Actor, time: JobTime) -> tuple[Refusal, ...]:
        """Try to make room for all tasks of the actor; why not, if it could not be done."""
        session, rules = self._session, self._rules
        refusal = _pointless(session, actor) or rules.gate(session, actor)
        if refusal is not None:
            return (refusal,)
        considered = rules.considered(session, actor, self._who_might_go())
        refusals = self._search(actor, considered, time)
        if not refusals:
            return ()
        why = (
            *refusals,
            *session.policy.why_protected(rules.action, actor, considered),
            *why_spared(session, considered),
        )
        said = dict.fromkeys(each for each in why if each != _NOBODY)
        return tuple(said) or (_NOBODY,)

    def _search(self, actor: Actor, considered: Rows, time: JobTime) -> tuple[Refusal, ...]:
        """Look for victims among these jobs; why there are none.

        The order of victims knows no budgets of pods, and a set that breaks one breaks it however
        it grows. So where one was broken, those are tried that may all go.
        """
        session = self._session
        candidates = considered[session.policy.victims(self._rules.action, actor, considered)]
        if len(self._spared):
            candidates = np.setdiff1d(candidates, self._spared, assume_unique=True)
        candidates = spared(session, candidates)
        refusals = self._search_among(candidates, actor, time)
        if all(each.reason is not Reason.POD_BUDGET for each in refusals):
            return refusals
        allowed = within_budgets(session, candidates)
        more = self._search_among(allowed, actor, time)
        return (*refusals, *more) if more else ()

    def _search_among(self, candidates: Rows, actor: Actor, time: JobTime) -> tuple[Refusal, ...]:
        session, rules = self._session, self._rules
        is_bulk = is_large(session, candidates)
        if not is_bulk:
            candidates = self._still_holding(candidates)
        if len(candidates) == 0:
            return (_NOBODY,)
        queues = np.bincount(session.snapshot.jobs.queue[candidates]).nonzero()[0]
        losses = session.policy.max_reclaimable(rules.action, actor, queues)
        if self._is_hopeless(actor, losses, candidates):
            return tuple(self._would_fall(queue) for queue in queues[:_MOST_NAMED].tolist())
        self._tried.update(session.snapshot.tasks.job[actor.tasks].tolist())
        search = _search_for(session, rules.action, actor, candidates, time)
        is_one_job = bool((session.snapshot.tasks.job[actor.tasks] == actor.job).all())
        if is_bulk:
            if not has_places(search):
                return (_NOBODY,)
            result = self._solve_large(search, losses, is_one_job)
        elif is_one_job:
            result = solve(search)
        else:
            return (_NOBODY,)
        if not isinstance(result, Solved):
            return result.refusals
        _inherit(session, actor.job, result.victims)
        return ()

    def _solve_large(
        self, search: VictimSearch, losses: LossBudget, is_one_job: bool
    ) -> Solved | Unsolved:
        """From columns; where GPUs are shared, also set by set on the nodes that promise most: for
        who wants a part of one before that, as columns would free a whole one for him.
        """
        table, goes_nearby_first = self._units(search), wants_parts(search)
        nearby = solve_nearby(search, table) if is_one_job and goes_nearby_first else None
        if isinstance(nearby, Solved):
            return nearby
        result = solve_bulk(search, table, losses)
        if isinstance(result, Unsolved) and is_one_job and not goes_nearby_first:
            nearby = solve_nearby(search, table)
        if isinstance(nearby, Solved):
            return nearby
        return solve(search) if is_one_job and self._is_short_of_limit(result) else result

    def _is_short_of_limit(self, result: Solved | Unsolved) -> bool:
        """Whether what columns know nothing of was missing, which victims may leave: not room on
        nodes, but room below the limit of a queue.
        """
        if self._rules.action == CONSOLIDATION or not isinstance(result, Unsolved):
            return False
        return any(each.reason is Reason.OVER_LIMIT for each in result.refusals)

    def _is_hopeless(self, actor: Actor, losses: LossBudget, candidates: Rows) -> bool:
        """Whether all that queues may lose, and all that is free, is less than what is wanted; or
        nobody may lose anything, and no arrangement of all that runs has room.
        """
        by_level = dict(zip(losses.level.tolist(), losses.most.tolist(), strict=True))
        most = sum(by_level.values())
        if actor.request[QUEUE_GPU] <= most:
            return False
        free = float(free_gpus(self._session).sum()) * GPU_UNIT
        missing = float(actor.request[QUEUE_GPU]) - free
        if missing <= most:
            return most == 0 and self._arrangements.have_no_room_for(actor.tasks)
        largest = float(self._holdings()[candidates].max(initial=0.0))
        return missing > most + len(by_level) * max(0.0, largest - 1)

    def _holdings(self) -> Floats:
        """GPU units that each job holds, counted again when something was decided."""
        version = self._session.ledger.version
        if self._held is None or self._held[0] != version:
            self._held = (version, _held_gpus(self._session))
        return self._held[1]

    def _who_might_go(self) -> Evictable:
        """Asked for every job; made anew when something was decided, or once where the table
        knows who is gone.
        """
        known, version = self._evictable, self._session.ledger.version
        if known is None or (known.version != version and self._table is None):
            known = self._evictable = Evictable(self._session)
        return known

    def _still_holding(self, candidates: Rows) -> Rows:
        """Those that have something to give: searches of many leave out who is gone by the table,
        but searches of few follow them in one action.
        """
        if self._who_might_go().version == self._session.ledger.version:
            return candidates
        holding = [job for job in candidates.tolist() if active_tasks(self._session, job)]
        return np.array(holding, dtype=np.int64)

    def _would_fall(self, queue: int) -> Refusal:
        record = self._session.snapshot.queues.records[queue]
        return Refusal(Reason.WITHIN_SHARE, subject=record.display_name or record.name)

    def _units(self, search: VictimSearch) -> VictimTable:
        if self._table is None:
            ranks_queues = self._rules.action != CONSOLIDATION
            jobs = Evictable(self._session).jobs
            standing = None if self._rules.is_within_queue else search.standing()
            self._table = VictimTable(self._session, jobs, standing, ranks_queues)
        return self._table


def _actor(classes: JobClasses, jobs: list[int]) -> Actor:
    """Jobs with the tasks that they want placed next; the first speaks for all."""
    tasks = classes.chunk(jobs)
    return Actor(jobs[0], tasks, classes.request(jobs, tasks))


def _search_for(
    session: Session, action: str, actor: Actor, candidates: Rows, time: JobTime
) -> VictimSearch:
    return VictimSearch(
        session=session,
        action=action,
        actor=actor,
        candidates=candidates,
        held_before=session.ledger.queue_allocated.copy(),
        non_preemptible_before=session.ledger.queue_allocated_non_preemptible.copy(),
        time=time,
    )


def _held_gpus(session: Session) -> Floats:
    """GPU units that each job holds: float64[J]."""
    snapshot, tasks = session.snapshot, session.snapshot.tasks
    holds = np.flatnonzero(IS_ACTIVE_ALLOCATED[session.ledger.status] & (tasks.job >= 0))
    units = snapshot.demand.queue_units[tasks.shape[holds], QUEUE_GPU]
    held = np.bincount(tasks.job[holds], weights=units, minlength=len(snapshot.jobs.live))
    return np.asarray(held, dtype=np.float64)


def _pointless(session: Session, actor: Actor) -> Refusal | None:
    """Why no eviction can help."""
    if len(actor.tasks) == 0 or _lost_its_minimum(session, actor.tasks):
        return too_few(session, actor.job)
    for row in dict.fromkeys(session.snapshot.tasks.shape[actor.tasks].tolist()):
        refusal = session.refused_everywhere(session.snapshot.shapes[row], actor.job)
        if refusal is not None:
            return refusal
    return None


def _lost_its_minimum(session: Session, tasks: Rows) -> bool:
    """Whether a gang would be torn even with these tasks placed, because an earlier search has
    evicted others of it: they come back as new pods, and then the gang waits as a whole.
    """
    leaves = session.snapshot.tasks.leaf[tasks]
    if not session.ledger.counts[leaves, TaskStatus.RELEASING].any():
        return False
    leaf, wanted = np.unique(leaves, return_counts=True)
    held = session.ledger.counts[leaf][:, IS_ACTIVE_ALLOCATED].sum(axis=1)
    return bool((held + wanted < session.snapshot.leaves.minimum[leaf]).any())


def _inherit(session: Session, actor: int, victims: Rows) -> None:
    """What was evicted for a job that now loses its place goes for the one that takes it."""
    owners = session.evicted_for.intersection(session.snapshot.tasks.job[victims].tolist())
    lost = {job for job in owners if not active_tasks(session, job)}
    for task, why in session.evictions.items() if lost else ():
        if why.actor in lost:
            session.evictions[task] = Eviction(why.action, actor)


def _may_evict(session: Session) -> Bools:
    """Jobs that may cause evictions: not those that never do, nor those that must wait a while, or
    that have met with refusals.
    """
    jobs = session.snapshot.jobs
    may: Bools = ~jobs.never_preempts
    for key, held in session.snapshot.cluster_objects.refused_actors.items():
        job = jobs.row.get(key, -1)
        if job >= 0 and may[job]:
            may[job] = False
            if session.has_waiting(job):
                why = Refusal(Reason.EVICTION_REFUSED, subject=held.why, until_s=held.until_s)
                session.refuse(job, (why,))
    for job in np.flatnonzero(jobs.live & jobs.is_timed & may).tolist():
        record = jobs.records[job]
        since_s = max(record.created_s, record.last_eviction_s or record.created_s)
        until_s = since_s + record.preemption_delay_s
        if record.preemption_delay_s > 0 and session.now_s < until_s:
            may[job] = False
            if session.has_waiting(job):
                session.refuse(job, (Refusal(Reason.PREEMPTION_DELAY, until_s=until_s),))
    return may
