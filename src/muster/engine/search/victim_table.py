"""Everything that may be evicted in an action, as columns: units in the order in which they go.

The order is that of `victim_order`, worked out for all candidates at once: what a queue holds falls
with everything that is taken from it, so sorting by what would be left gives the same turns. A
table is made once per action and stays; what was evicted meanwhile is told apart by the ledger.
"""

from typing import NamedTuple

import numpy as np

from muster.engine.hooks import LossBudget
from muster.engine.search.batches import active_tasks, next_batch
from muster.engine.search.victim_cost import resource_cost, victim_rank, work_lost
from muster.engine.search.victim_order import QueueStanding
from muster.engine.session import Session
from muster.model.status import IS_ACTIVE_ALLOCATED
from muster.numerics import fit, gpu_shares
from muster.numerics.arrays import Bools, Floats, Ints, Rows
from muster.numerics.axis import GPU, GPU_UNIT, QUEUE_GPU, QUEUE_WIDTH
from muster.numerics.eligible import Homes, still_there, tasks_of
from muster.numerics.tree import path
from muster.numerics.victims import Budget, Units

_NO_BOUND = 1 << 60
_NOWHERE, _IN_SEVERAL = -1, -2
"""In place of the only node with room."""


class _Tenant(NamedTuple):
    """A unit with a shared GPU to itself, when the table was made."""

    unit: int
    task: int
    node: int
    share: int
    need_mib: int


class Tenants(NamedTuple):
    """Who sits on which shared GPU, when the table was made; on several: one row for each."""

    unit: Rows
    share: Rows
    mib: Ints


class VictimTable:
    """Units of all evictable jobs: `unit_job` [U], and their tasks one after another."""

    def __init__(
        self, session: Session, jobs: Rows, standing: QueueStanding | None, ranks_queues: bool
    ) -> None:
        """`standing` None: the victims of one search are of one queue, whichever that is."""
        self._session = session
        self._alone: list[_Tenant] = []
        ordered = _ordered(session, jobs, standing) if ranks_queues else _least_first(session, jobs)
        per_job, sizes, self._tasks = _taken_apart(session, ordered)
        self.unit_job: Rows = np.repeat(ordered, per_job)
        self._start = _starts(sizes)
        is_core = np.append(np.diff(self.unit_job) != 0, True)[: len(self.unit_job)]
        self.rank: Ints = victim_rank(session, self.unit_job, is_core)
        self._is_shared: Bools = np.array(
            [shape.is_shared for shape in session.snapshot.shapes], dtype=np.bool_
        )
        self.units = self._columns(self.rank if ranks_queues else np.zeros_like(self.rank))
        self._queue: Rows = session.snapshot.jobs.queue[self.unit_job]
        self._one_level = np.zeros(len(self.unit_job), dtype=np.int64)
        self._levels: dict[bytes, Rows] = {}
        """Levels of units by those of queues: searches for one queue mostly ask for the same."""
        self._homes = _homes(session, self.unit_job, self._tasks[self._start[:-1]])
        self.has_shared = bool(self.shared(self._tasks).any())
        """Whether some task sits on a shared GPU."""
        self._in_order: Units | None = None
        self._movable: tuple[int, Bools] | None = None
        """The version of the ledger when it was found out, and that."""
        self.is_uniform = len(self._tasks) == len(self.rank) and all(
            len(np.unique(column)) < 2 for column in (self.rank, self.units.unit_cost)
        )
        """All units are alike: then no order of taking them costs less than another."""

    @property
    def in_order(self) -> Units:
        """The same without a price, so that who comes first in the order goes first."""
        if self._in_order is None:
            none, units = np.zeros_like(self.rank), self.units
            order = np.lexsort((units.entry_unit, units.entry_node))
            self._in_order = units._replace(
                entry_unit=units.entry_unit[order],
                entry_freed=units.entry_freed[order],
                entry_node=units.entry_node[order],
                unit_entries=np.argsort(units.entry_unit[order], kind="stable").astype(np.int64),
                unit_cost=none,
                unit_loss=none,
                unit_class=none,
            )
        return self._in_order

    def dearest_first(self, chosen: Bools) -> Rows:
        """The chosen units: the highest rank first, in it the largest, of the same the last."""
        rows = np.flatnonzero(chosen)
        order = np.lexsort((-rows, -self.units.unit_cost[rows], -self.rank[rows]))
        return np.asarray(rows[order], dtype=np.int64)

    def takes_no_more(self, chosen: Bools, others: Bools) -> bool:
        """Whether of no priority and those above it more is chosen than by the others."""
        priority = self.rank // 2
        ours, theirs = (
            np.bincount(priority[each], self.units.unit_cost[each], priority.max() + 1)
            for each in (chosen, others)
        )
        return bool((ours[::-1].cumsum() <= theirs[::-1].cumsum()).all())

    def eligible(self, jobs: Rows) -> Bools:
        """Units of these jobs that are still where they were: bool[U]."""
        ledger = self._session.ledger
        eligible: Bools = still_there(
            self._homes, jobs, ledger.status, ledger.node, IS_ACTIVE_ALLOCATED
        )
        if self._alone:
            eligible[self._joined()] = False
        return eligible

    def movable(self) -> Bools:
        """Units of which each task has room on another node, as things are: bool[U]."""
        known, version = self._movable, self._session.ledger.version
        if known is None or known[0] != version:
            has_room = self._have_room_elsewhere()
            found: Bools = np.logical_and.reduceat(has_room, self._start[:-1])
            known = self._movable = (version, found)
        return known[1]

    def _have_room_elsewhere(self) -> Bools:
        session, tasks = self._session, self._tasks
        columns, handle = session.snapshot.tasks, session.ledger.handle
        # Of each shape: the only node with room; several; or none.
        where = np.full(len(session.snapshot.shapes), _NOWHERE, dtype=np.int64)
        for row in np.unique(columns.shape[tasks]).tolist():
            nodes = np.flatnonzero(session.answers(session.snapshot.shapes[row]).fits)
            roomy = nodes[fit.rooms(handle, row, nodes)[0] != fit.NO_ROOM]
            if len(roomy):
                where[row] = roomy[0] if len(roomy) == 1 else _IN_SEVERAL
        there = where[columns.shape[tasks]]
        found: Bools = (there != _NOWHERE) & (there != session.ledger.node[tasks])
        return found

    def _joined(self) -> list[int]:
        """Units that were alone on a shared GPU and no longer are, or are on another one of their
        node: it is not free when they go.
        """
        ledger = self._session.ledger
        changed = np.flatnonzero(ledger.node_version[self._alone_on] != self._alone_since)
        return [
            tenant.unit
            for tenant in (self._alone[at] for at in changed.tolist())
            if gpu_shares.used(ledger.handle, tenant.share) != tenant.need_mib
            or tenant.share not in ledger.shares_of(tenant.task)
        ]

    def tasks_of(self, chosen: Bools) -> Rows:
        """The tasks of the chosen units, in the order in which they go."""
        tasks: Rows = tasks_of(chosen, self._start, self._tasks)
        return tasks

    def price(self, chosen: Bools) -> tuple[int, ...]:
        """What it costs if these units go: worst class, resources, work, reach."""
        units = np.flatnonzero(chosen)
        columns, far = self.units, int(units.max(initial=-1))
        cost, loss = columns.unit_cost[units].sum(), columns.unit_loss[units].sum()
        return int(columns.unit_class[units].max(initial=-1)), int(cost), int(loss), far

    def shared(self, tasks: Rows) -> Bools:
        """Which tasks sit on shared GPUs: bool[len(tasks)]."""
        return np.asarray(self._is_shared[self._session.snapshot.tasks.shape[tasks]])

    def _columns(self, classes: Ints) -> Units:
        session, tasks = self._session, self._tasks
        sizes = np.diff(self._start)
        unit = np.repeat(np.arange(len(sizes)), sizes)
        node = session.ledger.node[tasks]
        # By node and class: one number says both. Units ascend already, and equal ones stay so.
        width = int(classes.max(initial=0)) + 1
        ranked = node * width + classes[unit]
        # Numbers of two bytes are sorted by counting.
        is_short = len(session.snapshot.nodes) * width <= np.iinfo(np.uint16).max
        order = np.argsort(ranked.astype(np.uint16) if is_short else ranked, kind="stable")
        counts = np.bincount(node, minlength=len(session.snapshot.nodes))
        units = session.ledger.placed_units(tasks)
        weight = resource_cost(session, tasks)
        cost = np.bincount(unit, weights=weight, minlength=len(sizes)).astype(np.int64)
        return Units(
            entry_start=_starts(counts),
            entry_unit=unit[order].astype(np.int64),
            entry_freed=self._freed()[order],
            entry_node=node[order].astype(np.int64),
            unit_start=self._start,
            unit_entries=_entries_of_units(unit, order),
            unit_cost=cost,
            unit_loss=np.bincount(
                unit, weights=work_lost(session, tasks), minlength=len(sizes)
            ).astype(np.int64),
            unit_class=classes,
            unit_first=_first_of_job(self.unit_job),
            unit_gpus=np.bincount(unit, weights=units[:, QUEUE_GPU], minlength=len(sizes)).astype(
                np.int64
            ),
        )

    def budget(self, losses: LossBudget) -> Budget:
        """What may be taken from whom, unit by unit."""
        bound = np.minimum(losses.most, float(_NO_BOUND)).astype(np.int64)
        if len(bound) == 1:
            return Budget(self._one_level, bound)
        rows = losses.level.tolist()
        at = {row: dense for dense, row in enumerate(dict.fromkeys(rows))}
        dense = [at[row] for row in rows]
        most = np.zeros(max(1, len(at)), dtype=np.int64)
        most[dense] = bound
        if len(at) < 2:
            return Budget(self._one_level, most)
        level = np.zeros(len(self._session.snapshot.queues), dtype=np.int64)
        level[losses.queues] = dense
        key = level.tobytes()
        if key not in self._levels:
            self._levels[key] = level[self._queue]
        return Budget(self._levels[key], most)

    def _freed(self) -> Ints:
        """What each task frees on its node: int64[tasks, R].

        A shared GPU is freed with its last tenant; of one with several tenants nothing counts.
        """
        session, tasks = self._session, self._tasks
        snapshot, ledger = session.snapshot, session.ledger
        columns = ledger.columns
        freed = snapshot.demand.request[snapshot.tasks.shape[tasks]].copy()
        tenants: list[tuple[int, int, int]] = []
        for at in np.flatnonzero(self.shared(tasks)).tolist():
            task = int(tasks[at])
            node = int(ledger.node[task])
            need = snapshot.shape_of(task).device_mib(int(snapshot.nodes.gpu_memory_mib[node]))
            held = ledger.shares_of(task)
            alone = held[
                columns.share_physical[held] + columns.share_pipelined[held] == need
            ].tolist()
            freed[at, GPU] += len(alone) * GPU_UNIT
            unit = int(np.searchsorted(self._start, at, side="right")) - 1
            tenants += [(unit, share, need) for share in held.tolist()]
            self._alone += [_Tenant(unit, task, node, share, need) for share in alone]
        self.tenants = Tenants(*np.array(tenants, dtype=np.int64).reshape(-1, 3).T)
        self._alone_on: Rows = np.array([each.node for each in self._alone], dtype=np.int64)
        self._alone_since: Ints = ledger.node_version[self._alone_on]
        return freed


def _entries_of_units(unit: Ints, order: Ints) -> Ints:
    """Where the entries of each unit are, once entries (`unit` is whose) stand in this order."""
    if len(order) and int(unit[-1]) + 1 < len(order):
        return np.argsort(unit[order], kind="stable").astype(np.int64)
    place = np.empty(len(order), dtype=np.int64)  # one entry each: where it went
    place[order] = np.arange(len(order))
    return place


def _homes(session: Session, unit_job: Rows, first_task: Rows) -> Homes:
    count = np.bincount(unit_job, minlength=len(session.snapshot.jobs.live))
    first_of_job = np.zeros(len(count), dtype=np.int64)
    first_of_job[unit_job[::-1]] = np.arange(len(unit_job))[::-1]
    home = session.snapshot.tasks.node[first_task]
    return Homes(first_of_job, count.astype(np.int64), first_task, home)


def _taken_apart(session: Session, jobs: Rows) -> tuple[Ints, Ints, Rows]:
    """Units per job, tasks per unit, and all tasks, for jobs in this order."""
    snapshot = session.snapshot
    place = np.full(len(snapshot.jobs.live), -1, dtype=np.int64)
    place[jobs] = np.arange(len(jobs))
    is_held = IS_ACTIVE_ALLOCATED[session.ledger.status] & (snapshot.tasks.leaf >= 0)
    active = np.flatnonzero(is_held & snapshot.tasks.live)
    of_job = place[snapshot.tasks.job[active]]
    active, of_job = active[of_job >= 0], of_job[of_job >= 0]
    held = np.bincount(of_job, minlength=len(jobs)).astype(np.int64)
    flat = active[np.argsort(of_job, kind="stable")].astype(np.int64)
    start = _starts(held)
    per_job = np.ones(len(jobs), dtype=np.int64)
    splits: dict[int, list[int]] = {}
    for at in np.flatnonzero(held > 1).tolist():
        batches = _batches(session, int(jobs[at]))
        flat[start[at] : start[at + 1]] = [task for batch in batches for task in batch]
        per_job[at] = len(batches)
        splits[at] = [len(batch) for batch in batches]
    if not splits:
        return per_job, held, flat
    sizes = np.repeat(held, per_job)
    first = np.cumsum(per_job) - per_job
    for at, split in splits.items():
        sizes[first[at] : first[at] + len(split)] = split
    return per_job, sizes, flat


def _batches(session: Session, job: int) -> list[list[int]]:
    """What the job gives up, batch after batch."""
    remaining = active_tasks(session, job)
    batches = []
    while remaining:
        batch = next_batch(session, job, remaining)
        batches.append(batch)
        gone = set(batch)
        remaining = [task for task in remaining if task not in gone]
    return batches


def _ordered(session: Session, jobs: Rows, standing: QueueStanding | None) -> Rows:
    """Jobs in victim order; queue by queue without `standing`."""
    snapshot = session.snapshot
    keys = session.policy.job_keys(jobs)
    ages = snapshot.jobs.age_rank[jobs]
    queue = snapshot.jobs.queue[jobs]
    within = np.lexsort((-ages, *(-keys.T[::-1]), queue))
    jobs, queue = jobs[within], queue[within]
    if standing is None or (queue == queue[:1]).all():
        return np.asarray(jobs, dtype=np.int64)
    taken = _taken_so_far(session, jobs, queue)
    columns: list[Floats] = []
    parent = snapshot.queues.parent
    paths = {int(q): path(parent, int(q))[::-1] for q in np.unique(queue)}
    for level in range(max((len(p) for p in paths.values()), default=0)):
        above = np.full(len(parent), -1, dtype=np.int64)
        for leaf, down in paths.items():
            above[leaf] = down[min(level, len(down) - 1)]
        columns.extend(standing.columns(above[queue], taken).T)
    order = np.lexsort([-column for column in reversed(columns)]) if columns else slice(None)
    return np.asarray(jobs[order], dtype=np.int64)


def _taken_so_far(session: Session, jobs: Rows, queue: Rows) -> Floats:
    """What would be gone from its queue once each job (in order, queue by queue) went."""
    place = np.full(len(session.snapshot.jobs.live), -1, dtype=np.int64)
    place[jobs] = np.arange(len(jobs))
    tasks = session.snapshot.tasks
    active = np.flatnonzero(IS_ACTIVE_ALLOCATED[session.ledger.status] & (tasks.job >= 0))
    active = active[place[tasks.job[active]] >= 0]
    units = session.ledger.placed_units(active)
    of_job = place[tasks.job[active]]
    held = np.column_stack([np.bincount(of_job, column, len(jobs)) for column in units.T])
    total = np.vstack([np.zeros(QUEUE_WIDTH), np.cumsum(held, axis=0)])
    starts = np.flatnonzero(np.diff(queue, prepend=-1))
    before = np.repeat(total[starts], np.diff(np.append(starts, len(queue))), axis=0)
    return np.asarray(total[1:] - before, dtype=np.float64)


def _least_first(session: Session, jobs: Rows) -> Rows:
    """Jobs in reverse job order, whatever their queue."""
    keys = session.policy.job_keys(jobs)
    order = np.lexsort((-session.snapshot.jobs.age_rank[jobs], *(-keys.T[::-1])))
    return np.asarray(jobs[order], dtype=np.int64)


def _first_of_job(unit_job: Rows) -> Ints:
    first = np.arange(len(unit_job), dtype=np.int64)
    if len(unit_job):
        first[1:][unit_job[1:] == unit_job[:-1]] = -1
        first = np.maximum.accumulate(first)
    return first


def _starts(counts: Ints) -> Ints:
    start = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=start[1:])
    return start
