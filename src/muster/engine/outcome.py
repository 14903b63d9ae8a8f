"""What a session amounts to: the ledger against its snapshot, as a plan and an explanation."""

import math
from collections.abc import Iterable
from itertools import repeat

import numpy as np

from muster.api.volcano import INQUEUE
from muster.base.rows import rows_of
from muster.engine.explain import Explanation
from muster.engine.holds import Hold, earliest_end_s
from muster.engine.plan import NO_DETAILS, Bind, Evict, Nominate, Plan, Stamp
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
    changed = np.flatnonzero(ledger.decided_at >= 0)
    changed = changed[np.argsort(ledger.decided_at[changed])]
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
        admitted=_admitted(session),
    )


def _admitted(session: Session) -> tuple[str, ...]:
    keys = session.snapshot.jobs.keys
    return tuple(keys[job] for job, phase in session.phases.items() if phase == INQUEUE)


def next_change_s(session: Session, holds: Iterable[Hold] = ()) -> float | None:
    """When waiting alone may change what a cycle decides; None: never."""
    snapshot, now_s, waits = session.snapshot, session.now_s, session.waiting_jobs()
    default_s = session.configured.settings.staleness_grace_s
    instants_s = [
        grace_ends_s(snapshot, default_s, now_s, session.stale_since_s),
        delay_ends_s(snapshot, waits, now_s),
        earliest_end_s(holds),
    ]
    if waits.any():
        instants_s.append(session.policy.next_change_s())
    if session.gets_further:
        instants_s.append(now_s)
    earliest_s = min(instants_s)
    return None if math.isinf(earliest_s) else earliest_s + _A_MOMENT_S


def explanation_of(session: Session) -> Explanation:
    """Refusals of the jobs that still wait for something."""
    keys, waits = session.snapshot.jobs.keys, session.waiting_jobs().tolist()
    refusals = {keys[job]: found for job, found in session.refusals.items() if waits[job]}
    for job, failed in session.policy.failures.by_job().items():
        if waits[job] or keys[job] in session.unsaid:
            refusals[keys[job]] = _once((*failed, *refusals.get(keys[job], ())))
    for job, strays in _stray_refusals(session).items():
        refusals[keys[job]] = (*refusals.get(keys[job], ()), *strays)
    return Explanation(refusals, dict(session.counters))


def _once(refusals: Iterable[Refusal]) -> tuple[Refusal, ...]:
    return tuple(dict.fromkeys(refusals))


def _stray_refusals(session: Session) -> dict[int, tuple[Refusal, ...]]:
    """Pending tasks that name a sub-group which their job does not have, by job."""
    tasks = session.snapshot.tasks
    is_stray = tasks.live & (tasks.leaf < 0) & (tasks.job >= 0)
    found: dict[int, tuple[Refusal, ...]] = {}
    for task in np.flatnonzero(is_stray & (tasks.status == TaskStatus.PENDING)).tolist():
        record, job = tasks.records[task], int(tasks.job[task])
        refusal = Refusal(Reason.UNKNOWN_SUB_GROUP, record.sub_group, task=record.uid)
        found[job] = (*found.get(job, ()), refusal)
    return found


def _binds(session: Session, started: Rows) -> tuple[Bind, ...]:
    no_details = repeat(NO_DETAILS, len(started))
    binds = tuple(rows_of(Bind, *_named(session, started), no_details))
    if not session.policy.is_answered("annotate"):
        return binds
    details = session.policy.annotate(binds)
    # A gang is bound as a whole, or not at all.
    session.unsaid = {bind.job for bind, more in zip(binds, details, strict=True) if more is None}
    return tuple(
        bind._replace(details=more)
        for bind, more in zip(binds, details, strict=True)
        if more is not None and bind.job not in session.unsaid
    )


def _nominations(session: Session, waiting: Rows) -> tuple[Nominate, ...]:
    return tuple(rows_of(Nominate, *_named(session, waiting)))


def _named(
    session: Session, tasks: Rows
) -> tuple[list[str], list[str], list[str], list[tuple[str, ...]]]:
    """Uids, jobs, nodes and shared GPUs of tasks, by name."""
    snapshot, ledger = session.snapshot, session.ledger
    records, names, keys = snapshot.tasks.records, snapshot.nodes.names, snapshot.jobs.keys
    rows = tasks.tolist()
    return (
        [records[task].uid for task in rows],
        [keys[job] for job in snapshot.tasks.job[tasks].tolist()],
        [names[node] for node in ledger.node[tasks].tolist()],
        ledger.new_gpu_shares(tasks),
    )


def _evictions(session: Session, evicted: Rows) -> tuple[Evict, ...]:
    snapshot, ledger = session.snapshot, session.ledger
    records, names, keys = snapshot.tasks.records, snapshot.nodes.names, snapshot.jobs.keys
    moved = ledger.status[evicted] == TaskStatus.PIPELINED
    moves_to = np.where(moved, ledger.node[evicted], -1).tolist()
    tasks = evicted.tolist()
    why = [session.evictions.get(task, _NO_REASON) for task in tasks]
    return tuple(
        rows_of(
            Evict,
            [records[task].uid for task in tasks],
            [keys[job] for job in snapshot.tasks.job[evicted].tolist()],
            [names[node] for node in snapshot.tasks.node[evicted].tolist()],
            [each.action for each in why],
            [keys[each.actor] if each.actor >= 0 else "" for each in why],
            [names[node] if node >= 0 else "" for node in moves_to],
        )
    )


def _stamps(session: Session, started: Rows, evicted: Rows) -> tuple[Stamp, ...]:
    """Jobs that start from nothing, and jobs that lost tasks, remember when."""
    snapshot = session.snapshot
    held = snapshot.tasks.live & IS_ALLOCATED[snapshot.tasks.status] & (snapshot.tasks.job >= 0)
    had_some = np.zeros(len(snapshot.jobs.live), dtype=np.bool_)
    had_some[snapshot.tasks.job[held]] = True
    begins = snapshot.tasks.job[started]
    begun = dict.fromkeys(begins[~had_some[begins]].tolist())
    hurt = dict.fromkeys(snapshot.tasks.job[evicted].tolist())
    keys = snapshot.jobs.keys
    # They were found by row, and rows say nothing: the plan must not depend on them.
    stale = dict(sorted(session.stale_since_s.items(), key=lambda found: keys[found[0]]))
    stamped = (
        (LAST_START, begun, repeat(session.now_s, len(begun))),
        (LAST_EVICTION, hurt, repeat(session.now_s, len(hurt))),
        (STALE_SINCE, stale, stale.values()),
    )
    return tuple(
        stamp
        for what, jobs, at_s in stamped
        for stamp in rows_of(Stamp, [keys[job] for job in jobs], repeat(what, len(jobs)), at_s)
    )
