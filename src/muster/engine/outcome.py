"""What a session amounts to: the ledger against its snapshot, as a plan and an explanation."""

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import chain, repeat

import msgspec
import numpy as np

from muster.api.volcano import INQUEUE
from muster.base.rows import rows_of
from muster.engine.config.defragmentation import NAME
from muster.engine.explain import Explanation, FairShares
from muster.engine.holds import Hold, earliest_end_s
from muster.engine.plan import NO_DETAILS, Bind, Evict, Nominate, Plan, Stamp
from muster.engine.session import Eviction, Session
from muster.engine.timing import delay_ends_s, grace_ends_s, round_begins_s
from muster.model.public_reasons import code_of
from muster.model.reason_codes import Code
from muster.model.reasons import Reason, Refusal
from muster.model.status import IS_ALLOCATED, TaskStatus
from muster.numerics.arrays import Ints, Rows

LAST_START = "last start"
LAST_EVICTION = "last eviction"
STALE_SINCE = "stale since"
_NO_REASON = Eviction("", -1)
_MOST_NAMED = 3
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


def next_change_s(
    session: Session, holds: Iterable[Hold] = (), holds_before: Iterable[Hold] = ()
) -> float | None:
    """When waiting alone may change what a cycle decides; None: never. Whoever has to wait for
    nobody is served at once: the first time, for one that could not be served would go on for ever.
    """
    snapshot, now_s, waits = session.snapshot, session.now_s, session.waiting_jobs()
    default_s = session.configured.settings.staleness_grace_s
    instants_s = [
        grace_ends_s(snapshot, default_s, now_s, session.stale_since_s),
        delay_ends_s(snapshot, waits, now_s),
        earliest_end_s(holds),
        round_begins_s(session.configured.defragmentation, session.acted_s.get(NAME), now_s),
    ]
    if waits.any():
        instants_s.append(session.policy.next_change_s())
    served = {hold.job for hold in holds_before if not hold.victims}
    if session.gets_further or any(not one.victims and one.job not in served for one in holds):
        instants_s.append(now_s)
    earliest_s = min(instants_s)
    return None if math.isinf(earliest_s) else earliest_s + _A_MOMENT_S


def rearranged_jobs(session: Session) -> tuple[str, ...]:
    """Jobs that wait on paper only: for places that others, or they themselves, had been given in
    this cycle before, and which a search took back. Nobody has to leave for them.
    """
    tasks, ledger = session.snapshot.tasks, session.ledger
    evicted, actors = session.evicted_for_whom()
    was_pending = tasks.status[evicted] == TaskStatus.PENDING
    if not was_pending.any():
        return ()
    status = ledger.status[evicted]
    leaves = (status == TaskStatus.RELEASING) | (status == TaskStatus.PIPELINED)
    found = np.union1d(tasks.job[evicted[was_pending]], actors[was_pending])
    found = np.setdiff1d(found, actors[leaves & ~was_pending], assume_unique=True)
    keys = session.snapshot.jobs.keys
    return tuple(sorted(keys[job] for job in found.tolist() if job >= 0))


_NOT_LOOKED_FOR = (Reason.GATED, Reason.BIND_REFUSED)
"""Of jobs for which no place is looked for."""


def explanation_of(session: Session, rearranged: Sequence[str]) -> Explanation:
    """Refusals of the jobs that still wait for something, those `rearranged_jobs` apart."""
    keys, waits = session.snapshot.jobs.keys, session.waiting_jobs().tolist()
    refusals = {
        keys[job]: found
        for job, found in session.refusals.items()
        if waits[job] or job in session.kept_out or found[0].reason in _NOT_LOOKED_FOR
    }
    promised = _waits_for_victims(session, frozenset(rearranged))
    for job, failed in session.policy.failures.by_job().items():
        if waits[job] or keys[job] in session.unsaid or job in promised:
            refusals[keys[job]] = _once((*failed, *refusals.get(keys[job], ())))
    refusals |= _with_takers(session, refusals)
    for job, why in promised.items():
        refusals.setdefault(keys[job], (why,))
    for job, strays in _stray_refusals(session).items():
        refusals[keys[job]] = (*refusals.get(keys[job], ()), *strays)
    return Explanation(refusals, dict(session.counters))


def _with_takers(
    session: Session, refusals: Mapping[str, tuple[Refusal, ...]]
) -> dict[str, tuple[Refusal, ...]]:
    """Refusals of jobs that had room when the cycle began, with the names of those who took it."""
    tasks, jobs = session.snapshot.tasks, session.snapshot.jobs
    placed = np.flatnonzero((session.ledger.decided_at >= 0) & (tasks.status == TaskStatus.PENDING))
    placed = placed[np.argsort(session.ledger.decided_at[placed])]
    known: dict[tuple[int, int], tuple[Refusal, ...]] = {}
    found: dict[str, tuple[Refusal, ...]] = {}
    distinct = {id(listed): listed for listed in refusals.values()} if len(placed) else {}
    behind = {
        each
        for each, listed in distinct.items()
        if any(code_of(refusal) is Code.BEHIND_OTHERS for refusal in listed)
    }
    if not behind:
        return found
    for key, listed in refusals.items():
        if id(listed) not in behind:
            continue
        leaf = int(session.snapshot.leaves_of_job(jobs.row[key])[0])
        shape = int(tasks.shape[session.snapshot.tasks_of_leaf(leaf)[0]])
        if (id(listed), shape) not in known:
            names = _takers(session, placed, shape)
            known[id(listed), shape] = tuple(_behind(session, one, names) for one in listed)
        found[key] = known[id(listed), shape]
    return found


def _takers(session: Session, placed: Rows, shape: int) -> tuple[str, ...]:
    """The first jobs that got nodes which a task of the shape could use."""
    snapshot = session.snapshot
    fits = session.answers(snapshot.shapes[shape]).fits
    jobs = snapshot.tasks.job[placed[fits[session.ledger.node[placed]]]]
    first = list(dict.fromkeys(jobs.tolist()))[:_MOST_NAMED]
    return tuple(snapshot.jobs.keys[job] for job in first)


def _behind(session: Session, refusal: Refusal, names: tuple[str, ...]) -> Refusal:
    if code_of(refusal) is not Code.BEHIND_OTHERS:
        return refusal
    is_held = bool(names) and names[0] in {hold.job for hold in session.holds}
    return msgspec.structs.replace(
        refusal, reason=Reason.ROOM_HELD if is_held else refusal.reason, names=names
    )


def _waits_for_victims(session: Session, rearranged: Container[str]) -> dict[int, Refusal]:
    """Jobs with tasks that got nodes which others are leaving, and none that starts now."""
    ledger, snapshot = session.ledger, session.snapshot
    was_pending = snapshot.tasks.status == TaskStatus.PENDING
    tasks = np.flatnonzero(was_pending & (ledger.status == TaskStatus.PIPELINED))
    if len(tasks) == 0:
        return {}
    node_names, keys = snapshot.nodes.names, snapshot.jobs.keys
    nodes = _by_first(snapshot.tasks.job[tasks], ledger.node[tasks])
    evicted, actors = session.evicted_for_whom()
    victims = _by_first(actors, snapshot.tasks.job[evicted])
    waits = Reason.WAITS_FOR_VICTIMS
    return {
        job: Refusal(
            waits,
            # Nodes are in the order of their names.
            subject=node_names[there[0]] if len(there) == 1 else _listed(there, node_names),
            names=_in_order(victims.get(job, ()), keys),
        )
        for job, there in nodes.items()
        if keys[job] not in rearranged
    }


def _by_first(first: Ints, second: Ints) -> dict[int, list[int]]:
    """Of each number in the first column those that are beside it in the second, ascending."""
    if len(first) == 0:
        return {}
    width = int(second.max()) + 1
    pairs = np.unique(first * width + second)
    first, second = np.divmod(pairs, width)
    starts = np.flatnonzero(np.diff(first, prepend=first[0] - 1))
    listed = second.tolist()
    ends = [*starts[1:].tolist(), len(listed)]
    return {
        one: listed[start:end]
        for one, start, end in zip(first[starts].tolist(), starts.tolist(), ends, strict=True)
    }


def _in_order(rows: Sequence[int], names: Sequence[str]) -> tuple[str, ...]:
    """The names of these rows, sorted: most often there is one."""
    if len(rows) == 1:
        return (names[rows[0]],)
    return tuple(sorted([names[row] for row in rows]))


def _listed(rows: Sequence[int], names: Sequence[str]) -> str:
    """The first names of many rows."""
    shown = ", ".join(names[row] for row in rows[:_MOST_NAMED])
    return shown if len(rows) <= _MOST_NAMED else f"{shown} and {len(rows) - _MOST_NAMED} more"


def fair_shares_of(session: Session) -> FairShares | None:
    """By which queues were ordered."""
    shares, queues = session.policy.queue_shares(), session.snapshot.queues
    if shares is None:
        return None
    bounded = np.where(shares.fair_share < 0, shares.total, shares.fair_share)
    return FairShares(
        queues.names,
        tuple(record.display_name or record.name for record in queues.records),
        np.minimum(bounded, shares.total),
        queues.quota,
        queues.allocated.astype(np.float64),
    )


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
    moves_to: Iterable[str] = repeat("", len(evicted))
    if moved.any():
        new_nodes = np.where(moved, ledger.node[evicted], -1).tolist()
        moves_to = [names[node] if node >= 0 else "" for node in new_nodes]
    tasks = evicted.tolist()
    why = list(map(session.evictions.get, tasks, repeat(_NO_REASON)))
    actors = [each.actor for each in why]
    # Many go for one.
    named = {actor: keys[actor] if actor >= 0 else "" for actor in set(actors)}
    return tuple(
        rows_of(
            Evict,
            [records[task].uid for task in tasks],
            map(keys.__getitem__, snapshot.tasks.job[evicted].tolist()),
            map(names.__getitem__, snapshot.tasks.node[evicted].tolist()),
            [each.action for each in why],
            map(named.__getitem__, actors),
            moves_to,
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
        chain.from_iterable(
            rows_of(Stamp, map(keys.__getitem__, jobs), repeat(what, len(jobs)), at_s)
            for what, jobs, at_s in stamped
        )
    )
