"""What may be disrupted at all: PodDisruptionBudgets, evictions that the API server has refused
lately, and the budget of the configuration.

Every pod that leaves or moves counts, those of earlier searches of the cycle included. The
configured budget is hard and in GPUs: per GPU that is asked for, per cycle, per hour; for all
evictions together and for those of single queues.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from muster.engine.config.budgets import REMEMBERED_S, DisruptionLimits
from muster.engine.session import Session
from muster.model.cluster_objects import RecentEviction
from muster.model.reasons import Reason, Refusal
from muster.model.snapshot import ClusterSnapshot
from muster.model.status import IS_ACTIVE_ALLOCATED, TaskStatus
from muster.numerics.arrays import Rows
from muster.numerics.axis import GPU_UNIT, QUEUE_GPU

_NOTHING: Rows = np.zeros(0, dtype=np.int64)
_MOST_NAMED = 3
"""Pods that a refusal names at most."""


def disruption_objection(session: Session, requested: float, victims: Rows) -> Refusal | None:
    """Why these tasks must not all be disrupted; `requested` is in GPU units."""
    if len(victims) == 0:
        return None
    exhausted = next(_exhausted_allowances(session, victims), None)
    if exhausted is not None:
        return Refusal(Reason.POD_BUDGET, subject=exhausted)
    if session.configured.disruption_budget.is_off:
        return None
    over = next(_exceeded_limits(session, requested, victims), None)
    return None if over is None else Refusal(Reason.DISRUPTION_BUDGET, subject=over)


def spared(session: Session, jobs: Rows) -> Rows:
    """Those of the jobs that no budget and no refusal protects altogether."""
    objects = session.snapshot.cluster_objects
    if not objects.disruption_allowances and not objects.refused_evictions:
        return jobs
    protected = [rows for _, rows in _protected_jobs(session)]
    protected.append(session.snapshot.tasks.job[refused_tasks(session)])
    return jobs[~np.isin(jobs, np.concatenate(protected))]


def within_budgets(session: Session, jobs: Rows) -> Rows:
    """Those of the jobs that may all go together, by budgets of pods: of jobs under one that lets
    only some of them go, the least important and youngest.
    """
    tasks, columns = session.snapshot.tasks, session.snapshot.jobs
    allowances = session.snapshot.cluster_objects.disruption_allowances
    gone, held = _disrupted(session), IS_ACTIVE_ALLOCATED[session.ledger.status]
    left: dict[str, int] = {}
    wanted: dict[int, list[tuple[str, int]]] = {}
    for name, rows in _covered(session).items():
        left[name] = allowances[name].allowed - int(np.isin(rows, gone).sum())
        theirs, counts = np.unique(tasks.job[rows[held[rows]]], return_counts=True)
        for job, count in zip(theirs.tolist(), counts.tolist(), strict=True):
            wanted.setdefault(job, []).append((name, count))
    kept = []
    for job in jobs[np.lexsort((-columns.age_rank[jobs], columns.priority[jobs]))].tolist():
        asked = wanted.get(job, [])
        if all(count <= left[name] for name, count in asked):
            for name, count in asked:
                left[name] -= count
            kept.append(job)
    return np.array(sorted(kept), dtype=np.int64)


def why_spared(session: Session, jobs: Rows) -> list[Refusal]:
    """Which budgets and refusals protect some of the jobs altogether."""
    closed = [
        Refusal(Reason.POD_BUDGET, subject=name)
        for name, rows in _protected_jobs(session)
        if np.isin(rows, jobs).any()
    ]
    return [*closed, *_refused_evictions(session, jobs)]


def refused_tasks(session: Session) -> Rows:
    """Tasks with a place whose eviction the API server has refused lately; found once per cycle."""
    if session.refused_tasks is None:
        tasks = session.snapshot.tasks
        rows = (tasks.row.get(uid) for uid in session.snapshot.cluster_objects.refused_evictions)
        found = np.array(sorted(row for row in rows if row is not None), dtype=np.int64)
        session.refused_tasks = found[IS_ACTIVE_ALLOCATED[tasks.status[found]]]
    return session.refused_tasks


def _refused_evictions(session: Session, jobs: Rows) -> Iterator[Refusal]:
    """The first few of the refusals that protect some of the jobs."""
    rows, snapshot = refused_tasks(session), session.snapshot
    if len(rows) == 0:
        return
    for task in rows[np.isin(snapshot.tasks.job[rows], jobs)][:_MOST_NAMED].tolist():
        record = snapshot.tasks.records[task]
        held = snapshot.cluster_objects.refused_evictions[record.uid]
        subject = f"pod {record.namespace}/{record.name} ({held.why})"
        yield Refusal(Reason.EVICTION_REFUSED, subject=subject, until_s=held.until_s)


def _protected_jobs(session: Session) -> Iterator[tuple[str, Rows]]:
    """Budgets that let no more pods go, and the jobs of which they cover pods."""
    tasks, allowances = (
        session.snapshot.tasks,
        session.snapshot.cluster_objects.disruption_allowances,
    )
    gone = _disrupted(session) if allowances else _NOTHING
    for name, rows in _covered(session).items() if allowances else ():
        if allowances[name].allowed <= np.isin(rows, gone).sum():
            yield name, tasks.job[rows[IS_ACTIVE_ALLOCATED[session.ledger.status[rows]]]]


def _exhausted_allowances(session: Session, victims: Rows) -> Iterator[str]:
    allowances = session.snapshot.cluster_objects.disruption_allowances
    if not allowances:
        return
    # The victims may count as disrupted already: the ledger holds what is being tried.
    earlier = np.setdiff1d(_disrupted(session), victims)
    for name, rows in _covered(session).items():
        wanted = int(np.isin(rows, victims).sum())
        if wanted and wanted + int(np.isin(rows, earlier).sum()) > allowances[name].allowed:
            yield name


def _covered(session: Session) -> dict[str, Rows]:
    """Which tasks each allowance covers, in the order of their names; found once per cycle."""
    if session.covered is None:
        records = session.snapshot.tasks.records
        of_namespace: dict[str, list[int]] = {}
        for task in np.flatnonzero(IS_ACTIVE_ALLOCATED[session.snapshot.tasks.status]).tolist():
            of_namespace.setdefault(records[task].namespace, []).append(task)
        allowances = session.snapshot.cluster_objects.disruption_allowances
        session.covered = {
            name: np.array(
                [
                    task
                    for task in of_namespace.get(allowance.namespace, ())
                    if allowance.selector.matches(records[task].labels)
                ],
                dtype=np.int64,
            )
            for name, allowance in sorted(allowances.items())
        }
    return session.covered


def _disrupted(session: Session) -> Rows:
    """Tasks that had a place when the cycle began and leave or move."""
    tasks, status = session.snapshot.tasks, session.ledger.status
    had_place = IS_ACTIVE_ALLOCATED[tasks.status]
    goes = (status == TaskStatus.RELEASING) | (status == TaskStatus.PIPELINED)
    changed = status != tasks.status
    return np.flatnonzero(had_place & goes & changed).astype(np.int64)


def _exceeded_limits(session: Session, requested: float, victims: Rows) -> Iterator[str]:
    budget = session.configured.disruption_budget
    earlier = np.setdiff1d(_disrupted(session), victims)
    for name, limits in (("", budget.overall), *sorted(budget.queues.items())):
        now = _gpu_units(session, victims, name)
        cycle = now + _gpu_units(session, earlier, name)
        if now and _is_exceeded(limits, now, cycle, _recent(session, name), requested):
            yield name or "the cluster"


def _is_exceeded(
    limits: DisruptionLimits, now: float, cycle: float, recent: float, requested: float
) -> bool:
    checks = (
        (limits.per_requested, now, requested / GPU_UNIT),
        (limits.per_cycle, cycle, 1.0),
        (limits.per_hour, cycle + recent, 1.0),
    )
    return any(
        most is not None and evicted > most * times * GPU_UNIT + 0.5
        for most, evicted, times in checks
    )


def _gpu_units(session: Session, tasks: Rows, queue: str) -> float:
    """GPU units that these tasks hold, those of one queue (and below it) where it is named."""
    snapshot = session.snapshot
    if queue:
        row = snapshot.queues.row.get(queue, -1)
        of_task = snapshot.jobs.queue[snapshot.tasks.job[tasks]]
        tasks = tasks[(snapshot.queues.chain[of_task] == row).any(axis=1)]
    units = snapshot.demand.queue_units[snapshot.tasks.shape[tasks], QUEUE_GPU]
    return float(units.sum())


def _recent(session: Session, queue: str) -> float:
    """GPU units that were evicted within the hour, likewise."""
    queues = session.snapshot.queues
    since_s = session.now_s - REMEMBERED_S
    lately = [e for e in session.snapshot.cluster_objects.recent_evictions if e.at_s >= since_s]
    if queue:
        row = queues.row.get(queue, -1)
        lately = [
            e for e in lately if e.queue in queues.row and row in queues.chain[queues.row[e.queue]]
        ]
    return float(sum(e.gpu_units for e in lately))


def as_recent(snapshot: ClusterSnapshot, tasks: Iterable[str], at_s: float) -> list[RecentEviction]:
    """What later cycles must know of these evictions (uids), which were carried out."""
    rows = np.array([snapshot.tasks.row[task] for task in tasks], dtype=np.int64)
    units = snapshot.demand.queue_units[snapshot.tasks.shape[rows], QUEUE_GPU]
    queues = snapshot.jobs.queue[snapshot.tasks.job[rows]]
    return [
        RecentEviction(snapshot.queues.records[queue].name, int(units[queues == queue].sum()), at_s)
        for queue in np.unique(queues).tolist()
    ]
