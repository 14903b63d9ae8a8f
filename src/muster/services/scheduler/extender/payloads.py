"""The cluster as Volcano shows it to an extender: its structs as Go prints them.

What a cycle saw, with what it decided: that is how the next will find it. Of pods on nodes there is
the metadata; of those that wait, and of nodes, the object as far as it is kept here.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from muster.api import kinds
from muster.api.codec import encode
from muster.api.core import Node, Pod
from muster.engine.plan import Plan
from muster.engine.tiers.plugins.extender import crowd_mark, crowds, resource_name
from muster.model.batch_terms import GroupTerms, PodTerms
from muster.model.records import JobRecord, TaskRecord
from muster.model.snapshot import ClusterSnapshot
from muster.model.status import TaskStatus
from muster.numerics.arrays import Ints, Rows

_S = TaskStatus
_STATUS: Mapping[int, int] = {
    _S.PENDING: 1,
    _S.GATED: 1,
    _S.ALLOCATED: 2,
    _S.PIPELINED: 4,
    _S.BINDING: 8,
    _S.BOUND: 16,
    _S.RUNNING: 32,
    _S.RELEASING: 64,
    _S.STUCK_IN_RELEASING: 64,
    _S.SUCCEEDED: 128,
    _S.FAILED: 256,
}
"""Volcano's numbers."""
_UNKNOWN = 512
_NOT_ON_NODES = (_S.SUCCEEDED, _S.FAILED, _S.DELETED)
_IN_UNITS = ("gpu", "pods")
"""In the axis's units already what Volcano counts."""
_READY = {"Phase": 1, "Reason": ""}
_GO_TIME = "1970-01-01T00:00:00Z"

Text = msgspec.Raw
_NO_POD = PodTerms()
_NO_GROUP = GroupTerms()


@dataclass(frozen=True, slots=True)
class Objects:
    """Where the objects themselves are."""

    pod: Callable[[str], Pod | None]
    node: Callable[[str], Node | None]


@dataclass
class World:
    """A cluster with what was just decided of it."""

    snapshot: ClusterSnapshot
    plan: Plan
    objects: Objects
    _nodes: dict[int, Text] = field(default_factory=dict)

    # -- what follows from the plan ----------------------------------------------------------------

    @cached_property
    def node_of(self) -> Ints:
        """The node of each task, -1: none."""
        nodes, row = self.snapshot.nodes.row, self.snapshot.tasks.row
        found: Ints = self.snapshot.tasks.node.copy()
        for bind in self.plan.binds:
            if bind.task in row:
                found[row[bind.task]] = nodes.get(bind.node, -1)
        return found

    @cached_property
    def status(self) -> Mapping[int, int]:
        """Of tasks of which something was decided."""
        row = self.snapshot.tasks.row
        bound = {row[one.task]: int(_S.BINDING) for one in self.plan.binds if one.task in row}
        leave = {row[one.task]: int(_S.RELEASING) for one in self.plan.evictions if one.task in row}
        return bound | leave

    @cached_property
    def crowds(self) -> Ints:
        """`crowds` of the next cycle."""
        found = crowds(self.snapshot)
        for bind in self.plan.binds:
            node = self.snapshot.nodes.row.get(bind.node)
            if node is not None:
                found[node] += crowd_mark(bind.task)
        return found

    @cached_property
    def idle(self) -> Ints:
        """int64[N, R]."""
        found: Ints = self.snapshot.nodes.idle.copy()
        for task, status in self.status.items():
            if status == _S.BINDING and self.node_of[task] >= 0:
                shape = self.snapshot.tasks.shape[task]
                found[self.node_of[task]] -= self.snapshot.demand.request[shape]
        return found

    @cached_property
    def on_node(self) -> Mapping[int, list[int]]:
        tasks = self.snapshot.tasks
        there = np.flatnonzero(tasks.live & (self.node_of >= 0))
        found: dict[int, list[int]] = {}
        for task, node in zip(there.tolist(), self.node_of[there].tolist(), strict=True):
            if tasks.status[task] not in _NOT_ON_NODES:
                found.setdefault(node, []).append(task)
        return found

    @cached_property
    def of_job(self) -> Mapping[int, list[int]]:
        tasks = self.snapshot.tasks
        found: dict[int, list[int]] = {}
        rows = np.flatnonzero(tasks.live & (tasks.job >= 0))
        for task, job in zip(rows.tolist(), tasks.job[rows].tolist(), strict=True):
            found.setdefault(job, []).append(task)
        return found

    # -- structs -----------------------------------------------------------------------------------

    def task(self, task: int, whole: bool = False) -> dict[str, Any]:
        """TaskInfo; `whole`: with the pod's spec."""
        record, node = self.snapshot.tasks.records[task], int(self.node_of[task])
        terms = record.terms or _NO_POD
        status = self.status.get(task, int(record.status))
        request = _resource(record.request, record.gpu.maker)
        return {
            "UID": record.uid,
            "Job": record.job,
            "Name": record.name,
            "Namespace": record.namespace,
            "TaskRole": terms.role,
            "Resreq": request,
            "InitResreq": request,
            "NodeName": self.snapshot.nodes.names[node] if node >= 0 else "",
            "Status": _STATUS.get(status, _UNKNOWN),
            "Priority": terms.priority,
            "VolumeReady": False,
            "Preemptable": terms.is_preemptable,
            "BestEffort": not any(n != "pods" and a for n, a in record.request.items()),
            "SchGated": record.status is _S.GATED,
            "Pod": self._pod(record, whole),
        }

    def node(self, node: int) -> Text:
        """NodeInfo, as text: it is shown often."""
        if node not in self._nodes:
            self._nodes[node] = Text(msgspec.json.encode(self._node(node)))
        return self._nodes[node]

    def _node(self, node: int) -> dict[str, Any]:
        nodes, axis = self.snapshot.nodes, self.snapshot.axis
        record = nodes.records[node]

        def amounts(row: Ints) -> dict[str, Any]:
            return _resource(axis.amounts(row), record.gpu_maker)

        there, idle = nodes.allocatable[node], self.idle[node]
        found = self.objects.node(record.name)
        tasks = [self.task(task) for task in self.on_node.get(node, ())]
        return {
            "Name": record.name,
            "Node": None if found is None else Text(encode(kinds.NODE, found)),
            "State": _READY,
            "Releasing": amounts(np.maximum(nodes.releasing[node], 0)),
            "Pipelined": amounts(np.maximum(-nodes.releasing[node], 0)),
            "Idle": amounts(idle),
            "Used": amounts(there - idle),
            "Allocatable": amounts(there),
            "Capacity": amounts(there),
            "Tasks": {f"{task['Namespace']}/{task['Name']}": task for task in tasks},
        }

    def job(self, job: int) -> dict[str, Any]:
        """JobInfo."""
        record = self.snapshot.jobs.records[job]
        terms = record.terms or _NO_GROUP
        rows = self.of_job.get(job, [])
        tasks = {self.snapshot.tasks.records[task].uid: self.task(task) for task in rows}
        by_status: dict[str, dict[str, Any]] = {}
        for uid, task in tasks.items():
            by_status.setdefault(str(task["Status"]), {})[uid] = task
        namespace, _, name = record.key.partition("/")
        return {
            "UID": record.key,
            "PgUID": record.uid,
            "Name": name,
            "Namespace": namespace,
            "Queue": record.queue,
            "Priority": record.priority,
            "MinAvailable": terms.minimum,
            "TaskMinAvailable": dict(terms.role_minimum),
            "TaskMinAvailableTotal": sum(terms.role_minimum.values()),
            "Tasks": tasks,
            "TaskStatusIndex": by_status,
            "Allocated": self._sum(task for task in rows if self.node_of[task] >= 0),
            "TotalRequest": self._sum(rows),
            "CreationTimestamp": _GO_TIME,
            "ScheduleStartTimestamp": _GO_TIME,
            "PodGroup": _pod_group(record, terms, namespace, name),
            "Preemptable": record.is_preemptible,
        }

    def queue(self, queue: int) -> dict[str, Any]:
        """QueueInfo, and what the queue holds."""
        name = self.snapshot.queues.names[queue]
        terms = self.snapshot.queues.records[queue].terms
        weight = 1 if terms is None else terms.weight
        reclaimable = terms is None or terms.is_reclaimable
        held = self.snapshot.queues.allocated[queue]
        axis = dict(zip(("cpu", "memory", "gpu"), held.tolist(), strict=True))
        shown = {
            "metadata": {"name": name},
            "spec": {"weight": weight, "reclaimable": reclaimable},
            "status": {"allocated": {resource_name("", n): str(a) for n, a in axis.items() if a}},
        }
        return {"UID": name, "Name": name, "Weight": weight, "Queue": shown}

    def session(self) -> dict[str, Any]:
        """What an extender is shown when it is about to be asked."""
        jobs, nodes = self.snapshot.jobs, self.snapshot.nodes
        live = np.flatnonzero(jobs.live & (jobs.queue >= 0)).tolist()
        names = self.snapshot.queues.names
        return {
            "Jobs": {jobs.keys[job]: self.job(job) for job in live},
            "Nodes": {name: self.node(row) for row, name in enumerate(nodes.names)},
            "Queues": {name: self.queue(row) for row, name in enumerate(names)},
            "NamespaceInfo": {},
            "RevocableNodes": {},
            "NodeList": list(nodes.names),
        }

    def _pod(self, record: TaskRecord, whole: bool) -> Any:
        pod = self.objects.pod(record.uid)
        if pod is None:
            return {"metadata": {"name": record.name, "namespace": record.namespace}}
        if whole:
            return Text(encode(kinds.POD, pod))
        meta = pod.metadata
        return {
            "metadata": {
                "name": meta.name,
                "namespace": meta.namespace,
                "uid": meta.uid,
                "labels": meta.labels,
                "annotations": meta.annotations,
            }
        }

    def _sum(self, rows: Iterable[int]) -> dict[str, Any]:
        tasks: Rows = np.fromiter(rows, dtype=np.int64)
        total = self.snapshot.demand.request[self.snapshot.tasks.shape[tasks]].sum(axis=0)
        return _resource(self.snapshot.axis.amounts(total), "")


def _resource(amounts: Mapping[str, int], gpu_maker: str) -> dict[str, Any]:
    scalars = {
        resource_name(gpu_maker, name): float(amount if name in _IN_UNITS else amount * 1000)
        for name, amount in amounts.items()
        if name not in ("cpu", "memory")
    }
    return {
        "MilliCPU": float(amounts.get("cpu", 0)),
        "Memory": float(amounts.get("memory", 0)),
        "ScalarResources": scalars,
    }


def _pod_group(record: JobRecord, terms: GroupTerms, namespace: str, name: str) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": record.uid,
            "annotations": dict(terms.notes),
        },
        "spec": {"minMember": terms.minimum, "queue": record.queue},
        "status": {"phase": terms.phase},
    }
