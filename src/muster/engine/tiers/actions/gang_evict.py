"""gangpreempt and gangreclaim: make room for a whole job, in one domain, at the cost of bundles.

A bundle is what of a job goes together: what it has above its minimum, task by task, or all of it.
Surplus goes first, then whole jobs, the least important first. Volcano takes a whole job only as
far as it is inside the domain, and evicts more than is needed; here a whole job is all of its
tasks, and whoever can stay after all stays.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from muster.engine.session import Eviction, Session
from muster.engine.statement import Statement
from muster.engine.tiers.evicting import IS_EVICTABLE, could_stay
from muster.engine.tiers.fold import Tiers, tiers_of
from muster.engine.tiers.groups import IS_HELD, SubJob
from muster.engine.tiers.hyper_nodes import CLUSTER
from muster.engine.tiers.placing import STARTS_FIRST, Round, keep_waiting, place_tasks
from muster.engine.tiers.queueing import JobsByQueue
from muster.engine.tiers.waiting import may_be_served
from muster.model.reasons import Reason, Refusal
from muster.numerics.arrays import Ints

PREEMPT, RECLAIM = "gangpreempt", "gangreclaim"
_DOMAINS_MAX = 8


@dataclass(frozen=True, slots=True)
class _Bundle:
    """Tasks that go together."""

    job: int
    tasks: tuple[int, ...]
    is_whole: bool


def preempt(session: Session) -> None:
    """Room inside a queue, from jobs of lower priority."""
    _execute(session, PREEMPT)


def reclaim(session: Session) -> None:
    """Room from other queues."""
    _execute(session, RECLAIM)


def _execute(session: Session, action: str) -> None:
    session.availability_score = STARTS_FIRST
    tiers = tiers_of(session)
    starving = [
        job
        for job in tiers.groups.jobs()
        if may_be_served(session, tiers, job) and tiers.job_starving(job)
    ]
    order = JobsByQueue(tiers, starving)
    while (queue := order.pop_queue()) is not None:
        if action == RECLAIM and tiers.overused(queue):
            order.close(queue)
            continue
        job = order.pop_job(queue)
        if not _served(tiers, job, action):
            session.refuse(job, (Refusal(Reason.NO_VICTIMS),))
        order.push_queue(queue)


def _served(tiers: Tiers, job: int, action: str) -> bool:
    groups = tiers.groups
    pending = groups.pending(job)
    queue = int(groups.snapshot.jobs.queue[job])
    if action == RECLAIM and not tiers.preemptive(queue, groups.charge_of(pending)):
        return False
    arguments = tiers.session.configured.action_arguments.get(action)
    most = _DOMAINS_MAX if arguments is None else arguments.key("maxDomains").integer(_DOMAINS_MAX)
    takes_whole = arguments is None or arguments.key("allowWholeBundle").flag(True)
    for domain in _domains(tiers, job)[:most]:
        if _make_room(tiers, job, action, domain, takes_whole):
            return True
    return False


def _domains(tiers: Tiers, job: int) -> list[str]:
    """Hyper nodes in which the job may be, the widest first: there it finds most."""
    groups = tiers.groups
    nearness = groups.terms(job).nearness
    if nearness is None:
        return [CLUSTER]
    whole = SubJob(job, "", "", groups.minimum(job), nearness)
    whole.hyper_node = groups.hyper_node_of(job)
    allowed = nearness.tier if nearness.tier is not None else tiers.hyper.top_tier
    names = tiers.hyper.below(CLUSTER)
    fitting = [name for name in names if tiers.hyper.tier[name] <= allowed]
    return sorted(fitting, key=lambda name: -tiers.hyper.tier[name])


def _make_room(tiers: Tiers, job: int, action: str, domain: str, takes_whole: bool) -> bool:
    session, groups = tiers.session, tiers.groups
    tasks = tiers.in_task_order(groups.pending(job).tolist())
    part, needs = groups.sub_jobs(job)[0], _least(tiers, job, tasks)
    with Statement(session) as statement:
        for bundle in _bundles(tiers, job, action, domain, takes_whole):
            statement.evict_all(np.array(bundle.tasks, dtype=np.int64), Eviction(action, job))
            if not _might_do(tiers, needs, domain):
                continue
            checkpoint = statement.checkpoint()
            place_tasks(tiers, statement, part, list(tasks), tiers.hyper.nodes[domain], Round())
            if tiers.job_pipelined(job):
                keep_waiting(session, statement)
                _let_stay(tiers, statement)
                statement.commit()
                return True
            statement.rollback(checkpoint)
    return False


def _least(tiers: Tiers, job: int, tasks: Sequence[int]) -> Ints:
    """What as many of the tasks as the job needs ask for at least, whichever these are."""
    groups = tiers.groups
    missing = max(groups.minimum(job) - groups.ready(job) - groups.waiting(job), 1)
    shapes = groups.snapshot.tasks.shape[np.array(tasks, dtype=np.int64)]
    least: Ints = np.sort(groups.request[shapes], axis=0)[:missing].sum(axis=0)
    return least


def _might_do(tiers: Tiers, needs: Ints, domain: str) -> bool:
    """Whether all that is or becomes free in the domain is enough, wherever it is."""
    ledger, nodes = tiers.session.ledger, tiers.hyper.nodes[domain]
    free = (ledger.idle[nodes] + ledger.releasing[nodes]).clip(0).sum(axis=0)
    return bool((free >= needs)[needs > 0].all())


def _let_stay(tiers: Tiers, statement: Statement) -> None:
    """Victims whose room is not needed stay, if that leaves no job cut below its minimum."""
    ledger, groups = tiers.session.ledger, tiers.groups
    job_of, victims = groups.snapshot.tasks.job, tiers.session.evictions
    mine = [task for task in statement.entries().task.tolist() if ledger.is_evicted_here(task)]
    for task in reversed([task for task in dict.fromkeys(mine) if task in victims]):
        job = int(job_of[task])
        held = len(groups.in_status(job, IS_HELD))
        if held + 1 > groups.minimum(job) and could_stay(tiers, task):
            statement.restore(task)


def _bundles(
    tiers: Tiers, job: int, action: str, domain: str, takes_whole: bool
) -> Sequence[_Bundle]:
    """What may go, surplus first, the least important job first."""
    groups = tiers.groups
    nodes, ledger = tiers.hyper.nodes[domain], groups.ledger
    surplus: list[_Bundle] = []
    whole: list[_Bundle] = []
    for other in _victim_jobs(tiers, job, action):
        there = [
            task
            for task in groups.tasks(other).tolist()
            if ledger.status[task] in IS_EVICTABLE
            and ledger.node[task] >= 0
            and groups.pod(task).is_preemptable
        ]
        named = tiers.evictable(action, job, there)
        inside = [task for task in named if nodes[int(ledger.node[task])]]
        spare = groups.ready(other) - groups.minimum(other)
        last_first = tiers.in_task_order(inside)[::-1]
        surplus += [_Bundle(other, (task,), False) for task in last_first[: max(spare, 0)]]
        rest = last_first[max(spare, 0) :]
        if rest and takes_whole and len(named) == len(groups.in_status(other, IS_HELD)):
            gone = set(last_first[: max(spare, 0)])
            whole.append(_Bundle(other, tuple(task for task in named if task not in gone), True))
    return [*surplus, *whole]


def _victim_jobs(tiers: Tiers, job: int, action: str) -> list[int]:
    """Jobs that may lose something, the one that loses first first."""
    groups, columns = tiers.groups, tiers.groups.snapshot.jobs
    queue = int(columns.queue[job])

    def may_lose(other: int) -> bool:
        there = int(columns.queue[other])
        if other == job or there < 0:
            return False
        if action == PREEMPT:
            return there == queue and bool(columns.priority[other] < columns.priority[job])
        return there != queue and groups.queue(there).is_reclaimable

    found = [other for other in groups.jobs() if may_lose(other)]
    return sorted(found, key=tiers.job_key, reverse=True)
