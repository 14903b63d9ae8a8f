"""Clusters for the benchmarks of the searching actions, as records.

Victims are one-GPU jobs that fill the nodes; the actor is a gang, or many small jobs. A perturbed
load has one fractional victim, one tainted node and a third queue that runs a little.
"""

import msgspec

from muster.model.constraint_terms import AffinityTerm, PodAffinity, Taint
from muster.model.constraints import Constraints
from muster.model.records import (
    ClusterRecords,
    GpuKind,
    GpuRequest,
    JobRecord,
    NodeRecord,
    QueueRecord,
    SubGroupRecord,
    TaskRecord,
    TopologyConstraint,
    TopologyRecord,
    gang,
    queue_amounts,
)
from muster.model.selectors import LabelSelector, Operator, Requirement
from muster.model.status import TaskStatus
from muster.numerics.axis import GPU_UNIT

_GIB = 1 << 30
RACK = "rack"


def cluster(
    nodes: int,
    running_per_node: int = 8,
    pending: tuple[tuple[int, int, int], ...] = (),
    victim_quota: float = 0.0,
    actor_quota: float = -1.0,
    weight: float = 1.0,
    is_perturbed: bool = False,
    racks: int = 0,
    anti_affinity: bool = False,
    topology: bool = False,
) -> ClusterRecords:
    """`pending` is (how many jobs, pods of each, GPUs of each pod)."""
    queues = [
        _queue("victims", victim_quota, weight),
        _queue("actors", actor_quota, weight),
    ]
    jobs: list[JobRecord] = []
    tasks: list[TaskRecord] = []
    for node in range(nodes):
        for slot in range(running_per_node):
            name = f"run-{node:05}-{slot}"
            is_fraction = is_perturbed and node == 1 and slot == 0
            jobs.append(_job(name, "victims", 1, created_s=float(node * 8 + slot)))
            tasks.append(_task(name, 0, 1, node=node, is_fraction=is_fraction))
    if is_perturbed:
        queues.append(_queue("others", 4.0, weight))
        jobs[8] = _moved_to(jobs[8], "others")
    labels = (("app", "actor"),) if anti_affinity else ()
    constraints = _apart(labels) if anti_affinity else Constraints()
    for kind, (count, pods, gpus) in enumerate(pending):
        for index in range(count):
            name = f"pend-{kind}-{index:06}"
            constraint = TopologyConstraint("t", required=RACK) if topology else None
            jobs.append(_job(name, "actors", pods, created_s=1e6 + index, topology=constraint))
            tasks.extend(_task(name, at, gpus, constraints=constraints) for at in range(pods))
    return ClusterRecords(
        nodes=tuple(_node(index, racks, is_perturbed) for index in range(nodes)),
        queues=tuple(queues),
        jobs=tuple(jobs),
        tasks=tuple(tasks),
        topologies=(TopologyRecord("t", (RACK,)),) if racks else (),
    )


def _queue(name: str, quota_gpus: float, weight: float) -> QueueRecord:
    quota = quota_gpus if quota_gpus < 0 else quota_gpus * GPU_UNIT
    return QueueRecord(
        name,
        uid=name,
        quota=queue_amounts(-1, gpu=quota),
        weight=queue_amounts(1.0, gpu=weight),
    )


def _node(index: int, racks: int, is_perturbed: bool) -> NodeRecord:
    labels = {RACK: f"r{index % racks:03}"} if racks else {}
    taints = (Taint("odd"),) if is_perturbed and index == 0 else ()
    room = {"cpu": 128_000, "memory": 1024 * _GIB, "pods": 110, "gpu": 8 * GPU_UNIT}
    return NodeRecord(f"node-{index:05}", room, labels=labels, gpu_memory_mib=80_000, taints=taints)


def _job(
    name: str,
    queue: str,
    minimum: int,
    created_s: float,
    topology: TopologyConstraint | None = None,
) -> JobRecord:
    groups = gang(minimum)
    if topology is not None:
        groups = SubGroupRecord("", None, groups.children, topology)
    return JobRecord(f"load/{name}", queue, uid=name, sub_groups=groups, created_s=created_s)


def _moved_to(job: JobRecord, queue: str) -> JobRecord:
    return JobRecord(
        job.key, queue, uid=job.uid, sub_groups=job.sub_groups, created_s=job.created_s
    )


def _task(
    job: str,
    index: int,
    gpus: int,
    node: int | None = None,
    is_fraction: bool = False,
    constraints: Constraints = Constraints(),  # noqa: B008 - a frozen value
) -> TaskRecord:
    name = f"{job}-{index:05}"
    request = {"cpu": 1000, "memory": 4 * _GIB, "pods": 1}
    gpu = GpuRequest(GpuKind.FRACTION, 1, portion=500)
    if not is_fraction:
        request["gpu"] = gpus * GPU_UNIT
        gpu = GpuRequest(GpuKind.WHOLE, gpus)
    return TaskRecord(
        name,
        name,
        f"load/{job}",
        namespace="load",
        request=request,
        gpu=gpu,
        status=TaskStatus.PENDING if node is None else TaskStatus.RUNNING,
        node="" if node is None else f"node-{node:05}",
        gpu_shares=(name,) if is_fraction else (),
        constraints=constraints,
    )


def _apart(labels: tuple[tuple[str, str], ...]) -> Constraints:
    selector = LabelSelector(
        tuple(Requirement(key, Operator.IN, (value,)) for key, value in labels)
    )
    term = AffinityTerm(RACK, selector, namespaces=("load",))
    return Constraints(
        pod_affinity=PodAffinity(anti_required=(term,)), namespace="load", labels=labels
    )


def shared(nodes: int, is_perturbed: bool = False) -> ClusterRecords:
    """Every GPU has a tenant of 0.6; a pod of 0.7 waits. Much is free, and no GPU has it."""
    jobs = [_job("pend", "actors", 1, created_s=1e6)]
    tasks = [_sharing("pend", 700, None)]
    for node in range(nodes):
        for slot in range(8):
            name = f"run-{node:05}-{slot}"
            is_whole = is_perturbed and node == 1 and slot == 0
            jobs.append(_job(name, "victims", 1, created_s=float(node * 8 + slot)))
            tasks.append(_task(name, 0, 1, node) if is_whole else _sharing(name, 600, node))
    return ClusterRecords(
        nodes=tuple(_node(index, 0, is_perturbed) for index in range(nodes)),
        queues=(_queue("victims", -1.0, 1.0), _queue("actors", -1.0, 1.0)),
        jobs=tuple(jobs),
        tasks=tuple(tasks),
    )


def _sharing(job: str, portion: int, node: int | None) -> TaskRecord:
    """A task with a part of a GPU; one that runs has it to itself."""
    task = _task(job, 0, 1, node, is_fraction=True)
    gpu = GpuRequest(GpuKind.FRACTION, 1, portion=portion)
    return msgspec.structs.replace(
        task, gpu=gpu, gpu_shares=task.gpu_shares if node is not None else ()
    )


def mixed(nodes: int, pending: int, queues: int, is_perturbed: bool = False) -> ClusterRecords:
    """Full nodes, many queues, pending pods of several shapes, some gangs, some elastic jobs."""
    tops = [_queue(f"top-{index:02}", -1.0, 1.0) for index in range(max(1, queues // 10))]
    leaves = [
        QueueRecord(
            f"queue-{index:03}",
            uid=f"queue-{index:03}",
            parent=tops[index % len(tops)].name,
            quota=queue_amounts(-1, gpu=(index * 7 % 13) * 16.0 * GPU_UNIT),
        )
        for index in range(queues)
    ]
    jobs: list[JobRecord] = []
    tasks: list[TaskRecord] = []
    for node in range(nodes):
        for slot in range(8):
            number = node * 8 + slot
            name = f"run-{number:06}"
            queue = leaves[(number * 31 // 7) % queues].name
            jobs.append(_ranked(name, queue, 1, float(number), 50 + 10 * (number % 3)))
            is_fraction = is_perturbed and node == 1 and slot == 0
            tasks.append(_task(name, 0, 1, node=node, is_fraction=is_fraction))
    if is_perturbed:
        leaves.append(_queue("others", 4.0, 1.0))
        jobs[8] = _moved_to(jobs[8], "others")
    for index in range(pending):
        name = f"pend-{index:06}"
        gpus = (1, 1, 2, 4, 8)[index % 5]
        pods = (1, 1, 1, 4)[index % 4]
        queue = leaves[(index * 17) % queues].name
        jobs.append(_ranked(name, queue, pods, 1e6 + index, 50 + 25 * (index % 2)))
        tasks.extend(_task(name, at, gpus) for at in range(pods))
    return ClusterRecords(
        nodes=tuple(_node(index, 0, is_perturbed) for index in range(nodes)),
        queues=(*tops, *leaves),
        jobs=tuple(jobs),
        tasks=tuple(tasks),
    )


def _ranked(name: str, queue: str, minimum: int, created_s: float, priority: int) -> JobRecord:
    return JobRecord(
        f"load/{name}",
        queue,
        uid=name,
        sub_groups=gang(minimum),
        created_s=created_s,
        priority=priority,
    )
