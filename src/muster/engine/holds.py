"""Room that was made is held for whom it was made, until that job starts.

Evictions take time, and who was evicted comes back and waits like everybody else. Were the room
given to whoever comes first in the order of queues, a victim could take it, and the job would evict
again in the next cycle, without end. So a job for which somebody was evicted is served before the
order, on the nodes that it was promised (`serve`); so is whoever was moved, once it is back, and a
job for which nothing but a place that was given in the same cycle was taken back: nobody has to
leave for it, and it starts in the next cycle. A hold
ends when the job has started, when its victims stay where they were after all, when the promised
nodes can take it no longer, or `HELD_S` after the last victim left. Until then nobody who was
evicted for it is evicted again.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import inf
from operator import attrgetter

import numpy as np

from muster.engine.plan import Evict, Plan
from muster.model.snapshot import ClusterSnapshot
from muster.model.status import IS_ACTIVE_ALLOCATED, TaskStatus
from muster.numerics.arrays import Bools, Rows

HELD_S = 300.0
"""How long room is held after the last victim left."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Room for the tasks of a job that wait, one node for each of them."""

    job: str
    nodes: tuple[str, ...]
    victims: tuple[Evict, ...]
    """Who was made to leave for it; empty: nobody, it may start."""
    left_at_s: float | None = None
    """When the last victim had left; None: some are still there."""

    @property
    def ends_s(self) -> float:
        """When waiting alone ends it."""
        return inf if self.left_at_s is None else self.left_at_s + HELD_S

    @property
    def is_of_a_victim(self) -> bool:
        """Whether it is a place to move to: its pod comes only after the one that leaves."""
        return any(victim.job == self.job for victim in self.victims)


def still_held(holds: Iterable[Hold], snapshot: ClusterSnapshot, now_s: float) -> tuple[Hold, ...]:
    """Holds of an earlier cycle, as far as time and what became of the victims let them stand."""
    seen = (_seen(hold, snapshot, now_s) for hold in holds if hold.job in snapshot.jobs.row)
    return tuple(hold for hold in seen if hold is not None and now_s < hold.ends_s)


def spared_jobs(snapshot: ClusterSnapshot, holds: Iterable[Hold]) -> Rows:
    """Jobs that were evicted for somebody who still waits, ascending."""
    jobs = {snapshot.jobs.row.get(victim.job, -1) for hold in holds for victim in hold.victims}
    return np.array(sorted(jobs - {-1}), dtype=np.int64)


def next_holds(
    snapshot: ClusterSnapshot, holds: Iterable[Hold], plan: Plan, rearranged: Collection[str] = ()
) -> tuple[Hold, ...]:
    """What the next cycle must hold: for those who wait on, for whom this cycle evicted, and whom
    it gave another place than it had given them before (`rearranged`).
    """
    waiting = _nodes_by_job(plan)
    held = {
        hold.job: hold
        for hold in holds
        if hold.job in waiting or (hold.is_of_a_victim and not _has_pending(snapshot, hold.job))
    }
    evicted = _victims_by_job(plan.evictions)
    found = []
    for job in dict.fromkeys((*held, *evicted, *rearranged)):
        nodes, before = waiting.get(job, ()), held.get(job)
        if before is not None and job not in evicted:
            found.append(replace(before, nodes=nodes or before.nodes))
        elif nodes:
            earlier = before.victims if before is not None else ()
            found.append(Hold(job, nodes, (*earlier, *evicted.get(job, ()))))
    return tuple(found)


def earliest_end_s(holds: Iterable[Hold]) -> float:
    """When waiting alone ends the first of them."""
    return min((hold.ends_s for hold in holds), default=inf)


def promised_nodes(snapshot: ClusterSnapshot, hold: Hold) -> Bools:
    """The nodes of a hold: bool[N]."""
    rows = [snapshot.nodes.row[name] for name in hold.nodes if name in snapshot.nodes.row]
    nodes = np.zeros(len(snapshot.nodes), dtype=np.bool_)
    nodes[rows] = True
    return nodes


def _seen(hold: Hold, snapshot: ClusterSnapshot, now_s: float) -> Hold | None:
    """The hold with what is known of its victims now; None: all of them stay after all."""
    tasks, count = snapshot.tasks, Counter[str]()
    for victim in hold.victims:
        row = tasks.row.get(victim.task)
        if row is None or tasks.records[row].node != victim.node:
            count["gone"] += 1
        elif IS_ACTIVE_ALLOCATED[tasks.status[row]]:
            count["back"] += 1
    if hold.victims and count["back"] == len(hold.victims):
        return None
    if count["gone"] < len(hold.victims):
        return replace(hold, left_at_s=None)
    return hold if hold.left_at_s is not None else replace(hold, left_at_s=now_s)


def _has_pending(snapshot: ClusterSnapshot, key: str) -> bool:
    """Whether a task of the job waited when the cycle began."""
    leaves = snapshot.leaves_of_job(snapshot.jobs.row[key]).tolist()
    tasks = np.concatenate([snapshot.tasks_of_leaf(leaf) for leaf in leaves])
    return bool((snapshot.tasks.status[tasks] == TaskStatus.PENDING).any())


def _nodes_by_job(plan: Plan) -> dict[str, tuple[str, ...]]:
    jobs = [nominate.job for nominate in plan.nominations]
    if len(set(jobs)) == len(jobs):
        return dict(zip(jobs, zip(map(attrgetter("node"), plan.nominations)), strict=True))
    nodes: dict[str, list[str]] = defaultdict(list)
    for job, nominations in groupby(plan.nominations, attrgetter("job")):
        nodes[job] += [nominate.node for nominate in nominations]
    return {job: tuple(names) for job, names in nodes.items()}


def _victims_by_job(evictions: Sequence[Evict]) -> dict[str, list[Evict]]:
    """Who leaves for whom: for the actor, and for itself where it moves."""
    found: dict[str, list[Evict]] = defaultdict(list)
    for actor, victims in groupby(evictions, attrgetter("actor")):
        if actor:
            found[actor] += victims
    for evict in [evict for evict in evictions if evict.moves_to]:
        found[evict.job].append(evict)
    return found
