"""ClusterTables: the columns that live across cycles, advanced record by record.

The scheduler's cache calls `upsert_*` and `remove_*` as things change and takes a `snapshot()` when
a cycle begins. A change writes its own row and marks what has to be summed anew: the node it
touches, the orders it may change. So a snapshot costs what changed, not the size of the cluster;
with nothing changed it is the snapshot before.

Changes of jobs that only wait are told apart, because all that others notice of them is what their
queues ask for. Snapshots have the same `non_pending_version` as long as there are no other changes.

Tasks may name nodes and jobs that come later, or never: rows are linked when the snapshot is taken.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

import msgspec
import numpy as np

from muster.api.bounds import RESOURCE_COLUMNS_MAX
from muster.model import columns
from muster.model.age_order import AgeOrder, JobAge
from muster.model.cluster_objects import NO_OBJECTS, ClusterObjects
from muster.model.constraints import ANY_LABEL, Constraints, exposed, selector_keys
from muster.model.records import (
    ClusterRecords,
    JobRecord,
    NodeRecord,
    QueueAmounts,
    QueueRecord,
    SubGroupRecord,
    TaskKind,
    TaskRecord,
    TopologyRecord,
)
from muster.model.shapes import Shape
from muster.model.snapshot import (
    ClusterSnapshot,
    JobColumns,
    LeafColumns,
    NodeColumns,
    QueueColumns,
    TaskColumns,
)
from muster.model.status import ACTIVE_USED, ALLOCATED, TaskStatus
from muster.numerics.arrays import Ints
from muster.numerics.axis import FIXED, ResourceAxis
from muster.numerics.table import Table

_T = TypeVar("_T")
_MANY_SHAPES = 1024
"""From this many shapes on it is worth looking for those that nobody has any more."""
_MANY_QUEUES = 1024
"""From this many names of queues on it is worth looking for those that nobody uses any more."""
_NO_USAGE: QueueAmounts = {}
_TASK_COLUMNS = ("job", "leaf", "node", "shape", "rank")


def snapshot_of(records: ClusterRecords) -> ClusterSnapshot:
    """A snapshot built from nothing."""
    tables = ClusterTables()
    tables.extend(records)
    return tables.snapshot()


class ClusterTables:
    """The mutable tables behind snapshots."""

    def __init__(self) -> None:
        self.axis = ResourceAxis()
        self._nodes: dict[str, NodeRecord] = {}
        self._queues: dict[str, QueueRecord] = {}
        self._topologies: dict[str, TopologyRecord] = {}
        self._cluster_objects = NO_OBJECTS
        self._jobs = Table(columns.JOB_COLUMNS)
        self._job_ages = AgeOrder()
        self._job_keys: list[str] = []
        self._queue_codes: dict[str, int] = {}
        self._queue_codes_max = _MANY_QUEUES
        self._job_rows: dict[str, int] = {}
        self._job_records: list[JobRecord] = []
        self._leaves = Table({"job": (np.int64, 0), "minimum": (np.int64, 0)})
        self._leaf_names: list[str] = []
        self._leaf_rows: dict[tuple[str, str], int] = {}
        self._job_tasks: dict[str, set[int]] = {}
        self._job_holds: Counter[str] = Counter()
        """How many tasks of each job do more than wait."""
        self._tasks = Table(dict.fromkeys(_TASK_COLUMNS, (np.int64, 0)) | {"status": (np.int8, 0)})
        self._task_rows: dict[str, int] = {}
        self._task_records: list[TaskRecord] = []
        self._on_node: dict[str, list[int]] = {}
        """Rows of tasks, ascending: a set of a few takes ten times as much."""
        self._node_rows: dict[str, int] = {}
        self._shapes: list[Shape] = []
        self._shape_rows: dict[object, int] = {}
        self._alike: dict[object, int] = {}
        """Numbers of what shapes ask for, amounts apart."""
        self._exposed: set[str] = set()
        self._exposed_since: set[str] = set()
        self._dirty = columns.Dirty()
        self._generation = 0
        self._non_pending_version = object()
        self._last: ClusterSnapshot | None = None

    # -- changes -------------------------------------------------------------------------------

    def extend(self, records: ClusterRecords) -> None:
        """Upsert everything in `records`."""
        self._widen(name for node in records.nodes for name in node.allocatable)
        asked = {name for task in records.tasks for name in task.request}
        if len(asked | set(self.axis.column)) <= RESOURCE_COLUMNS_MAX:
            self._widen(asked)
        self._expose(key for t in records.tasks for key in selector_keys(t.constraints))
        if records.cluster_objects != NO_OBJECTS:
            self.set_cluster_objects(records.cluster_objects)
        for topology in records.topologies:
            self.upsert_topology(topology)
        for queue in records.queues:
            self.upsert_queue(queue)
        for node in records.nodes:
            self.upsert_node(node)
        for job in records.jobs:
            self.upsert_job(job)
        for task in records.tasks:
            self.upsert_task(task)

    def upsert_node(self, record: NodeRecord) -> bool:
        """Like every upsert: False, and nothing marked, when the record says nothing new."""
        if self._nodes.get(record.name) == record:
            return False
        self._widen(record.allocatable)
        self._dirty.node_set |= record.name not in self._nodes
        self._nodes[record.name] = record
        self._dirty.nodes.add(record.name)
        self._dirty.nodes_changed = True
        self._shift()
        return True

    def remove_node(self, name: str) -> None:
        if self._nodes.pop(name, None) is not None:
            self._dirty.node_set = True
            self._shift()

    def upsert_queue(self, record: QueueRecord) -> bool:
        if self._queues.get(record.name) == record:
            return False
        self._queues[record.name] = record
        self._dirty.queues = True
        self._shift()
        return True

    def set_usage(self, usage: Mapping[str, QueueAmounts]) -> bool:
        """What all queues used, by name; those that are not named used nothing."""
        changed = False
        for name, record in self._queues.items():
            used = usage.get(name, _NO_USAGE)
            if record.usage != used:
                self._queues[name] = msgspec.structs.replace(record, usage=used)
                changed = True
        if changed:
            self._dirty.queues = True
            self._shift()
        return changed

    def remove_queue(self, name: str) -> None:
        if self._queues.pop(name, None) is not None:
            self._dirty.queues = True
            self._shift()

    def upsert_topology(self, record: TopologyRecord) -> None:
        self._topologies[record.name] = record
        self._shift()

    def remove_topology(self, name: str) -> None:
        if self._topologies.pop(name, None) is not None:
            self._shift()

    def set_cluster_objects(self, cluster_objects: ClusterObjects) -> None:
        """Objects other than pods and nodes, whole: a value that snapshots share."""
        self._cluster_objects = cluster_objects
        self._shift()

    def upsert_job(self, record: JobRecord) -> bool:
        row = self._job_rows.get(record.key)
        old = self._job_records[row] if row is not None else None
        if old == record:
            return False
        if row is None:
            row = self._jobs.add()
            self._job_rows[record.key] = row
            _put(self._job_keys, row, record.key)
        _put(self._job_records, row, record)
        code = self._queue_codes.setdefault(record.queue, len(self._queue_codes))
        columns.write_job(self._jobs, row, record, code)
        if old is not None:
            self._job_ages.remove(_age_of(old, row))
        self._job_ages.add(_age_of(record, row))
        if old is None or old.sub_groups != record.sub_groups:
            if old is not None:
                self._remove_leaves(old)
            self._add_leaves(record)
            self._link_job(record.key)
        self._dirty.jobs = True
        self._touch_job(record.key)
        return True

    def remove_job(self, key: str) -> bool:
        """Whether it was here. Its tasks stay, and keep what they hold."""
        row = self._job_rows.pop(key, None)
        if row is None:
            return False
        self._job_ages.remove(_age_of(self._job_records[row], row))
        self._remove_leaves(self._job_records[row])
        self._jobs.remove(row)
        self._link_job(key)
        self._dirty.jobs = True
        self._touch_job(key)
        return True

    def upsert_task(self, record: TaskRecord) -> bool:
        record = self._within_axis(record)
        row = self._task_rows.get(record.uid)
        old = self._task_records[row] if row is not None else None
        if old == record:
            return False
        # First what may fail, so that a record that cannot be counted changes nothing.
        self._expose(selector_keys(record.constraints))
        shape = self._shape_row(record)
        if row is None:
            row = self._tasks.add()
            self._task_rows[record.uid] = row
            _put(self._task_records, row, record)
        else:
            self._unlink_task(row)
            self._task_records[row] = record
        self._tasks["status"][row] = record.status
        self._tasks["shape"][row] = shape
        self._link_task(row)
        self._touch_task(old, record)
        return True

    def remove_task(self, uid: str) -> None:
        row = self._task_rows.pop(uid, None)
        if row is not None:
            self._unlink_task(row)
            for link in ("job", "leaf", "node"):  # Nobody's, for who looks by status alone.
                self._tasks[link][row] = -1
            self._tasks.remove(row)
            self._touch_task(self._task_records[row], None)

    # -- reading -------------------------------------------------------------------------------

    def snapshot(self) -> ClusterSnapshot:
        """The tables as they are now, in columns that will not change under the reader."""
        if self._last is not None and self._last.generation == self._generation:
            return self._last
        self._reshape()
        self._drop_unused_shapes()
        self._drop_unused_queue_codes()
        nodes = self._node_columns()
        jobs, leaves = self._job_columns()
        tasks = self._task_columns()
        leaves = columns.ordered_leaves(leaves, tasks, self._task_ranks())
        queues = self._queue_columns()
        jobs = replace(
            jobs,
            queue=columns.queue_of_jobs(self._jobs, self._queue_codes, queues),
            changed=self._jobs.used("changed").astype(np.int64),
        )
        limits = columns.gpu_memory_bounds(nodes)
        sizes = nodes.gpu_sizes_mib
        demand = columns.shape_demand(self._shapes, len(self.axis), limits, sizes)
        queues, foreign = columns.charged(queues, jobs, tasks, nodes, demand)
        self._dirty = columns.Dirty()
        self._last = ClusterSnapshot(
            axis=self.axis,
            nodes=nodes,
            tasks=tasks,
            leaves=leaves,
            jobs=jobs,
            queues=queues,
            shapes=tuple(self._shapes),
            constraints=columns.distinct_constraints(self._shapes),
            demand=demand,
            topologies=dict(self._topologies),
            cluster_objects=self._cluster_objects,
            foreign=foreign,
            gpu_memory_max_mib=limits[1],
            generation=self._generation,
            non_pending_version=self._non_pending_version,
        )
        return self._last

    def job(self, key: str) -> JobRecord | None:
        row = self._job_rows.get(key)
        return None if row is None else self._job_records[row]

    def has_queue(self, name: str) -> bool:
        return name in self._queues

    def has_node(self, name: str) -> bool:
        return name in self._nodes

    def tasks_on(self, node: str) -> list[str]:
        """Of all tasks that name the node, whether it is there or not: their uids."""
        return [self._task_records[row].uid for row in self._on_node.get(node, ())]

    def tasks(self) -> Iterator[TaskRecord]:
        """All tasks, in no order."""
        for row in self._task_rows.values():
            yield self._task_records[row]

    def records(self) -> ClusterRecords:
        """Everything the tables hold."""
        return ClusterRecords(
            nodes=tuple(self._nodes.values()),
            tasks=tuple(self._task_records[row] for row in self._task_rows.values()),
            jobs=tuple(self._job_records[row] for row in self._job_rows.values()),
            queues=tuple(self._queues.values()),
            topologies=tuple(self._topologies.values()),
            cluster_objects=self._cluster_objects,
        )

    def _node_columns(self) -> NodeColumns:
        last = self._last.nodes if self._last is not None else None
        dirty = self._dirty
        if last is None or dirty.node_set or dirty.axis:
            fresh = columns.empty_nodes(self._nodes, self.axis)
            rows: Iterable[int] = range(len(fresh))
            self._node_rows = dict(fresh.row)
            self._link_nodes()
        else:
            fresh = columns.copied_nodes(last, self._nodes if dirty.nodes_changed else None)
            rows = sorted(fresh.row[name] for name in dirty.nodes if name in fresh.row)
        for row in rows:
            held = [
                (self._shapes[int(self._tasks["shape"][task])], self._task_records[task])
                for task in self._on_node.get(fresh.names[row], ())
            ]
            columns.book_node(fresh, row, self.axis, held)
        return columns.with_share_table(fresh, last)

    def _job_columns(self) -> tuple[JobColumns, LeafColumns]:
        if self._last is not None and not self._dirty.jobs:
            return self._last.jobs, self._last.leaves
        lists = columns.JobLists(
            self._job_keys, self._job_records, self._job_rows, self._job_ages.rows()
        )
        jobs = columns.job_columns(self._jobs, lists, self._leaves)
        min_member = self._leaves.used("minimum").astype(np.int64)
        leaves = LeafColumns(
            names=tuple(self._leaf_names),
            job=self._leaves.used("job").astype(np.int64),
            min_member=min_member,
            minimum=min_member,
            start=np.zeros(self._leaves.size + 1, dtype=np.int64),
            tasks=np.zeros(0, dtype=np.int64),
        )
        return jobs, leaves

    def _task_columns(self) -> TaskColumns:
        table = self._tasks
        return TaskColumns(
            records=tuple(self._task_records),
            live=table.used("live").astype(np.bool_),
            job=table.used("job").astype(np.int64),
            leaf=table.used("leaf").astype(np.int64),
            status=table.used("status").astype(np.int8),
            node=table.used("node").astype(np.int64),
            shape=table.used("shape").astype(np.int64),
        )

    def _task_ranks(self) -> Ints:
        """The place of every task among its job's tasks: by creation, then uid."""
        rows: list[int] = []
        ranks: list[int] = []
        for key in self._dirty.job_tasks:
            members = self._job_tasks.get(key, set())
            rows += sorted(members, key=self._age) if len(members) > 1 else members
            ranks += range(len(members))
        self._tasks["rank"][rows] = ranks
        return self._tasks.used("rank").astype(np.int64, copy=False)

    def _queue_columns(self) -> QueueColumns:
        if self._last is not None and not self._dirty.queues:
            return self._last.queues
        return columns.queue_columns(self._queues)

    # -- bookkeeping ---------------------------------------------------------------------------

    def _age(self, row: int) -> tuple[float, str]:
        record = self._task_records[row]
        return record.created_s, record.uid

    def _touch(self) -> None:
        self._generation += 1

    def _touch_job(self, key: str) -> None:
        """Something changed in a job; others notice unless all it does is wait."""
        self._touch()
        if key in self._job_rows:
            self._jobs["changed"][self._job_rows[key]] = self._generation
        if key and self._job_holds[key]:
            self._non_pending_version = object()

    def _touch_task(self, old: TaskRecord | None, new: TaskRecord | None) -> None:
        """A task came, changed or left. That it now runs where it was bound makes no difference."""
        self._touch()
        if old is not None and new is not None and _is_same_holder(old, new):
            return
        for record in (old, new):
            if record is not None:
                self._touch_job(record.job)
                if record.status is not TaskStatus.PENDING:
                    self._non_pending_version = object()

    def _shift(self) -> None:
        """Something changed that any job may notice."""
        self._touch()
        self._non_pending_version = object()

    def _link_task(self, row: int) -> None:
        record = self._task_records[row]
        if record.job:  # The many that are nobody's here are in no order.
            self._job_tasks.setdefault(record.job, set()).add(row)
            self._dirty.job_tasks.add(record.job)
            if record.status is not TaskStatus.PENDING:
                self._job_holds[record.job] += 1
        self._tasks["job"][row] = self._job_rows.get(record.job, -1)
        self._tasks["leaf"][row] = self._leaf_of(record)
        self._tasks["node"][row] = self._node_rows.get(record.node, -1)
        if record.node:
            insort(self._on_node.setdefault(record.node, []), row)
            self._dirty.nodes.add(record.node)

    def _unlink_task(self, row: int) -> None:
        record = self._task_records[row]
        if record.job:
            self._unlink_member(record, row)
        if record.node:
            on_node = self._on_node[record.node]
            del on_node[bisect_left(on_node, row)]
            if not on_node:
                del self._on_node[record.node]
            self._dirty.nodes.add(record.node)

    def _unlink_member(self, record: TaskRecord, row: int) -> None:
        members = self._job_tasks[record.job]
        members.discard(row)
        if not members:
            del self._job_tasks[record.job]
        self._dirty.job_tasks.add(record.job)
        if record.status is not TaskStatus.PENDING:
            self._job_holds[record.job] -= 1
            if not self._job_holds[record.job]:
                del self._job_holds[record.job]

    def _link_job(self, key: str) -> None:
        """Tasks may be here before their job, and stay when it goes."""
        for row in self._job_tasks.get(key, ()):
            self._tasks["job"][row] = self._job_rows.get(key, -1)
            self._tasks["leaf"][row] = self._leaf_of(self._task_records[row])

    def _leaf_of(self, record: TaskRecord) -> int:
        """-1 for a task that waits and whose sub-group does not exist. One that holds resources is
        in another then: what runs must be found when somebody has a better claim to its room.
        """
        leaf = self._leaf_rows.get((record.job, record.sub_group), -1)
        job = self.job(record.job) if leaf < 0 and record.status in ACTIVE_USED else None
        if job is None:
            return leaf
        return next((self._leaf_rows[job.key, one.name] for one in _leaves(job.sub_groups)), -1)

    def _link_nodes(self) -> None:
        """Node rows moved: a node came or left."""
        self._tasks["node"][:] = -1
        for name, row in self._node_rows.items():
            self._tasks["node"][self._on_node.get(name, [])] = row

    def _add_leaves(self, record: JobRecord) -> None:
        job = self._job_rows[record.key]
        for leaf in _leaves(record.sub_groups):
            row = self._leaves.add()
            self._leaves["job"][row] = job
            self._leaves["minimum"][row] = leaf.minimum or 0
            _put(self._leaf_names, row, leaf.name)
            self._leaf_rows[record.key, leaf.name] = row

    def _remove_leaves(self, record: JobRecord) -> None:
        for leaf in _leaves(record.sub_groups):
            row = self._leaf_rows.pop((record.key, leaf.name), None)
            if row is not None:
                self._leaves.remove(row)

    def _shape_row(self, record: TaskRecord) -> int:
        is_reservation = record.kind is TaskKind.RESERVATION
        constraints = exposed(record.constraints, record.namespace, record.labels, self._exposed)
        key = (
            tuple(sorted(record.request.items())),
            record.gpu,
            constraints,
            is_reservation,
            record.nominated_node,
        )
        row = self._shape_rows.get(key)
        if row is None:
            self._widen(record.request)
            row = len(self._shapes)
            self._shape_rows[key] = row
            vector = self.axis.vector(record.request)
            self._shapes.append(
                Shape(
                    row,
                    vector,
                    record.gpu,
                    constraints,
                    is_reservation,
                    record.nominated_node,
                    self._alike_as(record, constraints),
                )
            )
        return row

    def _alike_as(self, record: TaskRecord, constraints: Constraints) -> int:
        key = (
            tuple(sorted(name for name, amount in record.request.items() if amount)),
            msgspec.structs.replace(record.gpu, devices=0, portion=0, mig_slices=0),
            constraints,
            record.kind is TaskKind.RESERVATION,
            record.nominated_node,
        )
        return self._alike.setdefault(key, len(self._alike))

    def _drop_unused_shapes(self) -> None:
        """Pods that name volumes or jobs of their own leave shapes behind: forget them in time."""
        if len(self._shapes) < _MANY_SHAPES:
            return
        column, live = self._tasks["shape"], self._tasks["live"].astype(np.bool_)
        used = np.unique(column[live]).tolist() or [0]
        if 2 * len(used) > len(self._shapes):
            return
        fresh = {old: row for row, old in enumerate(used)}
        moved = np.zeros(len(self._shapes), dtype=np.int64)
        moved[used] = np.arange(len(used))
        column[live] = moved[column[live].astype(np.int64)]
        column[~live] = 0
        alike = {each: at for at, each in enumerate({self._shapes[old].alike for old in used})}
        self._alike = {key: alike[at] for key, at in self._alike.items() if at in alike}
        self._shapes = [
            replace(self._shapes[old], row=row, alike=alike[self._shapes[old].alike])
            for old, row in fresh.items()
        ]
        rows = self._shape_rows.items()
        self._shape_rows = {key: fresh[row] for key, row in rows if row in fresh}

    def _drop_unused_queue_codes(self) -> None:
        """Groups may name any queue, there or not: forget in time those that none names now."""
        if len(self._queue_codes) < self._queue_codes_max:
            return
        rows = list(self._job_rows.values())
        named = dict.fromkeys(self._job_records[row].queue for row in rows)
        self._queue_codes = {name: code for code, name in enumerate(named)}
        self._queue_codes_max = max(_MANY_QUEUES, 2 * len(named))
        self._jobs["queue_code"][:] = 0  # of rows that left too, which are read with the rest
        for row in rows:
            self._jobs["queue_code"][row] = self._queue_codes[self._job_records[row].queue]

    def _expose(self, keys: Iterable[str]) -> None:
        """Selectors read these labels now: pods that differ in them are no longer one shape."""
        fresh = set(keys) - self._exposed
        self._exposed |= fresh
        self._exposed_since |= fresh

    def _reshape(self) -> None:
        """New shapes for the tasks that have a label which selectors read only since the last
        snapshot: once for all such labels, for every pod may bring a new one.
        """
        fresh, self._exposed_since = self._exposed_since, set()
        for row in self._task_rows.values() if fresh else ():
            record = self._task_records[row]
            if ANY_LABEL in fresh or not fresh.isdisjoint(record.labels):
                self._tasks["shape"][row] = self._shape_row(record)

    def _within_axis(self, record: TaskRecord) -> TaskRecord:
        """The record without resources that nobody offers, once too many of those are counted; it
        says so then, and is refused for it.
        """
        known = self.axis.column
        missing = [name for name in record.request if name not in known]
        if not missing or len(known) + len(missing) <= RESOURCE_COLUMNS_MAX:
            return record
        problem = (
            f"no node offers {missing[0]}, and the scheduler counts at most "
            f"{RESOURCE_COLUMNS_MAX} resources: ask for one that a node offers"
        )
        constraints = replace(record.constraints, request_problem=problem)
        request = {name: amount for name, amount in record.request.items() if name in known}
        return msgspec.structs.replace(record, request=request, constraints=constraints)

    def _widen(self, names: Iterable[str]) -> None:
        """Give every resource a column; a new one moves the others, so all vectors are remade."""
        missing = set(names) - set(self.axis.column)
        if not missing:
            return
        old = self.axis
        self.axis = ResourceAxis.over(set(old.names[len(FIXED) :]) | missing)
        self._shapes = [
            replace(shape, request=self.axis.vector(old.amounts(shape.request)))
            for shape in self._shapes
        ]
        self._dirty.axis = True
        self._shift()


def _leaves(group: SubGroupRecord) -> Iterable[SubGroupRecord]:
    """The groups that hold tasks. The root is never one, even without children."""
    for child in group.children:
        if child.children:
            yield from _leaves(child)
        else:
            yield child


def _age_of(job: JobRecord, row: int) -> JobAge:
    return JobAge(job.created_s, job.uid, job.key, row)


def _is_same_holder(old: TaskRecord, new: TaskRecord) -> bool:
    """Whether a task holds what it held, at most further on its way to running."""
    both_hold = old.status in ALLOCATED and new.status in ALLOCATED
    return both_hold and msgspec.structs.replace(old, status=new.status) == new


def _put(values: list[_T], row: int, value: _T) -> None:
    if row < len(values):
        values[row] = value
    else:
        values.append(value)
