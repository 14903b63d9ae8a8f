"""Clusters for the engine's benchmarks, as records.

Each load has a perturbed twin: a few odd nodes, a taint, a third shape, a fractional pod; what is
fast only for the regular case shows there.
"""

from dataclasses import dataclass

from muster.model.constraint_terms import Taint
from muster.model.records import (
    ClusterRecords,
    GpuKind,
    GpuRequest,
    JobRecord,
    NodeRecord,
    QueueRecord,
    TaskRecord,
    gang,
    queue_amounts,
)
from muster.model.status import TaskStatus
from muster.numerics.axis import GPU_UNIT

_GIB = 1 << 30


@dataclass(frozen=True)
class Load:
    """What a load consists of; `is_perturbed` adds what is odd."""

    nodes: int
    jobs: int = 0
    queues: int = 1
    gang: int = 1
    gpus: int = 1
    portion: int = 0
    """Thousandths of one GPU that each task wants instead of whole ones."""
    is_full: bool = False
    is_many_shapes: bool = False
    is_perturbed: bool = False


def records(load: Load) -> ClusterRecords:
    """The cluster of a load."""
    queues = _queues(load.queues)
    leaves = [queue.name for queue in queues if queue.parent or load.queues == 1]
    jobs = [_job(load, index, leaves[index % len(leaves)]) for index in range(load.jobs)]
    pending = [task for index in range(load.jobs) for task in _tasks(load, index)]
    running = [_filler(node) for node in range(load.nodes)] if load.is_full else []
    if running:
        jobs.append(JobRecord("load/filler", leaves[0], uid="filler", sub_groups=gang(0)))
    return ClusterRecords(
        nodes=tuple(_node(load, index) for index in range(load.nodes)),
        queues=tuple(queues),
        jobs=tuple(jobs),
        tasks=(*pending, *running),
    )


def _queues(count: int) -> list[QueueRecord]:
    """One queue, or departments of ten queues each."""
    if count == 1:
        return [QueueRecord("queue", uid="queue", quota=queue_amounts(-1))]
    tops = [QueueRecord(f"top-{index:03}", uid=f"top-{index:03}") for index in range(count // 10)]
    leaves = [
        QueueRecord(
            f"queue-{index:04}",
            uid=f"queue-{index:04}",
            parent=f"top-{index % len(tops):03}",
            quota=queue_amounts(-1, gpu=(index % 7) * 4 * GPU_UNIT),
        )
        for index in range(count)
    ]
    return tops + leaves


def _node(load: Load, index: int) -> NodeRecord:
    is_odd = load.is_perturbed and index % 97 == 3
    gpus = 4 if is_odd else 8
    taints = (Taint("odd"),) if load.is_perturbed and index % 101 == 5 else ()
    room = {"cpu": 128_000, "memory": 1024 * _GIB, "pods": 110, "gpu": gpus * GPU_UNIT}
    return NodeRecord(f"node-{index:05}", room, gpu_memory_mib=81_500, taints=taints)


def _job(load: Load, index: int, queue: str) -> JobRecord:
    name = f"job-{index:06}"
    created_s = float(index // 100)
    return JobRecord(
        f"load/{name}", queue, uid=name, sub_groups=gang(load.gang), created_s=created_s
    )


def _tasks(load: Load, index: int) -> list[TaskRecord]:
    gpu, request = _request(load, index)
    return [
        TaskRecord(f"{index:06}-{at:05}", f"{index:06}-{at:05}", f"load/job-{index:06}",
                   namespace="load", request=request, gpu=gpu)
        for at in range(load.gang)
    ]  # fmt: skip


def _request(load: Load, index: int) -> tuple[GpuRequest, dict[str, int]]:
    cpu = 1000 + index if load.is_many_shapes else 1000
    request = {"cpu": cpu, "memory": 4 * _GIB, "pods": 1}
    if load.portion:
        return GpuRequest(GpuKind.FRACTION, devices=1, portion=load.portion), request
    if load.is_perturbed and index == load.jobs // 2 and load.gang == 1:
        return GpuRequest(GpuKind.FRACTION, devices=1, portion=500), request
    gpus = 2 if load.is_perturbed and index % 50 == 7 and load.gang == 1 else load.gpus
    return GpuRequest(GpuKind.WHOLE, devices=gpus), {**request, "gpu": gpus * GPU_UNIT}


def _filler(node: int) -> TaskRecord:
    name = f"filler-{node:05}"
    return TaskRecord(
        name,
        name,
        "load/filler",
        status=TaskStatus.RUNNING,
        node=f"node-{node:05}",
        gpu=GpuRequest(GpuKind.WHOLE, devices=8),
        request={"cpu": 8000, "memory": 32 * _GIB, "pods": 1, "gpu": 8 * GPU_UNIT},
    )
