"""ClusterSnapshot: the cluster at one instant, in columns that no cycle writes to.

Tables refer to each other by row. Node and queue rows are in name order, so the lowest row wins a
tie; job, task and leaf rows are stable over the life of the thing, in no order at all: `age_rank`
and the order inside `leaves.tasks` are the orders to use. Rows of things that left stay as holes:
iterate over `jobs.live` and the CSR columns, not over ranges.

A CSR pair (start, rows) lists the rows that belong to i as rows[start[i] : start[i + 1]].
Axes: N nodes, T task rows, L leaves (sub-groups with tasks), J job rows, Q queues, S shapes, R
resources.
"""

from collections.abc import Mapping, MutableSequence, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from muster.api.queue_tree import Rootless
from muster.model.cluster_objects import NO_OBJECTS, ClusterObjects
from muster.model.constraints import Constraints
from muster.model.devices import GpuShareTable, NodeGpuShares, share_table
from muster.model.node_index import NodeIndex
from muster.model.records import (
    ClusterRecords,
    JobRecord,
    NodeRecord,
    QueueRecord,
    TaskRecord,
    TopologyRecord,
)
from muster.model.shapes import Shape
from muster.numerics.arrays import Bools, Bytes, Floats, Ints, Rows
from muster.numerics.axis import ResourceAxis

NO_SHARES = share_table(())


@dataclass(frozen=True, slots=True)
class NodeColumns:
    """Nodes in name order. `idle` and `releasing` are what a cycle starts from."""

    names: tuple[str, ...]
    row: Mapping[str, int]
    records: Sequence[NodeRecord]
    allocatable: Ints  # [N, R]
    idle: Ints  # [N, R]: not taken by anybody; below 0 where a node is overcommitted
    releasing: Ints  # [N, R]: held by tasks that leave, less what waits for it
    gpu_memory_mib: Ints  # [N], of each device; 100 where it is not known
    gpu_memory_known: Bools  # [N]
    gpu_size: Ints  # [N]: which of the sizes that there are the GPUs of a node have
    gpu_sizes_mib: Ints  # [M]
    gpu_shares: MutableSequence[NodeGpuShares]  # [N] shared GPUs
    index: NodeIndex
    share_table: GpuShareTable = NO_SHARES
    """`gpu_shares` as columns."""

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True)
class TaskColumns:
    """Tasks. `job`, `leaf` and `node` are -1 where there is none."""

    records: Sequence[TaskRecord]
    live: Bools  # [T]
    job: Ints  # [T]
    leaf: Ints  # [T]; -1 also for a task that names an unknown sub-group
    status: Bytes  # [T], TaskStatus
    node: Ints  # [T]
    shape: Ints  # [T]

    def __len__(self) -> int:
        return len(self.live)

    @cached_property
    def row(self) -> Mapping[str, int]:
        """Row of a uid. Made when first asked."""
        return {self.records[row].uid: row for row in np.flatnonzero(self.live).tolist()}


@dataclass(frozen=True, slots=True)
class LeafColumns:
    """Sub-groups that hold tasks."""

    names: Sequence[str]
    job: Ints  # [L]
    min_member: Ints  # [L]: as it is declared
    minimum: Ints  # [L]: how many must have a place; see `columns.ordered_leaves`
    start: Ints  # [L + 1]
    tasks: Rows  # tasks of each leaf, by creation, then uid


@dataclass(frozen=True, slots=True)
class JobColumns:
    """Jobs. `queue` is -1 where it names a queue that does not exist or hangs in the air."""

    keys: Sequence[str]
    records: Sequence[JobRecord]
    row: Mapping[str, int]
    live: Bools  # [J]
    queue: Ints  # [J]
    priority: Ints  # [J]
    is_preemptible: Bools  # [J]
    age_rank: Ints  # [J]: by creation, then uid; lower is older
    is_plain: Bools  # [J]: one leaf under the root, no topology
    flat_minimum: Ints  # [J]: leaves that must have enough; -1 where groups are nested
    is_timed: Bools  # [J]: time alone may change what becomes of it: it delays, or is stale
    never_preempts: Bools  # [J]: causes no evictions
    is_on_hold: Bools  # [J]: somebody does not want it to start yet
    work_since_s: Floats  # [J]: last start or checkpoint: what is done since is lost; 0: not known
    changed: Ints  # [J]: the generation in which the job, or a task of it, last changed
    start: Ints  # [J + 1]
    leaves: Rows  # leaves of each job


@dataclass(frozen=True, slots=True)
class QueueColumns:
    """Queues in name order; all float64 and int64 amounts are [Q, queue resources]."""

    names: tuple[str, ...]
    row: Mapping[str, int]
    records: Sequence[QueueRecord]
    parent: Ints  # [Q]
    chain: Ints  # [Q, D]: the queue and its ancestors, deepest first, -1 behind the root
    is_leaf: Bools  # [Q]
    age_rank: Ints  # [Q]
    priority: Ints  # [Q]
    quota: Floats
    limit: Floats
    weight: Floats
    usage: Floats
    allocated: Ints  # held by tasks of the queue and of all below it
    allocated_non_preemptible: Ints  # the part of it held by jobs that are not preemptible
    pending: Ints  # asked for by pending tasks, likewise
    rootless: Mapping[str, Rootless] = field(default_factory=dict)
    """Queues that are in no row, because they hang from no root."""
    missing_ancestor: Mapping[str, str] = field(default_factory=dict)
    """Of such queues, where that is why: the name of the one above that is not there."""
    open_to: Mapping[int, frozenset[str]] = field(default_factory=dict)
    """By row, where not everybody may: the namespaces whose jobs may use the queue."""

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True, slots=True)
class ShapeDemand:
    """What shapes ask for, as columns."""

    request: Ints  # [S, R], of the node
    queue_units: Ints  # [S, queue resources]; GPU memory by the smallest GPU
    least_units: Floats  # [S, queue resources]: the least that it can come to
    is_memory: Bools  # [S]: the queue units depend on the node's GPUs
    sharing: Ints  # [S]: the row among the K shapes with shared GPUs; -1: it has none
    shares: Ints  # [K]: how many shared GPUs a task holds
    devices: Ints  # [K]: of how many it wants a part; 0: its claims say which it shares
    need_mib: Ints  # [K, M]: what a GPU of that size must have left; TOO_LARGE where none can
    device_mib: Ints  # [K, M]: what it takes of each GPU of that size
    placed_units: Ints  # [K, M, queue resources], on a node with GPUs of that size


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """Everything a cycle knows about the cluster."""

    axis: ResourceAxis
    nodes: NodeColumns
    tasks: TaskColumns
    leaves: LeafColumns
    jobs: JobColumns
    queues: QueueColumns
    shapes: Sequence[Shape]
    constraints: Sequence[Constraints]
    """Those that shapes have, each object once: most shapes have the same."""
    demand: ShapeDemand
    topologies: Mapping[str, TopologyRecord]
    foreign: Ints  # [queue resources]: held by tasks of other schedulers
    cluster_objects: ClusterObjects = NO_OBJECTS
    gpu_memory_max_mib: int = 0
    """The largest memory of a GPU in the cluster; 0: no node says."""
    generation: int = 0
    """Grows with every change of the tables that the snapshot was taken from."""
    non_pending_version: object = field(default_factory=object)
    """The same object in snapshots between which nothing changed but jobs that only wait, and bound
    tasks that came to run.
    """

    def tasks_of_leaf(self, leaf: int) -> Rows:
        """By creation, then uid."""
        return self.leaves.tasks[self.leaves.start[leaf] : self.leaves.start[leaf + 1]]

    def leaves_of_job(self, job: int) -> Rows:
        return self.jobs.leaves[self.jobs.start[job] : self.jobs.start[job + 1]]

    def shape_of(self, task: int) -> Shape:
        return self.shapes[int(self.tasks.shape[task])]

    def to_records(self) -> ClusterRecords:
        """The inverse of building: what to write into a bug report."""
        return ClusterRecords(
            nodes=tuple(self.nodes.records),
            tasks=tuple(self.tasks.records[row] for row in self.tasks.row.values()),
            jobs=tuple(self.jobs.records[row] for row in self.jobs.row.values()),
            queues=tuple(self.queues.records),
            topologies=tuple(self.topologies.values()),
            cluster_objects=self.cluster_objects,
        )
