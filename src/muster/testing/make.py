"""Builders: a node, a queue, a gang in one line each, with sensible defaults.

    world = make.cluster(
        make.node("n1", gpu=8),
        make.queue("a", quota_gpu=4),
        make.gang("train", 4, gpu=2, queue="a"),
    )

Amounts are what people say: GPUs, cores, GiB. A GPU below one is a fraction of a shared GPU.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from muster.model.constraints import UNCONSTRAINED, Constraints
from muster.model.records import (
    DEFAULT_SUB_GROUP,
    UNLIMITED,
    ClusterRecords,
    GpuKind,
    GpuRequest,
    JobRecord,
    NodeRecord,
    QueueRecord,
    TaskRecord,
    TopologyRecord,
    queue_amounts,
)
from muster.model.records import (
    gang as gang_tree,
)
from muster.model.status import TaskStatus
from muster.numerics.axis import GPU_UNIT

NOW_S = 1_700_000_000.0
"""The moment at which built clusters live."""

GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Workload:
    """A job and its tasks."""

    job: JobRecord
    tasks: tuple[TaskRecord, ...]


@dataclass(frozen=True, slots=True)
class Need:
    """What one task asks for. `gpu` below 1 is a fraction, of each of `devices` GPUs."""

    gpu: float = 0.0
    gpu_memory_mib: int = 0
    devices: int = 1
    cpu: float = 0.0
    memory_gib: float = 0.0
    other: Mapping[str, int] = field(default_factory=dict)

    @property
    def gpu_request(self) -> GpuRequest:
        """The GPU part."""
        if self.gpu_memory_mib:
            return GpuRequest(GpuKind.MEMORY, self.devices, memory_mib=self.gpu_memory_mib)
        if 0 < self.gpu < 1:
            return GpuRequest(GpuKind.FRACTION, self.devices, portion=round(self.gpu * GPU_UNIT))
        if self.gpu:
            return GpuRequest(GpuKind.WHOLE, int(self.gpu))
        return GpuRequest()

    @property
    def amounts(self) -> dict[str, int]:
        """The request by resource."""
        amounts = {
            "pods": 1,
            "cpu": round(self.cpu * 1000),
            "memory": round(self.memory_gib * GIB),
            **self.other,
        }
        if self.gpu_request.kind is GpuKind.WHOLE:
            amounts["gpu"] = int(self.gpu) * GPU_UNIT
        return {name: amount for name, amount in amounts.items() if amount}


def node(
    name: str,
    *,
    gpu: int = 0,
    cpu: float = 256,
    memory_gib: float = 2048,
    pods: int = 110,
    gpu_memory_mib: int = 80_000,
    **more: object,
) -> NodeRecord:
    """A ready node; `more` are fields of NodeRecord."""
    record = NodeRecord(
        name=name,
        allocatable={
            "cpu": round(cpu * 1000),
            "memory": round(memory_gib * GIB),
            "pods": pods,
            "gpu": gpu * GPU_UNIT,
        },
        gpu_memory_mib=gpu_memory_mib if gpu else 0,
    )
    return with_fields(record, **more)


def queue(
    name: str,
    *,
    parent: str = "",
    quota_gpu: float = 0,
    limit_gpu: float = UNLIMITED,
    weight: float = 1,
    **more: object,
) -> QueueRecord:
    """A queue bounded in GPUs alone; CPU and memory quotas are unlimited."""
    record = QueueRecord(
        name=name,
        uid=name,
        parent=parent,
        quota=queue_amounts(UNLIMITED, gpu=gpus(quota_gpu)),
        limit=queue_amounts(UNLIMITED, gpu=gpus(limit_gpu)),
        weight=queue_amounts(weight),
    )
    return with_fields(record, **more)


def gpus(count: float) -> float:
    """GPUs of a queue in axis units; UNLIMITED stays what it is."""
    return count if count == UNLIMITED else count * GPU_UNIT


def gang(
    name: str,
    size: int,
    *,
    queue: str,
    gpu: float = 0.0,
    cpu: float = 0.0,
    minimum: int | None = None,
    nodes: tuple[str, ...] = (),
    **more: object,
) -> Workload:
    """A job of equal tasks. Those for which a node is given run there; the others are pending.

    `more` are fields of JobRecord. Without a minimum all tasks start together.
    """
    job = JobRecord(
        key=f"default/{name}",
        uid=name,
        queue=queue,
        sub_groups=gang_tree(size if minimum is None else minimum),
        created_s=NOW_S - 3600,
        last_start_s=NOW_S - 3600 if nodes else None,
    )
    job = with_fields(job, **more)
    need = Need(gpu=gpu, cpu=cpu)
    return Workload(
        job,
        tuple(
            task(job, index, need, node=nodes[index] if index < len(nodes) else "")
            for index in range(size)
        ),
    )


def task(
    job: JobRecord,
    index: int,
    need: Need,
    *,
    node: str = "",
    sub_group: str = DEFAULT_SUB_GROUP,
    constraints: Constraints = UNCONSTRAINED,
    status: TaskStatus | None = None,
    gpu_shares: tuple[str, ...] = (),
    labels: Mapping[str, str] | None = None,
) -> TaskRecord:
    """One task of a job: running where a node is given, pending where none is."""
    namespace, _, job_name = job.key.partition("/")
    name = f"{job_name}-{index}"
    gpu = need.gpu_request
    if status is None:
        status = TaskStatus.RUNNING if node else TaskStatus.PENDING
    if gpu.is_shared and node and not gpu_shares:
        gpu_shares = tuple(f"{name}.{device}" for device in range(gpu.devices))
    return TaskRecord(
        uid=name,
        name=name,
        job=job.key,
        namespace=namespace,
        sub_group=sub_group,
        status=status,
        node=node,
        request=need.amounts,
        gpu=gpu,
        constraints=constraints,
        labels=labels or {},
        gpu_shares=gpu_shares,
    )


_Record = TypeVar("_Record", bound=msgspec.Struct)


def with_fields(record: _Record, **fields: object) -> _Record:
    """The record with other values in some fields."""
    return msgspec.structs.replace(record, **fields) if fields else record


Part = NodeRecord | QueueRecord | Workload | TopologyRecord


def cluster(*parts: Part) -> ClusterRecords:
    """All parts as one cluster, in any order."""
    work = [part for part in parts if isinstance(part, Workload)]
    return ClusterRecords(
        nodes=tuple(part for part in parts if isinstance(part, NodeRecord)),
        queues=tuple(part for part in parts if isinstance(part, QueueRecord)),
        topologies=tuple(part for part in parts if isinstance(part, TopologyRecord)),
        jobs=tuple(each.job for each in work),
        tasks=tuple(task for each in work for task in each.tasks),
    )
