"""Ledger: the only mutable accounting of a cycle, in columns. Every change knows its inverse.

A ledger opens on a snapshot and copies what may change: idle and releasing of nodes, the shared
GPUs of nodes, status and place of tasks, statuses counted per leaf, what queues hold. Five kinds of
entry change it. The journal keeps the entries that are not committed; `undo_to(length)` takes them
back, last first, and restores every column to the last bit. Nothing here decides anything or checks
whether it fits.

| kind | status | idle | releasing | queue |
|---|---|---|---|---|
| ALLOCATE | PENDING to ALLOCATED | - request | | + |
| PIPELINE | PENDING or RELEASING to PIPELINED | | - request | + |
| EVICT | active to RELEASING | | + request | - |
| RESTORE | RELEASING back to what it was | | - request | + |
| POSTPONE | ALLOCATED to PIPELINED | + request | - request | |

An evicted task that is pipelined elsewhere keeps releasing its old place.
"""

from collections import Counter
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from muster.base.rows import rows_of
from muster.model.devices import NOBODY, GpuShareUse, NodeGpuShares, changed, footprint
from muster.model.snapshot import ClusterSnapshot
from muster.model.status import LEGAL, STATUSES, IllegalTransition, TaskStatus
from muster.numerics import postings
from muster.numerics.arrays import Ints, Rows
from muster.numerics.axis import GPU


class EntryKind(IntEnum):
    """What an entry does."""

    ALLOCATE = 0
    PIPELINE = 1
    EVICT = 2
    RESTORE = 3
    POSTPONE = 4


class Entry(NamedTuple):
    """One change of one task, with what is needed to take it back."""

    kind: EntryKind
    task: int
    node: int
    gpu_shares: tuple[str, ...]
    old_status: TaskStatus
    new_status: TaskStatus
    old_node: int
    old_gpu_shares: tuple[str, ...]
    old_decided_at: int


@dataclass(frozen=True, slots=True)
class Entries:
    """A batch of entries as plugins see it. `sign` is -1 when they were taken back."""

    task: Ints  # [E]
    node: Ints  # [E]
    kind: Ints  # [E]
    sign: int = 1


# By kind, in the order of the table above.
_IDLE = (-1, 0, 0, 0, 1)
_RELEASING = (0, -1, 1, -1, -1)
_QUEUE = (1, 1, -1, 1, 0)

_SIGNS = tuple(postings.Signs(*signs) for signs in zip(_IDLE, _RELEASING, _QUEUE, strict=True))

_STATUS = tuple(TaskStatus)
_BEFORE = {new: frozenset(old for old, then in LEGAL.items() if new in then) for new in TaskStatus}
"""From which statuses a task may come to each."""
_AS_SHAPED: Ints = np.zeros((0, 3), dtype=np.int64)


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
        self.version = 0
        self.journal: list[Entry] = []
        self._evicted: Counter[int] = Counter()
        """How often the journal evicts each task."""
        self._gpu_shares: dict[int, dict[str, GpuShareUse]] = {}
        self._sharing = {node for node, gpu_shares in enumerate(nodes.gpu_shares) if gpu_shares}
        self._task_gpu_shares: dict[int, tuple[str, ...]] = {}
        self._shared_before: list[int] | None = None
        self._has_memory = bool(snapshot.demand.is_memory.any())
        self._fixed = postings.Fixed(
            shape=tasks.shape,
            leaf=tasks.leaf,
            job=tasks.job,
            request=snapshot.demand.request,
            queue_units=snapshot.demand.queue_units,
            allocatable=nodes.allocatable,
            queue=snapshot.jobs.queue,
            is_preemptible=snapshot.jobs.is_preemptible,
            chain=queues.chain,
        )
        self._live = postings.Live(
            idle=self.idle,
            releasing=self.releasing,
            status=self.status,
            node=self.node,
            counts=self.counts,
            queue_allocated=self.queue_allocated,
            queue_allocated_non_preemptible=self.queue_allocated_non_preemptible,
            node_version=self.node_version,
            decided_at=self.decided_at,
        )

    # -- reading -------------------------------------------------------------------------------

    def gpu_shares_on(self, node: int) -> NodeGpuShares:
        """The shared GPUs of a node."""
        return self._gpu_shares.get(node, self.snapshot.nodes.gpu_shares[node])

    def nodes_with_gpu_shares(self) -> list[int]:
        """Nodes on which some GPU is shared, in order."""
        if self._shared_before is None:
            before = enumerate(self.snapshot.nodes.gpu_shares)
            self._shared_before = [node for node, gpu_shares in before if gpu_shares]
        return sorted({*self._shared_before, *self._gpu_shares})

    def sharing_nodes(self) -> Rows:
        """Nodes that have shared GPUs, ascending."""
        return np.array(sorted(self._sharing | self._gpu_shares.keys()), dtype=np.int64)

    def gpu_shares_of(self, task: int) -> tuple[str, ...]:
        """The shared GPUs that a task is on."""
        held = self._task_gpu_shares.get(task)
        if held is not None:
            return held
        record = self.snapshot.tasks.records[task]
        return record.gpu.claimed or record.gpu_shares

    def is_evicted_here(self, task: int) -> bool:
        """Whether the task was evicted by something that is not committed."""
        return self._evicted[task] > 0

    def queue_units(self, task: int, node: int) -> Ints:
        """What the task is charged to its queue on this node: int64[3]."""
        snapshot = self.snapshot
        row = int(snapshot.tasks.shape[task])
        if snapshot.demand.is_memory[row] and node >= 0:
            return snapshot.shapes[row].queue_units(int(snapshot.nodes.gpu_memory_mib[node]))
        units: Ints = snapshot.demand.queue_units[row]
        return units

    # -- entries -------------------------------------------------------------------------------

    def allocate(self, task: int, node: int, gpu_shares: tuple[str, ...] = ()) -> None:
        """Start the task on the node now."""
        self._post(EntryKind.ALLOCATE, task, node, gpu_shares, TaskStatus.ALLOCATED)

    def pipeline(self, task: int, node: int, gpu_shares: tuple[str, ...] = ()) -> None:
        """Let the task wait for what the node will have free."""
        self._post(EntryKind.PIPELINE, task, node, gpu_shares, TaskStatus.PIPELINED)

    def evict(self, task: int) -> None:
        """Make the task leave its node."""
        node = int(self.node[task])
        self._post(EntryKind.EVICT, task, node, self.gpu_shares_of(task), TaskStatus.RELEASING)

    def restore(self, task: int) -> None:
        """Let an evicted task stay where it was, after all."""
        was = next(
            e for e in reversed(self.journal) if e.task == task and e.kind is EntryKind.EVICT
        )
        self._post(EntryKind.RESTORE, task, was.node, was.gpu_shares, was.old_status)

    def postpone(self, task: int) -> None:
        """Turn an allocation into waiting at the same place."""
        node = int(self.node[task])
        self._post(EntryKind.POSTPONE, task, node, self.gpu_shares_of(task), TaskStatus.PIPELINED)

    def evict_all(self, tasks: Rows) -> None:
        """`evict` for many tasks at once; none of them on a shared GPU."""
        self._post_all(EntryKind.EVICT, tasks, self.node[tasks], TaskStatus.RELEASING)

    def pipeline_all(self, tasks: Rows, nodes: Rows) -> None:
        """`pipeline` for many tasks at once; none of them on a shared GPU."""
        self._post_all(EntryKind.PIPELINE, tasks, nodes, TaskStatus.PIPELINED)

    def undo_to(self, length: int) -> list[Entry]:
        """Take back all entries from position `length` on; they come back last first."""
        undone = []
        while len(self.journal) > length:
            entry = self.journal.pop()
            if entry.kind is EntryKind.EVICT:
                self._evicted[entry.task] -= 1
            self._apply(entry, -1)
            undone.append(entry)
        return undone

    def commit(self) -> list[Entry]:
        """Forget how to undo: what is in the journal is decided. Returns it."""
        committed, self.journal = self.journal, []
        self._evicted.clear()
        return committed

    def _post(
        self, kind: EntryKind, task: int, node: int, gpu_shares: tuple[str, ...], new: TaskStatus
    ) -> None:
        old = TaskStatus(int(self.status[task]))
        if new not in LEGAL.get(old, frozenset()):
            raise IllegalTransition(self.snapshot.tasks.records[task].uid, old, new)
        was_on = int(self.node[task])
        held, decided = self.gpu_shares_of(task), int(self.decided_at[task])
        entry = Entry(kind, task, node, gpu_shares, old, new, was_on, held, decided)
        self.journal.append(entry)
        if kind is EntryKind.EVICT:
            self._evicted[task] += 1
        self._apply(entry, 1)

    def _post_all(self, kind: EntryKind, tasks: Rows, nodes: Rows, new: TaskStatus) -> None:
        """The same entries as one by one, applied to whole columns."""
        rows, old = tasks.tolist(), self.status[tasks].tolist()
        if not _BEFORE[new].issuperset(old):
            task, was = next(
                each for each in zip(rows, old, strict=True) if each[1] not in _BEFORE[new]
            )
            raise IllegalTransition(self.snapshot.tasks.records[task].uid, TaskStatus(was), new)
        if kind is EntryKind.EVICT:
            self._evicted.update(rows)
        no_shares = ((),) * len(rows)
        self.journal += rows_of(
            Entry,
            (kind,) * len(rows),
            rows,
            nodes.tolist(),
            no_shares,
            [_STATUS[status] for status in old],
            (new,) * len(rows),
            self.node[tasks].tolist(),
            no_shares,
            self.decided_at[tasks].tolist(),
        )
        units = self._units(tasks, nodes)
        postings.post(
            self._fixed, self._live, _SIGNS[kind], tasks, nodes, units, int(new), self.version
        )
        self.version += len(tasks)

    def _units(self, tasks: Rows, nodes: Rows) -> Ints:
        """What each task is charged to its queue on its node: int64[len(tasks), 3]; nothing where
        that does not depend on the node.
        """
        demand = self.snapshot.demand
        if not self._has_memory:
            return _AS_SHAPED
        shapes = self.snapshot.tasks.shape[tasks]
        units: Ints = demand.queue_units[shapes]
        for at in np.flatnonzero(demand.is_memory[shapes]).tolist():
            units[at] = self.queue_units(int(tasks[at]), int(nodes[at]))
        return units

    def _apply(self, entry: Entry, sign: int) -> None:
        kind, task, node = entry.kind, entry.task, entry.node
        snapshot = self.snapshot
        request = snapshot.demand.request[snapshot.tasks.shape[task]]
        request = np.where(snapshot.nodes.allocatable[node] > 0, request, 0)
        self.idle[node] += sign * _IDLE[kind] * request
        self.releasing[node] += sign * _RELEASING[kind] * request
        if entry.gpu_shares:
            self._apply_gpu_shares(entry, sign)
        self._charge(task, node, sign * _QUEUE[kind])
        self._move(entry, sign)
        self.node_version[node] += 1

    def _move(self, entry: Entry, sign: int) -> None:
        task = entry.task
        old, new = entry.old_status, entry.new_status
        before, after = (old, new) if sign > 0 else (new, old)
        leaf = self.snapshot.tasks.leaf[task]
        if leaf >= 0:
            self.counts[leaf, before] -= 1
            self.counts[leaf, after] += 1
        self.status[task] = after
        self.node[task] = entry.node if sign > 0 else entry.old_node
        self._task_gpu_shares[task] = entry.gpu_shares if sign > 0 else entry.old_gpu_shares
        self.version += sign
        self.decided_at[task] = self.version - 1 if sign > 0 else entry.old_decided_at

    def _charge(self, task: int, node: int, sign: int) -> None:
        job = self.snapshot.tasks.job[task]
        if sign == 0 or job < 0 or self.snapshot.jobs.queue[job] < 0:
            return
        chain = self.snapshot.queues.chain[self.snapshot.jobs.queue[job]]
        units = sign * self.queue_units(task, node)
        is_fixed = not self.snapshot.jobs.is_preemptible[job]
        for queue in chain[chain >= 0]:
            self.queue_allocated[queue] += units
            if is_fixed:
                self.queue_allocated_non_preemptible[queue] += units

    def _apply_gpu_shares(self, entry: Entry, sign: int) -> None:
        node = entry.node
        if node not in self._gpu_shares:
            self._gpu_shares[node] = dict(self.snapshot.nodes.gpu_shares[node])
        gpu_shares = self._gpu_shares[node]
        shape = self.snapshot.shape_of(entry.task)
        amount = shape.device_mib(int(self.snapshot.nodes.gpu_memory_mib[node]))
        by = _use_change(entry, amount)
        for name in entry.gpu_shares:
            use = gpu_shares.get(name, NOBODY)
            now, later = footprint(use)
            use = changed(use, by, sign)
            then_now, then_later = footprint(use)
            self.idle[node, GPU] += then_now - now
            self.releasing[node, GPU] += then_later - later
            gpu_shares[name] = use
            if use == NOBODY:
                del gpu_shares[name]


def _use_change(entry: Entry, amount: int) -> GpuShareUse:
    """What an entry adds to the use of each of its shared GPUs."""
    match entry.kind:
        case EntryKind.ALLOCATE:
            return GpuShareUse(physical=amount)
        case EntryKind.PIPELINE:
            return GpuShareUse(pipelined=amount)
        case EntryKind.POSTPONE:
            return GpuShareUse(physical=-amount, pipelined=amount)
    waits = TaskStatus.PIPELINED in (entry.old_status, entry.new_status)
    leaves = 1 if entry.kind is EntryKind.EVICT else -1
    if waits:
        return GpuShareUse(pipelined=-leaves * amount)
    return GpuShareUse(releasing=leaves * amount)


def _counted(snapshot: ClusterSnapshot) -> Ints:
    """Tasks per leaf and status: int64[L, STATUSES]."""
    tasks = snapshot.tasks
    counts = np.zeros((len(snapshot.leaves.job), STATUSES), dtype=np.int64)
    rows = np.flatnonzero(tasks.live & (tasks.leaf >= 0))
    np.add.at(counts, (tasks.leaf[rows], tasks.status[rows]), 1)
    return counts
