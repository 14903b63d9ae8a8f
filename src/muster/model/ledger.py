"""Ledger: the only mutable accounting of a cycle, in columns. Every change knows its inverse.

A ledger opens on a snapshot and copies what may change: idle and releasing of nodes, the shared
GPUs of nodes, status and place of tasks, statuses counted per leaf, what queues hold. What the five
kinds of entry do to it is `numerics.ledger`'s; here they have names, and are checked to make sense.
"""

import itertools
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from muster.model.devices import GpuShareUse, NodeGpuShares, gpu_share_name
from muster.model.snapshot import ClusterSnapshot
from muster.model.status import LEGAL, STATUSES, IllegalTransition, TaskStatus
from muster.numerics import gpu_shares
from muster.numerics import ledger as kernel
from muster.numerics.arrays import Bools, Ints, Rows
from muster.numerics.gpu_shares import OPEN
from muster.numerics.ledger_size import HELD, JOURNAL, SHARES, VERSION


class EntryKind(IntEnum):
    """What an entry does."""

    ALLOCATE = kernel.ALLOCATE
    PIPELINE = kernel.PIPELINE
    EVICT = kernel.EVICT
    RESTORE = kernel.RESTORE
    POSTPONE = kernel.POSTPONE


@dataclass(frozen=True, slots=True)
class Entries:
    """A batch of entries as plugins see it. `sign` is -1 when they were taken back."""

    task: Ints  # [E]
    node: Ints  # [E]
    kind: Ints  # [E]
    sign: int = 1


NO_SHARES: Rows = np.zeros(0, dtype=np.int64)
_FIRST_JOURNAL = 64


def _legal() -> Bools:
    """bool[STATUSES, STATUSES]: from which status a task may come to which."""
    legal = np.zeros((STATUSES, STATUSES), dtype=np.bool_)
    for old, then in LEGAL.items():
        legal[old, list(then)] = True
    return legal


_IS_LEGAL = _legal()


class Ledger:
    """Live columns of one cycle. Read them freely; change them only by entries."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        nodes, tasks, queues = snapshot.nodes, snapshot.tasks, snapshot.queues
        self.snapshot = snapshot
        self.idle = nodes.idle.copy()
        self.releasing = nodes.releasing.copy()
        self.status = tasks.status.copy()
        self.node = tasks.node.copy()
        self.queue_allocated = queues.allocated.copy()
        self.queue_allocated_non_preemptible = queues.allocated_non_preemptible.copy()
        self.counts = _counted(snapshot)
        self.node_version: Ints = np.zeros(len(nodes), dtype=np.int64)
        """Grows when something on the node changes: caches compare it with what they saw."""
        self.decided_at: Ints = np.full(len(tasks), -1, dtype=np.int64)
        """When a task was last decided on in this cycle; -1: not at all."""
        self._claims: dict[tuple[int, str], tuple[int, int, int]] = {}
        """GPUs that claims opened here, by node and name: row, opener and number of the opening."""
        self.columns = kernel.LedgerColumns(
            **_fixed(snapshot),
            idle=self.idle,
            releasing=self.releasing,
            status=self.status,
            node=self.node,
            counts=self.counts,
            queue_allocated=self.queue_allocated,
            queue_allocated_non_preemptible=self.queue_allocated_non_preemptible,
            node_version=self.node_version,
            decided_at=self.decided_at,
            evictions=np.zeros(len(tasks), dtype=np.int64),
            evicted_from=np.zeros(len(tasks), dtype=np.int64),
            **_shares(snapshot),
            **_journal(),
            size=np.array([0, 0, len(nodes.share_table.names), 0], dtype=np.int64),
        )
        self.handle = kernel.handle(self.columns)
        """The columns for kernels."""
        gpu_shares.update_all_free(self.handle)

    # -- reading -------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """How many entries stand: the same number means that nothing was decided in between."""
        return int(self.columns.size[VERSION])

    @property
    def journal_length(self) -> int:
        """How many entries can be undone."""
        return int(self.columns.size[JOURNAL])

    def entries_since(self, length: int) -> Entries:
        """The entries of the journal from `length` on."""
        rows, columns = slice(length, self.journal_length), self.columns
        return Entries(
            columns.entry_task[rows].copy(),
            columns.entry_node[rows].copy(),
            columns.entry_kind[rows].copy(),
        )

    def gpu_shares_on(self, node: int) -> NodeGpuShares:
        """The shared GPUs of a node that somebody uses, by name."""
        columns, found = self.columns, {}
        row = int(columns.newest_share[node])
        while row >= 0:
            sums = columns.share_physical, columns.share_releasing, columns.share_pipelined
            use = GpuShareUse(*(int(column[row]) for column in sums))
            if use.used > 0:
                found[self.share_name(row)] = use
            row = int(columns.share_next[row])
        return dict(reversed(found.items()))

    def shares_of(self, task: int) -> Rows:
        """Rows of the shared GPUs that a task is on."""
        columns = self.columns
        sharing = int(columns.sharing[columns.shape[task]])
        count = int(columns.shares[sharing]) if sharing >= 0 else 0
        start, held = int(columns.held_start[task]), columns.held
        if start < 0 and count:
            self._load_first_shares()
            start, held = int(self.columns.first_start[task]), self.columns.first_held
        rows: Rows = held[start : start + count] if start >= 0 else NO_SHARES
        return rows[rows >= 0]

    def gpu_shares_of(self, task: int) -> tuple[str, ...]:
        """The shared GPUs that a task is on, by name."""
        if self.columns.held_start[task] < 0:
            record = self.snapshot.tasks.records[task]
            return record.gpu.claimed or record.gpu_shares
        return tuple(self.share_name(row) for row in self.shares_of(task).tolist())

    def new_gpu_shares(self, tasks: Rows) -> list[tuple[str, ...]]:
        """The shared GPUs that tasks which were placed in this cycle got parts of, by name."""
        columns = self.columns
        sharing = columns.sharing[columns.shape[tasks]]
        if not (sharing >= 0).any():
            return [()] * len(tasks)
        counts = np.where(sharing >= 0, columns.devices[sharing], 0).tolist()
        held = columns.held[: columns.size[HELD]].tolist()
        starts = columns.held_start[tasks].tolist()
        rows = [held[at : at + count] for at, count in zip(starts, counts, strict=True)]
        names = {row: self.share_name(row) for row in {row for each in rows for row in each}}
        return [tuple([names[row] for row in each]) if each else () for each in rows]

    def share_name(self, row: int) -> str:
        """The name of a shared GPU; one that was opened in this cycle gets it when first asked."""
        names_before = self.snapshot.nodes.share_table.names
        if row < len(names_before):
            return names_before[row]
        opener, number, node = self._opening(row)
        record = self.snapshot.tasks.records[opener]
        if record.gpu.claimed:
            made = (row, opener, number)
            return next(name for (_, name), known in self._claims.items() if known == made)
        taken, where = self.snapshot.nodes.gpu_shares[node], self.snapshot.nodes.names[node]
        names = (gpu_share_name(record.uid, where, suffix) for suffix in itertools.count())
        free = (name for name in names if name not in taken)
        return next(itertools.islice(free, number, None))

    def claimed_shares(self, task: int, node: int) -> Rows:
        """Rows of the GPUs that the task's claims share on a node, OPEN where nobody does yet."""
        names = self.snapshot.tasks.records[task].gpu.claimed
        return np.array([self._claimed_row(node, name) for name in names], dtype=np.int64)

    def _claimed_row(self, node: int, name: str) -> int:
        known = self.snapshot.nodes.share_table.row.get((node, name))
        if known is not None:
            return known
        row, opener, number = self._claims.get((node, name), (-1, -1, -1))
        if row < 0 or row >= self.columns.size[SHARES]:
            return OPEN
        return row if self._opening(row) == (opener, number, node) else OPEN

    def _opening(self, row: int) -> tuple[int, int, int]:
        """Who opened a shared GPU, which of the GPUs it opened that was, and on which node."""
        columns = self.columns
        return (
            int(columns.share_opener[row]),
            int(columns.share_number[row]),
            int(columns.share_node[row]),
        )

    def is_evicted_here(self, task: int) -> bool:
        """Whether the task was evicted by something that is not committed."""
        return bool(self.columns.evictions[task] > 0)

    def queue_units(self, task: int, node: int) -> Ints:
        """What the task is charged to its queue on this node: int64[queue resources]."""
        units: Ints = kernel.placed_units(self.handle, task, node)
        return units

    def placed_units(self, tasks: Rows) -> Ints:
        """What tasks are charged where they are: int64[len(tasks), queue resources]."""
        units: Ints = kernel.all_placed_units(self.handle, tasks, self.node[tasks])
        return units

    # -- entries -------------------------------------------------------------------------------

    def allocate(self, task: int, node: int, shares: Rows = NO_SHARES) -> None:
        """Start the task on the node now."""
        self._post(EntryKind.ALLOCATE, task, node, TaskStatus.ALLOCATED, shares)

    def pipeline(self, task: int, node: int, shares: Rows = NO_SHARES) -> None:
        """Let the task wait for what the node will have free."""
        self._post(EntryKind.PIPELINE, task, node, TaskStatus.PIPELINED, shares)

    def evict(self, task: int) -> None:
        """Make the task leave its node."""
        self._post(EntryKind.EVICT, task, int(self.node[task]), TaskStatus.RELEASING)

    def restore(self, task: int) -> None:
        """Let an evicted task stay where it was, after all."""
        was = TaskStatus(int(self.columns.evicted_from[task]))
        self._post(EntryKind.RESTORE, task, int(self.node[task]), was)

    def postpone(self, task: int) -> None:
        """Turn an allocation into waiting at the same place."""
        self._post(EntryKind.POSTPONE, task, int(self.node[task]), TaskStatus.PIPELINED)

    def evict_all(self, tasks: Rows) -> None:
        """`evict` for many tasks at once."""
        self._post_all(EntryKind.EVICT, tasks, self.node[tasks], TaskStatus.RELEASING)

    def pipeline_all(self, tasks: Rows, nodes: Rows) -> None:
        """`pipeline` for many tasks at once; none of them on a shared GPU."""
        self._post_all(EntryKind.PIPELINE, tasks, nodes, TaskStatus.PIPELINED)

    def undo_to(self, length: int) -> Entries:
        """Take back all entries from position `length` on; they come back last first."""
        entries = self.entries_since(length)
        kernel.undo_to(self.handle, length)
        return Entries(entries.task[::-1], entries.node[::-1], entries.kind[::-1], -1)

    def commit(self) -> None:
        """Forget how to undo: what is in the journal is decided."""
        kernel.forget_undo(self.handle)

    def reserve(self, entries: int, shares: int = 0) -> None:
        """Have room for so many more entries and shares; `columns` and `handle` may be new then."""
        columns = self.columns
        _, length, rows, held = columns.size.tolist()
        wanted = (
            (kernel.JOURNAL_COLUMNS, length + entries, len(columns.entry_kind)),
            (kernel.SHARE_COLUMNS, rows + shares, len(columns.share_physical)),
            (("held",), held + shares, len(columns.held)),
        )
        for names, size, there in wanted:
            if size > there:
                self._replace({name: _grown(getattr(columns, name), size) for name in names})

    def _replace(self, columns: dict[str, Any]) -> None:
        if columns:
            self.columns = self.columns._replace(**columns)
            self.handle = kernel.handle(self.columns)

    def _post(
        self, kind: EntryKind, task: int, node: int, new: TaskStatus, shares: Rows = NO_SHARES
    ) -> None:
        old = int(self.status[task])
        if not _IS_LEGAL[old, new]:
            raise IllegalTransition(self.snapshot.tasks.records[task].uid, TaskStatus(old), new)
        columns = self.columns
        if columns.size[JOURNAL] == len(columns.entry_kind) or len(shares):
            self.reserve(1, len(shares))
        sharing = int(columns.sharing[columns.shape[task]])
        if sharing >= 0:
            names_shares = kind > EntryKind.PIPELINE or len(shares) == columns.shares[sharing]
            assert names_shares, "who shares GPUs is placed on as many as he asks for"
            self._load_first_shares()
        opened = int(columns.size[SHARES])
        kernel.post(self.handle, int(kind), task, node, int(new), shares)
        if len(shares) and self.snapshot.tasks.records[task].gpu.claimed:
            self._remember_claims(task, node, shares, opened)

    def _remember_claims(self, task: int, node: int, shares: Rows, opened: int) -> None:
        names = self.snapshot.tasks.records[task].gpu.claimed
        fresh = [name for name, row in zip(names, shares.tolist(), strict=True) if row == OPEN]
        for number, name in enumerate(fresh):
            self._claims[node, name] = (opened + number, task, number)

    def _post_all(self, kind: EntryKind, tasks: Rows, nodes: Rows, new: TaskStatus) -> None:
        """The same entries as one by one."""
        illegal, is_sharing = kernel.look_at(self.handle, tasks, int(new), _IS_LEGAL)
        if illegal >= 0:
            task = int(tasks[illegal])
            was = TaskStatus(int(self.status[task]))
            raise IllegalTransition(self.snapshot.tasks.records[task].uid, was, new)
        self.reserve(len(tasks))
        if is_sharing:
            assert kind > EntryKind.PIPELINE, "who shares GPUs is placed by himself"
            self._load_first_shares()
        kernel.post_all(self.handle, int(kind), tasks, nodes, int(new), NO_SHARES)

    def _load_first_shares(self) -> None:
        """Find out which GPUs tasks shared when the cycle began, before the first of them moves."""
        if len(self.columns.first_start) != len(self.node):
            start, held = _first_shares(self.snapshot)
            self._replace({"first_start": start, "first_held": held})


def _fixed(snapshot: ClusterSnapshot) -> dict[str, Any]:
    """The columns that no cycle writes to."""
    nodes, tasks, demand = snapshot.nodes, snapshot.tasks, snapshot.demand
    return {
        "shape": tasks.shape,
        "leaf": tasks.leaf,
        "job": tasks.job,
        "request": demand.request,
        "queue_units": demand.queue_units,
        "sharing": demand.sharing,
        "shares": demand.shares,
        "devices": demand.devices,
        "need_mib": demand.need_mib,
        "device_mib": demand.device_mib,
        "placed_units": demand.placed_units,
        "gpu_size": nodes.gpu_size,
        "gpu_memory_mib": nodes.gpu_memory_mib,
        "allocatable": nodes.allocatable,
        "minimum": snapshot.leaves.minimum,
        "queue": snapshot.jobs.queue,
        "is_preemptible": snapshot.jobs.is_preemptible,
        "chain": snapshot.queues.chain,
    }


def _shares(snapshot: ClusterSnapshot) -> dict[str, Any]:
    """The shared GPUs that there are."""
    table, none = snapshot.nodes.share_table, np.zeros(0, dtype=np.int64)
    count = len(table.names)
    return {
        "share_physical": table.physical.copy(),
        "share_releasing": table.releasing.copy(),
        "share_pipelined": table.pipelined.copy(),
        "share_node": table.node,
        "share_next": table.next,
        "share_opener": np.full(count, -1, dtype=np.int64),
        "share_number": np.zeros(count, dtype=np.int64),
        "newest_share": table.newest.copy(),
        "share_free_mib": np.full(len(snapshot.nodes), -1, dtype=np.int64),
        "held_start": np.full(len(snapshot.tasks), -1, dtype=np.int64),
        "held": none,
        "first_start": none,
        "first_held": none,
    }


def _journal() -> dict[str, Any]:
    return {name: np.zeros(_FIRST_JOURNAL, dtype=np.int64) for name in kernel.JOURNAL_COLUMNS}


def _first_shares(snapshot: ClusterSnapshot) -> tuple[Ints, Ints]:
    """(start int64[T], rows): the shared GPUs of every task that was on some."""
    tasks, demand, row = snapshot.tasks, snapshot.demand, snapshot.nodes.share_table.row
    start: Ints = np.full(len(tasks), -1, dtype=np.int64)
    held: list[int] = []
    is_on_some = tasks.live & (tasks.node >= 0) & (demand.sharing[tasks.shape] >= 0)
    for task in np.flatnonzero(is_on_some).tolist():
        record, node = tasks.records[task], int(tasks.node[task])
        names = record.gpu.claimed or record.gpu_shares
        count = int(demand.shares[demand.sharing[tasks.shape[task]]])
        start[task] = len(held)
        held += [row.get((node, name), -1) for name in names[:count]]
        held += [-1] * (count - min(count, len(names)))
    return start, np.array(held, dtype=np.int64)


def _grown(column: Ints, size: int) -> Ints:
    """The column with room for `size`, and for more."""
    if size <= len(column):
        return column
    grown: Ints = np.zeros(max(size, 2 * len(column)), dtype=np.int64)
    grown[: len(column)] = column
    return grown


def _counted(snapshot: ClusterSnapshot) -> Ints:
    """Tasks per leaf and status: int64[L, STATUSES]."""
    tasks, leaves = snapshot.tasks, len(snapshot.leaves.job)
    rows = tasks.live & (tasks.leaf >= 0)
    places = tasks.leaf[rows] * STATUSES + tasks.status[rows]
    # Of a large cluster it is a large table: as it is, and not a copy of it.
    counts: Ints = np.bincount(places, minlength=leaves * STATUSES).astype(np.int64, copy=False)
    return counts.reshape(leaves, STATUSES)
