"""What a session amounts to: the ledger against its snapshot, as a plan and an explanation."""

import math

import numpy as np

from muster.engine.explain import Explanation
from muster.engine.plan import Bind, Evict, Nominate, Plan, Stamp
from muster.engine.session import Eviction, Session
from muster.engine.timing import delay_ends_s, grace_ends_s
from muster.model.reasons import Reason, Refusal
from muster.model.status import IS_ALLOCATED, TaskStatus
from muster.numerics.arrays import Rows

LAST_START = "last start"
LAST_EVICTION = "last eviction"
STALE_SINCE = "stale since"
_NO_REASON = Eviction("", -1)
_A_MOMENT_S = 1e-3
"""Just after it, so that what was to end then has ended."""


def plan_of(session: Session) -> Plan:
    """Everything that the ledger decided, in the order in which it was decided."""
    ledger, before = session.ledger, session.snapshot.tasks.status
    changed = np.flatnonzero(ledger.sequence >= 0)
    changed = changed[np.argsort(ledger.sequence[changed])]
    status = ledger.status[changed]
    started = changed[status == TaskStatus.ALLOCATED]
    waiting = changed[status == TaskStatus.PIPELINED]
    was_active = before[changed] != TaskStatus.PENDING
    leaves = (status == TaskStatus.RELEASING) | (status == TaskStatus.PIPELINED)
    evicted = changed[was_active & leaves]
    binds = _binds(session, started)
    return Plan(
        binds=binds,
        nominations=_nominations(session, waiting),
        evictions=_evictions(session, evicted),
        stamps=_stamps(session, started, evicted),
    )


def look_again_s(session: Session) -> float | None:
    """When waiting alone may change what a cycle decides; None: never."""
    snapshot, now_s, waits = session.snapshot, session.now_s, session.waiting_jobs()
    default_s = session.configured.settings.staleness_grace_s
    turns = [
        grace_ends_s(snapshot, default_s, now_s, session.stale_since_s),
        delay_ends_s(snapshot, waits, now_s),
    ]
    if waits.any():
        turns.append(session.policy.next_turn_s())
    earliest_s = min(turns)
    return None if math.isinf(earliest_s) else earliest_s + _A_MOMENT_S


def explanation_of(session: Session) -> Explanation:
    """Refusals of the jobs that still wait for something."""
    keys, waits = session.snapshot.jobs.keys, session.waiting_jobs().tolist()
    refusals = {keys[job]: found for job, found in session.refusals.items() if waits[job]}
    for job, strays in _stray_refusals(session).items():
        refusals[keys[job]] = (*refusals.get(keys[job], ()), *strays)
    return Explanation(refusals, dict(session.counters))


def _stray_refusals(session: Session) -> dict[int, tuple[Refusal, ...]]:
    """Pending tasks that name a sub-group which their job does not have, by job."""
    tasks = session.snapshot.tasks
    is_stray = tasks.live & (tasks.leaf < 0) & (tasks.job >= 0)
    found: dict[int, tuple[Refusal, ...]] = {}
    for task in np.flatnonzero(is_stray & (tasks.status == TaskStatus.PENDING)).tolist():
        record, job = tasks.records[task], int(tasks.job[task])
        refusal = Refusal(Reason.UNKNOWN_GROUP, record.group, task=record.uid, is_final=True)
        found[job] = (*found.get(job, ()), refusal)
    return found


def _binds(session: Session, started: Rows) -> tuple[Bind, ...]:
    binds = tuple(map(Bind, *_named(session, started)))
    if not session.policy.is_answered("annotate"):
        return binds
    details = session.policy.annotate(binds)
    return tuple(bind._replace(details=more) for bind, more in zip(binds, details, strict=True))


def _nominations(session: Session, waiting: Rows) -> tuple[Nominate, ...]:
    return tuple(map(Nominate, *_named(session, waiting)))


def _named(
    session: Session, tasks: Rows
) -> tuple[list[str], list[str], list[str], list[tuple[str, ...]]]:
    """Uids, jobs, nodes and shared GPUs of tasks, by name."""
    snapshot, ledger = session.snapshot, session.ledger
    records, names, keys = snapshot.tasks.records, snapshot.nodes.names, snapshot.jobs.keys
    rows = tasks.tolist()
    is_shared = np.array([shape.is_shared for shape in snapshot.shapes], dtype=np.bool_)
    shares = is_shared[snapshot.tasks.shape[tasks]].tolist() if rows else []
    return (
        [records[task].uid for task in rows],
        [keys[job] for job in snapshot.tasks.job[tasks].tolist()],
        [names[node] for node in ledger.node[tasks].tolist()],
        [ledger.groups_of(task) if s else () for task, s in zip(rows, shares, strict=True)],
    )


def _evictions(session: Session, evicted: Rows) -> tuple[Evict, ...]:
    snapshot, ledger = session.snapshot, session.ledger
    records, names, keys = snapshot.tasks.records, snapshot.nodes.names, snapshot.jobs.keys
    moved = ledger.status[evicted] == TaskStatus.PIPELINED
    rows = zip(
        evicted.tolist(),
        snapshot.tasks.job[evicted].tolist(),
        snapshot.tasks.node[evicted].tolist(),
        np.where(moved, ledger.node[evicted], -1).tolist(),
        strict=True,
    )
    plan = []
    for task, job, node, moves_to in rows:
        why = session.evictions.get(task, _NO_REASON)
        actor = keys[why.actor] if why.actor >= 0 else ""
        place = names[moves_to] if moves_to >= 0 else ""
        plan.append(Evict(records[task].uid, keys[job], names[node], why.action, actor, place))
    return tuple(plan)


def _stamps(session: Session, started: Rows, evicted: Rows) -> tuple[Stamp, ...]:
    """Jobs that start from nothing, and jobs that lost tasks, remember when."""
    snapshot = session.snapshot
    held = snapshot.tasks.live & IS_ALLOCATED[snapshot.tasks.status] & (snapshot.tasks.job >= 0)
    had_some = np.zeros(len(snapshot.jobs.live), dtype=np.bool_)
    had_some[snapshot.tasks.job[held]] = True
    begun = dict.fromkeys(snapshot.tasks.job[started].tolist())
    hurt = dict.fromkeys(snapshot.tasks.job[evicted].tolist())
    keys, now_s = snapshot.jobs.keys, session.now_s
    starts = tuple(Stamp(keys[job], LAST_START, now_s) for job in begun if not had_some[job])
    stale = session.stale_since_s.items()
    return (
        starts
        + tuple(Stamp(keys[job], LAST_EVICTION, now_s) for job in hurt)
        + tuple(Stamp(keys[job], STALE_SINCE, since_s) for job, since_s in stale)
    )
