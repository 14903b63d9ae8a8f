"""Records into columns: the pure steps behind `ClusterTables.snapshot`.

Arrays in the results are fresh or shared with the snapshot before; nothing here changes an array
that somebody else may read, except `book_node`, which fills a row of columns that were just made.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypedDict

import numpy as np

from muster.api.queue_tree import Rootless, rootless_by_name
from muster.model.constraints import Constraints
from muster.model.devices import NOBODY, GpuShareUse, share_table
from muster.model.gpu_request import Use
from muster.model.node_index import NodeIndex
from muster.model.records import (
    UNLIMITED,
    GpuKind,
    JobRecord,
    NodeRecord,
    QueueAmounts,
    QueueRecord,
    SubGroupRecord,
    TaskKind,
    TaskRecord,
)
from muster.model.shapes import Shape
from muster.model.snapshot import (
    JobColumns,
    LeafColumns,
    NodeColumns,
    QueueColumns,
    ShapeDemand,
    TaskColumns,
)
from muster.model.status import IS_ACTIVE_USED, IS_ALIVE, IS_ALLOCATED, TaskStatus
from muster.numerics import ledger, tree
from muster.numerics.arrays import Bools, Floats, Ints, Rows
from muster.numerics.axis import (
    GPU,
    LARGEST_AMOUNT,
    LARGEST_SUM,
    QUEUE_GPU,
    QUEUE_RESOURCES,
    QUEUE_WIDTH,
    ResourceAxis,
)
from muster.numerics.gpu_shares import TOO_LARGE, footprint, use_of
from muster.numerics.table import Table

UNKNOWN_GPU_MEMORY_MIB = 100
"""What a GPU is taken to have where its node does not say: fractions work, memory requests do not.
"""


@dataclass
class Dirty:
    """What changed since the last snapshot."""

    axis: bool = False
    node_set: bool = False
    nodes_changed: bool = False
    nodes: set[str] = field(default_factory=set)
    queues: bool = False
    jobs: bool = False
    job_tasks: set[str] = field(default_factory=set)


# -- nodes -------------------------------------------------------------------------------------


def empty_nodes(records: Mapping[str, NodeRecord], axis: ResourceAxis) -> NodeColumns:
    """Columns for these nodes in name order, nothing booked on them yet."""
    names = tuple(sorted(records))
    ordered = tuple(records[name] for name in names)
    allocatable = np.zeros((len(names), len(axis)), dtype=np.int64)
    for row, record in enumerate(ordered):
        allocatable[row] = axis.vector(record.allocatable)
    return NodeColumns(
        names=names,
        row={name: row for row, name in enumerate(names)},
        records=ordered,
        allocatable=allocatable,
        idle=allocatable.copy(),
        releasing=np.zeros_like(allocatable),
        **_gpu_memory(ordered),
        gpu_shares=[{} for _ in names],
        index=NodeIndex(ordered),
    )


def copied_nodes(last: NodeColumns, records: Mapping[str, NodeRecord] | None) -> NodeColumns:
    """The same nodes, ready to be booked anew; `records` where some of them changed."""
    copied = replace(
        last,
        idle=last.idle.copy(),
        releasing=last.releasing.copy(),
        gpu_shares=list(last.gpu_shares),
    )
    if records is None:
        return copied
    ordered = tuple(records[name] for name in last.names)
    return replace(
        copied,
        records=ordered,
        index=NodeIndex(ordered),
        allocatable=last.allocatable.copy(),
        **_gpu_memory(ordered),
    )


class _GpuMemory(TypedDict):
    gpu_memory_mib: Ints
    gpu_memory_known: Bools
    gpu_size: Ints
    gpu_sizes_mib: Ints


def _gpu_memory(records: Sequence[NodeRecord]) -> _GpuMemory:
    """What GPUs of each node have; and the sizes that there are, with which node has which."""
    memory = [record.gpu_memory_mib or UNKNOWN_GPU_MEMORY_MIB for record in records]
    sizes, size = np.unique(np.array(memory, dtype=np.int64), return_inverse=True)
    return _GpuMemory(
        gpu_memory_mib=np.array(memory, dtype=np.int64),
        gpu_memory_known=np.array([r.gpu_memory_mib > 0 for r in records], dtype=np.bool_),
        gpu_size=size.reshape(-1).astype(np.int64),
        gpu_sizes_mib=sizes,
    )


def book_node(
    nodes: NodeColumns, row: int, axis: ResourceAxis, held: Sequence[tuple[Shape, TaskRecord]]
) -> None:
    """Fill idle, releasing and gpu_shares of one node from the tasks that name it."""
    allocatable = axis.vector(nodes.records[row].allocatable)
    idle, releasing = allocatable.copy(), np.zeros_like(allocatable)
    memory_mib = int(nodes.gpu_memory_mib[row])
    there = [(shape, task) for shape, task in held if IS_ACTIVE_USED[task.status]]
    gpu_shares = _gpu_share_uses(there, memory_mib)
    if there:
        requests = np.stack([shape.request for shape, _ in there])
        statuses = np.array([task.status for _, task in there], dtype=np.int64)
        _hold_by_users(there, gpu_shares, requests, statuses)
        most = LARGEST_SUM // len(there)
        if most < LARGEST_AMOUNT:
            requests = np.minimum(requests, most)
        ledger.hold_all(idle, releasing, allocatable, requests, statuses)
    for each in gpu_shares.values():
        now, later = footprint(*each)
        idle[GPU] += now
        releasing[GPU] += later
    nodes.allocatable[row] = allocatable
    nodes.idle[row] = idle
    nodes.releasing[row] = releasing
    nodes.gpu_shares[row] = gpu_shares


def _gpu_share_uses(
    there: Sequence[tuple[Shape, TaskRecord]], memory_mib: int
) -> dict[str, GpuShareUse]:
    """The shared GPUs of a node, by name, from the tasks that are there."""
    uses: dict[str, GpuShareUse] = {}
    for shape, task in there:
        if not shape.is_shared and not shape.gpu.claimed:
            continue
        use = use_of(int(task.status), shape.device_mib(memory_mib))
        names = task.gpu_shares[: shape.gpu.devices] if shape.is_shared else shape.gpu.claimed
        for name in names:
            uses[name] = uses.get(name, NOBODY).plus(use)
    return uses


def _hold_by_users(
    there: Sequence[tuple[Shape, TaskRecord]],
    uses: Mapping[str, GpuShareUse],
    requests: Ints,
    statuses: Ints,
) -> None:
    """The GPU of a reservation is its users'. When the last of them has gone the kubelet still has
    it given to the reservation, until the binder has taken that away: so long it is leaving.
    """
    for at, (shape, task) in enumerate(there):
        if not shape.is_reservation:
            continue
        if any(uses.get(name, NOBODY).physical for name in task.gpu_shares):
            requests[at, GPU] = 0
        elif task.gpu_shares and IS_ALLOCATED[task.status]:
            statuses[at] = TaskStatus.RELEASING


def with_share_table(nodes: NodeColumns, last: NodeColumns | None) -> NodeColumns:
    """The nodes with their shared GPUs as columns, those of the last ones if they are the same."""
    if last is not None and len(last) == len(nodes) and nodes.gpu_shares == last.gpu_shares:
        return replace(nodes, share_table=last.share_table)
    return replace(nodes, share_table=share_table(nodes.gpu_shares))


def gpu_memory_bounds(nodes: NodeColumns) -> tuple[int, int]:
    """The smallest and the largest GPU of the cluster, in MiB; (0, 0) where no node says."""
    known = nodes.gpu_memory_mib[nodes.gpu_memory_known & (nodes.allocatable[:, GPU] > 0)]
    return (int(known.min()), int(known.max())) if len(known) else (0, 0)


# -- jobs and tasks ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JobLists:
    """What of the jobs is no array: names, records, and rows from old to young."""

    keys: Sequence[str]
    records: Sequence[JobRecord]
    rows: Mapping[str, int]
    oldest_first: Rows


def job_columns(table: Table, lists: JobLists, leaves: Table) -> JobColumns:
    """Columns of all jobs; `queue` is filled in by `queue_of_jobs`."""
    size = table.size
    age_rank = np.zeros(size, dtype=np.int64)
    age_rank[lists.oldest_first] = np.arange(len(lists.oldest_first))
    job_of_leaf = np.where(leaves.used("live"), leaves.used("job"), size).astype(np.int64)
    start, leaf_rows = _grouped(job_of_leaf, size)
    return JobColumns(
        keys=tuple(lists.keys),
        records=tuple(lists.records),
        row=dict(lists.rows),
        live=table.used("live").astype(np.bool_),
        queue=np.full(size, -1, dtype=np.int64),
        priority=table.used("priority").astype(np.int64),
        is_preemptible=table.used("is_preemptible").astype(np.bool_),
        age_rank=age_rank,
        is_plain=table.used("is_plain").astype(np.bool_),
        flat_minimum=table.used("flat_minimum").astype(np.int64),
        is_timed=table.used("is_timed").astype(np.bool_),
        never_preempts=table.used("never_preempts").astype(np.bool_),
        is_on_hold=table.used("is_on_hold").astype(np.bool_),
        work_since_s=table.used("work_since_s").astype(np.float64),
        changed=table.used("changed").astype(np.int64),
        start=start,
        leaves=leaf_rows,
    )


def write_job(table: Table, row: int, record: JobRecord, queue_code: int) -> None:
    """Fill the row of a job. `queue_code` stands for the name of its queue, known or not."""
    table["priority"][row] = record.priority
    table["is_preemptible"][row] = record.is_preemptible
    table["is_plain"][row] = _is_plain(record.sub_groups)
    table["flat_minimum"][row] = _flat_minimum(record.sub_groups)
    is_stale = record.stale_since_s is not None
    table["is_timed"][row] = is_stale or record.preemption_delay_s != 0
    table["never_preempts"][row] = record.never_preempts
    table["is_on_hold"][row] = record.on_hold is not None
    table["work_since_s"][row] = max(record.last_start_s or 0.0, record.checkpoint_s or 0.0)
    table["queue_code"][row] = queue_code


JOB_COLUMNS: Mapping[str, tuple[type, int]] = {
    "priority": (np.int64, 0),
    "queue_code": (np.int64, 0),
    "is_preemptible": (np.bool_, 0),
    "is_plain": (np.bool_, 0),
    "flat_minimum": (np.int64, 0),
    "is_timed": (np.bool_, 0),
    "never_preempts": (np.bool_, 0),
    "is_on_hold": (np.bool_, 0),
    "work_since_s": (np.float64, 0),
    "changed": (np.int64, 0),
}


def ordered_leaves(leaves: LeafColumns, tasks: TaskColumns, rank: Ints) -> LeafColumns:
    """The leaves with their tasks, by rank, and what they still need."""
    size = len(leaves.job)
    linked = np.flatnonzero(tasks.live & (tasks.leaf >= 0))
    order = np.lexsort((rank[linked], tasks.leaf[linked]))
    counts = np.bincount(tasks.leaf[linked], minlength=size)
    start = np.zeros(size + 1, dtype=np.int64)
    np.cumsum(counts, out=start[1:])
    return replace(
        leaves,
        minimum=_still_needed(leaves.min_member, tasks, linked),
        start=start,
        tasks=linked[order].astype(np.int64, copy=False),
    )


def _still_needed(min_member: Ints, tasks: TaskColumns, linked: Ints) -> Ints:
    """The minimum of each leaf. Where fewer tasks are left than it declares, those that have
    succeeded count: what is left of a gang that is nearly done would never start again otherwise.
    """
    status = tasks.status[linked]
    has_succeeded = status == TaskStatus.SUCCEEDED
    if not has_succeeded.any():
        return min_member
    leaf, size = tasks.leaf[linked], len(min_member)
    succeeded = np.bincount(leaf[has_succeeded], minlength=size)
    alive = np.bincount(leaf[IS_ALIVE[status]], minlength=size)
    left = np.maximum(min_member - succeeded, np.minimum(min_member, 1))
    needed: Ints = np.where(alive < min_member, left, min_member)
    return needed


def queue_of_jobs(table: Table, codes: Mapping[str, int], queues: QueueColumns) -> Ints:
    """Queue rows by job row; -1 where the queue does not exist. `codes` numbers queue names."""
    row_of_code = np.full(max(len(codes), 1), -1, dtype=np.int64)
    for name, code in codes.items():
        row_of_code[code] = queues.row.get(name, -1)
    rows: Ints = row_of_code[table.used("queue_code").astype(np.int64, copy=False)]
    return rows


def _flat_minimum(root: SubGroupRecord) -> int:
    """How many leaves must have enough; -1 where there are groups between root and leaves."""
    if not root.children or any(child.children for child in root.children):
        return -1
    return len(root.children) if root.minimum is None else max(root.minimum, 0)


def _is_plain(root: SubGroupRecord) -> bool:
    """One leaf under the root and no topology: the common case, which kernels know."""
    if len(root.children) != 1 or root.topology is not None or root.minimum not in (None, 1):
        return False
    only = root.children[0]
    return not only.children and only.topology is None


def _grouped(owner: Ints, owners: int) -> tuple[Ints, Ints]:
    """(start, rows) of the rows by owner; rows whose owner is `owners` belong to nobody."""
    order = np.argsort(owner, kind="stable")
    counts = np.bincount(owner, minlength=owners + 1)[:owners]
    start = np.zeros(owners + 1, dtype=np.int64)
    np.cumsum(counts, out=start[1:])
    return start, order[: start[-1]].astype(np.int64)


# -- queues ------------------------------------------------------------------------------------


def _missing_ancestor(name: str, parents: Mapping[str, str]) -> str:
    """The first queue above that is not there, for a queue that has one within the levels that
    there may be.
    """
    while name in parents:
        name = parents[name]
    return name


def queue_columns(records: Mapping[str, QueueRecord]) -> QueueColumns:
    """Queues that hang from a root, in name order; nothing charged to them yet."""
    parents = {name: record.parent for name, record in records.items()}
    judged = dict(sorted(rootless_by_name(parents).items()))
    names = tuple(name for name, why in judged.items() if why is None)
    row = {name: index for index, name in enumerate(names)}
    ordered = [records[name] for name in names]
    above = [row[record.parent] if record.parent else -1 for record in ordered]
    parent = np.array(above, dtype=np.int64)
    by_age = sorted(row.values(), key=lambda q: (ordered[q].created_s, ordered[q].uid, q))
    age_rank = np.zeros(len(names), dtype=np.int64)
    age_rank[by_age] = np.arange(len(names))
    zeros = np.zeros((len(names), QUEUE_WIDTH), dtype=np.int64)
    chain = _chains(parent)
    return QueueColumns(
        names=names,
        row=row,
        records=ordered,
        parent=parent,
        chain=chain,
        is_leaf=tree.leaves(parent),
        age_rank=age_rank,
        priority=np.array([record.priority for record in ordered], dtype=np.int64),
        quota=_amounts([record.quota for record in ordered], otherwise=0.0),
        limit=_amounts([record.limit for record in ordered], otherwise=UNLIMITED),
        weight=_amounts([record.weight for record in ordered], otherwise=1.0),
        usage=_amounts([record.usage for record in ordered], otherwise=0.0),
        allocated=zeros,
        allocated_non_preemptible=zeros,
        pending=zeros,
        rootless={name: why for name, why in judged.items() if why is not None},
        missing_ancestor={
            name: _missing_ancestor(name, parents)
            for name, why in judged.items()
            if why is Rootless.PARENT_MISSING
        },
        open_to=_open_to(ordered, chain),
    )


def _open_to(records: Sequence[QueueRecord], chain: Ints) -> dict[int, frozenset[str]]:
    """By row: what the queue, or the nearest above it that says something, says."""
    found: dict[int, frozenset[str]] = {}
    if all(record.namespaces is None for record in records):
        return found
    for row, line in enumerate(chain.tolist()):
        said = (records[above].namespaces for above in line if above >= 0)
        listed = next((one for one in said if one is not None), None)
        if listed is not None:
            found[row] = frozenset(listed)
    return found


def shape_demand(
    shapes: Sequence[Shape], width: int, gpu_memory_mib: tuple[int, int], sizes_mib: Ints
) -> ShapeDemand:
    """Shapes as columns. A request for GPU memory counts by the smallest of the cluster's GPUs
    while it waits, and by the largest in the least that it can come to.
    """
    smallest, largest = gpu_memory_mib
    request = np.zeros((len(shapes), width), dtype=np.int64)
    units = np.zeros((len(shapes), QUEUE_WIDTH), dtype=np.int64)
    is_memory = np.zeros(len(shapes), dtype=np.bool_)
    least = np.zeros((len(shapes), QUEUE_WIDTH))
    for shape in shapes:
        request[shape.row] = shape.request
        units[shape.row] = shape.queue_units(smallest, Use.PENDING)
        least[shape.row] = units[shape.row]
        is_memory[shape.row] = shape.gpu.kind is GpuKind.MEMORY
        if is_memory[shape.row]:
            least[shape.row, QUEUE_GPU] = shape.gpu_units(largest, Use.BOUNDS)
    return ShapeDemand(request, units, least, is_memory, **_sharing(shapes, sizes_mib))


def distinct_constraints(shapes: Sequence[Shape]) -> tuple[Constraints, ...]:
    """The constraints that shapes have, each object once: to compare what is in them takes long."""
    return tuple({id(shape.constraints): shape.constraints for shape in shapes}.values())


class _Sharing(TypedDict):
    sharing: Ints
    shares: Ints
    devices: Ints
    need_mib: Ints
    device_mib: Ints
    placed_units: Ints


def _sharing(shapes: Sequence[Shape], sizes_mib: Ints) -> _Sharing:
    """The columns of shapes with shared GPUs."""
    those = [shape for shape in shapes if shape.is_shared or shape.gpu.claimed]
    sharing = np.full(len(shapes), -1, dtype=np.int64)
    sharing[[shape.row for shape in those]] = np.arange(len(those))
    sizes = sizes_mib.tolist()
    placed = [[shape.queue_units(size) for size in sizes] for shape in those]
    taken = [[shape.device_mib(size) for size in sizes] for shape in those]
    device_mib = np.array(taken, dtype=np.int64).reshape(len(those), len(sizes))
    memory = np.array([shape.gpu.memory_mib for shape in those], dtype=np.int64)
    too_small = sizes_mib[np.newaxis] < memory[:, np.newaxis]
    held = [s.gpu.devices if s.is_shared else len(s.gpu.claimed) for s in those]
    wanted = [shape.gpu.devices if shape.is_shared else 0 for shape in those]
    return _Sharing(
        sharing=sharing,
        shares=np.array(held, dtype=np.int64),
        devices=np.array(wanted, dtype=np.int64),
        need_mib=np.where(too_small, TOO_LARGE, device_mib),
        device_mib=device_mib,
        placed_units=np.array(placed, dtype=np.int64).reshape(len(those), len(sizes), QUEUE_WIDTH),
    )


def charged(
    queues: QueueColumns,
    jobs: JobColumns,
    tasks: TaskColumns,
    nodes: NodeColumns,
    demand: ShapeDemand,
) -> tuple[QueueColumns, Ints]:
    """The queues with what their tasks hold and ask for; and what strangers hold."""
    units = demand.queue_units[tasks.shape]
    on_its_node = np.flatnonzero(demand.is_memory[tasks.shape] & (tasks.node >= 0) & tasks.live)
    sharing, size = (
        demand.sharing[tasks.shape[on_its_node]],
        nodes.gpu_size[tasks.node[on_its_node]],
    )
    units[on_its_node] = demand.placed_units[sharing, size]
    queue = np.where(tasks.job >= 0, jobs.queue[tasks.job], -1) if len(jobs.queue) else tasks.job
    mine = tasks.live & (queue >= 0)
    holds = mine & IS_ALLOCATED[tasks.status]
    fixed = holds & ~jobs.is_preemptible[tasks.job] if len(jobs.queue) else holds
    asks = mine & (tasks.status == TaskStatus.PENDING)
    sums = [_summed(queues, queue[rows], units[rows]) for rows in (holds, fixed, asks)]
    filled = replace(queues, allocated=sums[0], allocated_non_preemptible=sums[1], pending=sums[2])
    return filled, _within_sum(units[_strangers(tasks)]).sum(axis=0, dtype=np.int64)


def _strangers(tasks: TaskColumns) -> Bools:
    """Tasks of other schedulers that hold resources and are not ours in another guise."""
    active = tasks.live & IS_ACTIVE_USED[tasks.status] & (tasks.node >= 0)
    rows = np.flatnonzero(active & (tasks.job < 0))
    is_stranger = np.zeros(len(tasks), dtype=np.bool_)
    for row in rows.tolist():
        record = tasks.records[row]
        is_stranger[row] = not record.is_ours and record.kind is TaskKind.WORK
    return is_stranger


def _chains(parent: Ints) -> Ints:
    """[Q, D]: every queue and its ancestors, deepest first, -1 behind the root.

    D is at most `bounds.QUEUE_LEVELS_MAX`: what is deeper hangs from no root.
    """
    levels: list[Ints] = []
    row = np.arange(len(parent), dtype=np.int64)
    while not levels or (row >= 0).any():
        levels.append(row)
        row = np.where(row >= 0, parent[row], -1)
    return np.stack(levels, axis=1) if len(parent) else np.zeros((0, 1), dtype=np.int64)


def _amounts(values: Sequence[QueueAmounts], otherwise: float) -> Floats:
    rows = [[value.get(name, otherwise) for name in QUEUE_RESOURCES] for value in values]
    return np.array(rows, dtype=np.float64).reshape(-1, QUEUE_WIDTH)


def _summed(queues: QueueColumns, queue: Ints, units: Ints) -> Ints:
    """Units by queue, each counted in all its ancestors too."""
    own = np.zeros((len(queues.names), QUEUE_WIDTH), dtype=np.int64)
    np.add.at(own, queue, _within_sum(units))
    total = np.zeros_like(own)
    for level in range(queues.chain.shape[1]):
        above = queues.chain[:, level]
        np.add.at(total, above[above >= 0], own[above >= 0])
    return total


def _within_sum(units: Ints) -> Ints:
    """The rows, with absurd amounts cut so that all together stay within LARGEST_SUM."""
    if units.sum(axis=0, dtype=np.float64).max(initial=0.0) < LARGEST_SUM:
        return units
    return np.minimum(units, LARGEST_SUM // len(units))
