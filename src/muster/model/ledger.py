"""Ledger: the only mutable accounting of a cycle, in columns. Every change knows its inverse.

A ledger opens on a snapshot and copies what may change: idle and releasing of nodes, the shared
GPUs of nodes, status and place of tasks, statuses counted per leaf, what queues hold. What the five
kinds of entry do to it is `numerics.ledger`'s; here they have names, and are checked to make sense.
"""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from muster.model.devices import GpuShareUse, NodeGpuShares, gpu_share_name
from muster.model.snapshot import ClusterSnapshot
from muster.model.status import LEGAL, STATUSES, IllegalTransition, TaskStatus
from muster.numerics import gpu_shares as shares_kernel
from muster.numerics import ledger as kernel
from muster.numerics.arrays import Bools, Ints, Rows
from muster.numerics.gpu_shares import OPEN, GpuShares


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
        self.fixed = _fixed(snapshot)
        self.live = kernel.Live(
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
            shares=_shares(snapshot),
            journal=kernel.Journal(
                *(np.zeros(_FIRST_JOURNAL, dtype=np.int64) for _ in kernel.Journal._fields)
            ),
            scalars=np.zeros(2, dtype=np.int64),
        )

    # -- reading -------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """How many entries stand: the same number means that nothing was decided in between."""
        return int(self.live.scalars[kernel.VERSION])

    @property
    def journal_length(self) -> int:
        """How many entries can be undone."""
        return int(self.live.scalars[kernel.JOURNAL])

    def entries_since(self, length: int) -> Entries:
        """The entries of the journal from `length` on."""
        journal, rows = self.live.journal, slice(length, self.journal_length)
        return Entries(
            journal.task[rows].copy(), journal.node[rows].copy(), journal.kind[rows].copy()
        )

    def gpu_shares_on(self, node: int) -> NodeGpuShares:
        """The shared GPUs of a node that somebody uses, by name."""
        shares, found = self.live.shares, {}
        row = int(shares.newest[node])
        while row >= 0:
            use = GpuShareUse(
                int(shares.physical[row]), int(shares.releasing[row]), int(shares.pipelined[row])
            )
            if use.used > 0:
                found[self.share_name(row)] = use
            row = int(shares.next[row])
        return dict(reversed(found.items()))

    def shares_of(self, task: int) -> Rows:
        """Rows of the shared GPUs that a task is on."""
        sharing = int(self.fixed.sharing[self.fixed.shape[task]])
        count = int(self.fixed.shares[sharing]) if sharing >= 0 else 0
        self._load_first_shares(count)
        shares = self.live.shares
        start, held = int(shares.held_start[task]), shares.held
        if start < 0 and count:
            start, held = int(shares.first_start[task]), shares.first_held
        rows: Rows = held[start : start + count] if start >= 0 else NO_SHARES
        return rows[rows >= 0]

    def gpu_shares_of(self, task: int) -> tuple[str, ...]:
        """The shared GPUs that a task is on, by name."""
        if self.live.shares.held_start[task] < 0:
            record = self.snapshot.tasks.records[task]
            return record.gpu.claimed or record.gpu_shares
        return tuple(self.share_name(row) for row in self.shares_of(task).tolist())

    def share_name(self, row: int) -> str:
        """The name of a shared GPU; one that was opened in this cycle gets it when first asked."""
        table, shares = self.snapshot.nodes.share_table, self.live.shares
        if row < len(table.names):
            return table.names[row]
        node, opener, number = (int(c[row]) for c in (shares.node, shares.opener, shares.number))
        record = self.snapshot.tasks.records[opener]
        if record.gpu.claimed:
            made = (row, opener, number)
            return next(name for (_, name), known in self._claims.items() if known == made)
        taken, suffix = self.snapshot.nodes.gpu_shares[node], 0
        names: list[str] = []
        while len(names) <= number:
            name = gpu_share_name(record.uid, self.snapshot.nodes.names[node], suffix)
            names += [] if name in taken else [name]
            suffix += 1
        return names[-1]

    def claimed_shares(self, task: int, node: int) -> Rows:
        """Rows of the GPUs that the task's claims share on a node, OPEN where nobody does yet."""
        names = self.snapshot.tasks.records[task].gpu.claimed
        return np.array([self._claimed_row(node, name) for name in names], dtype=np.int64)

    def _claimed_row(self, node: int, name: str) -> int:
        known = self.snapshot.nodes.share_table.row.get((node, name))
        if known is not None:
            return known
        row, opener, number = self._claims.get((node, name), (-1, -1, -1))
        shares = self.live.shares
        if row < 0 or row >= shares.size[shares_kernel.COUNT]:
            return OPEN
        made = (int(shares.opener[row]), int(shares.number[row]), int(shares.node[row]))
        return row if made == (opener, number, node) else OPEN

    def is_evicted_here(self, task: int) -> bool:
        """Whether the task was evicted by something that is not committed."""
        return bool(self.live.evictions[task] > 0)

    def queue_units(self, task: int, node: int) -> Ints:
        """What the task is charged to its queue on this node: int64[queue resources]."""
        units: Ints = kernel.placed_units(self.fixed, task, node)
        return units

    def placed_units(self, tasks: Rows) -> Ints:
        """What tasks are charged where they are: int64[len(tasks), queue resources]."""
        units: Ints = kernel.all_placed_units(self.fixed, tasks, self.node[tasks])
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
        was = TaskStatus(int(self.live.evicted_from[task]))
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
        kernel.undo_to(self.fixed, self.live, length)
        return Entries(entries.task[::-1], entries.node[::-1], entries.kind[::-1], -1)

    def commit(self) -> None:
        """Forget how to undo: what is in the journal is decided."""
        kernel.forget_undo(self.live, 0)

    def reserve(self, entries: int, shares: int = 0) -> None:
        """Have room for so many more entries and shares. Who keeps `live` must read it anew."""
        journal, table = self.live.journal, self.live.shares
        length = self.journal_length + entries
        if length > len(journal.kind):
            grown = kernel.Journal(*(_grown(column, length) for column in journal))
            self.live = self.live._replace(journal=grown)
        rows, held = (int(size) + shares for size in table.size)
        if rows > len(table.physical) or held > len(table.held):
            columns = {name: _grown(getattr(table, name), rows) for name in _SHARE_COLUMNS}
            table = table._replace(held=_grown(table.held, held), **columns)
            self.live = self.live._replace(shares=table)

    def _post(
        self, kind: EntryKind, task: int, node: int, new: TaskStatus, shares: Rows = NO_SHARES
    ) -> None:
        old = int(self.status[task])
        if not _IS_LEGAL[old, new]:
            raise IllegalTransition(self.snapshot.tasks.records[task].uid, TaskStatus(old), new)
        self.reserve(1, len(shares))
        self._load_first_shares(self.fixed.sharing[self.fixed.shape[task]] >= 0)
        opened = int(self.live.shares.size[shares_kernel.COUNT])
        kernel.post(self.fixed, self.live, int(kind), task, node, int(new), shares)
        if len(shares) and self.snapshot.tasks.records[task].gpu.claimed:
            self._remember_claims(task, node, shares, opened)

    def _remember_claims(self, task: int, node: int, shares: Rows, opened: int) -> None:
        names = self.snapshot.tasks.records[task].gpu.claimed
        fresh = [name for name, row in zip(names, shares.tolist(), strict=True) if row == OPEN]
        for number, name in enumerate(fresh):
            self._claims[node, name] = (opened + number, task, number)

    def _post_all(self, kind: EntryKind, tasks: Rows, nodes: Rows, new: TaskStatus) -> None:
        """The same entries as one by one."""
        illegal = np.flatnonzero(~_IS_LEGAL[self.status[tasks], new])
        if len(illegal):
            task = int(tasks[illegal[0]])
            was = TaskStatus(int(self.status[task]))
            raise IllegalTransition(self.snapshot.tasks.records[task].uid, was, new)
        self.reserve(len(tasks))
        self._load_first_shares((self.fixed.sharing[self.fixed.shape[tasks]] >= 0).any())
        kernel.post_all(self.fixed, self.live, int(kind), tasks, nodes, int(new), NO_SHARES)

    def _load_first_shares(self, is_needed: object) -> None:
        """Find out which GPUs tasks shared when the cycle began, before the first of them moves."""
        if not is_needed or len(self.live.shares.first_start) == len(self.node):
            return
        start, held = _first_shares(self.snapshot)
        shares = self.live.shares._replace(first_start=start, first_held=held)
        self.live = self.live._replace(shares=shares)


_SHARE_COLUMNS = ("physical", "releasing", "pipelined", "node", "next", "opener", "number")


def _fixed(snapshot: ClusterSnapshot) -> kernel.Fixed:
    nodes, tasks, demand = snapshot.nodes, snapshot.tasks, snapshot.demand
    return kernel.Fixed(
        shape=tasks.shape,
        leaf=tasks.leaf,
        job=tasks.job,
        request=demand.request,
        queue_units=demand.queue_units,
        sharing=demand.sharing,
        shares=demand.shares,
        devices=demand.devices,
        memory_mib=demand.memory_mib,
        device_mib=demand.device_mib,
        placed_units=demand.placed_units,
        gpu_size=nodes.gpu_size,
        gpu_memory_mib=nodes.gpu_memory_mib,
        allocatable=nodes.allocatable,
        minimum=snapshot.leaves.minimum,
        queue=snapshot.jobs.queue,
        is_preemptible=snapshot.jobs.is_preemptible,
        chain=snapshot.queues.chain,
    )


def _shares(snapshot: ClusterSnapshot) -> GpuShares:
    """The shared GPUs that there are."""
    table, none = snapshot.nodes.share_table, np.zeros(0, dtype=np.int64)
    tasks, nodes = len(snapshot.tasks), len(snapshot.nodes)
    count = len(table.names)
    shares = GpuShares(
        physical=table.physical.copy(),
        releasing=table.releasing.copy(),
        pipelined=table.pipelined.copy(),
        node=table.node,
        next=table.next,
        opener=np.full(count, -1, dtype=np.int64),
        number=np.zeros(count, dtype=np.int64),
        newest=table.newest.copy(),
        free_mib=np.full(nodes, -1, dtype=np.int64),
        held_start=np.full(tasks, -1, dtype=np.int64),
        held=none,
        first_start=none,
        first_held=none,
        size=np.array([count, 0], dtype=np.int64),
    )
    if count:
        shares_kernel.update_all_free(shares, snapshot.nodes.gpu_memory_mib)
    return shares


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
    tasks = snapshot.tasks
    counts = np.zeros((len(snapshot.leaves.job), STATUSES), dtype=np.int64)
    rows = np.flatnonzero(tasks.live & (tasks.leaf >= 0))
    np.add.at(counts, (tasks.leaf[rows], tasks.status[rows]), 1)
    return counts
