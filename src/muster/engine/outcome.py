"""What a session amounts to: the ledger against its snapshot, as a plan and an explanation."""

import numpy as np

from muster.engine.explain import Explanation
from muster.engine.plan import Bind, Evict, Nominate, Plan, Stamp
from muster.engine.session import Eviction, Session
from muster.model.status import IS_ALLOCATED, TaskStatus
from muster.numerics.arrays import Rows

LAST_START = "last start"
LAST_EVICTION = "last eviction"
STALE_SINCE = "stale since"
_NO_REASON = Eviction("", -1)


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
        evictions=tuple(_evict(session, task) for task in evicted.tolist()),
        stamps=_stamps(session, started, evicted),
    )


def explanation_of(session: Session) -> Explanation:
    """Refusals of the jobs that still wait for something."""
    keys = session.snapshot.jobs.keys
    refusals = {
        keys[job]: tuple(found)
        for job, found in session.refusals.items()
        if session.has_waiting(job)
    }
    return Explanation(refusals, dict(session.counters))


def _binds(session: Session, started: Rows) -> tuple[Bind, ...]:
    snapshot, ledger = session.snapshot, session.ledger
    records, names, keys = snapshot.tasks.records, snapshot.nodes.names, snapshot.jobs.keys
    nodes, jobs = ledger.node[started].tolist(), snapshot.tasks.job[started].tolist()
    binds = tuple(
        Bind(records[task].uid, keys[job], names[node], ledger.groups_of(task))
        for task, node, job in zip(started.tolist(), nodes, jobs, strict=True)
    )
    if not session.policy.is_answered("annotate"):
        return binds
    details = session.policy.annotate(binds)
    return tuple(bind._replace(details=more) for bind, more in zip(binds, details, strict=True))


def _nominations(session: Session, waiting: Rows) -> tuple[Nominate, ...]:
    snapshot, ledger = session.snapshot, session.ledger
    return tuple(
        Nominate(
            snapshot.tasks.records[task].uid,
            snapshot.jobs.keys[int(snapshot.tasks.job[task])],
            snapshot.nodes.names[int(ledger.node[task])],
            ledger.groups_of(task),
        )
        for task in waiting.tolist()
    )


def _evict(session: Session, task: int) -> Evict:
    snapshot, ledger = session.snapshot, session.ledger
    why = session.evictions.get(task, _NO_REASON)
    moved = ledger.status[task] == TaskStatus.PIPELINED
    return Evict(
        task=snapshot.tasks.records[task].uid,
        job=snapshot.jobs.keys[int(snapshot.tasks.job[task])],
        node=snapshot.nodes.names[int(snapshot.tasks.node[task])],
        action=why.action,
        actor=snapshot.jobs.keys[why.actor] if why.actor >= 0 else "",
        moves_to=snapshot.nodes.names[int(ledger.node[task])] if moved else "",
    )


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
