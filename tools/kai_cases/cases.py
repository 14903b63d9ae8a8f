"""A case of KAI's table tests as a cluster: the units, defaults and conventions of its fakes.

What surprises: CPU of tasks and nodes is in cores, of queues in millicores; memory of queues in
megabytes of a million bytes. A task without figures asks for one core and 1 GB, and a node without
figures has 20 GB: twenty tasks fill it. All pods are of the same age, so tasks are ordered by id.
"""

from collections.abc import Iterable

import msgspec
from tools.kai_cases import format as kai
from tools.kai_cases.devices import surroundings_of

from muster.api.names import LABEL_TASK_PRIORITY
from muster.api.podgroup import is_preemptible
from muster.model.constraint_terms import ClaimReference
from muster.model.constraints import UNCONSTRAINED, Constraints
from muster.model.gpu_request import mig_slices, shared_gpus
from muster.model.records import (
    DEFAULT_SUB_GROUP,
    ClusterRecords,
    GpuKind,
    GpuRequest,
    JobRecord,
    NodeRecord,
    QueueRecord,
    SubGroupRecord,
    TaskRecord,
    TopologyConstraint,
)
from muster.model.selectors import (
    LabelSelector,
    NodeSelector,
    NodeTerm,
    Operator,
    equalities,
    requirement,
)
from muster.model.status import ALLOCATED, TaskStatus
from muster.numerics.axis import GPU_UNIT
from muster.testing.scenario_pods import pod_affinity

NOW_S = 1_700_000_000.0
"""When a case happens; any moment does."""


_NODE_NAME_LABEL = "kai.scheduler/type"
_DEFAULT_DEPARTMENT = kai.Queue(
    name="default", deserved_gpus=-1, gpu_over_quota_weight=-1, max_allowed_gpus=-1
)
_STATUSES = {
    "".join(word.capitalize() for word in status.name.split("_")): status for status in TaskStatus
}


def status_of(state: str) -> TaskStatus:
    """The status that KAI writes so."""
    return _STATUSES[state]


def state_of(status: TaskStatus) -> str:
    """How KAI writes a status."""
    return "".join(word.capitalize() for word in status.name.split("_"))


def task_id(job: kai.Job, index: int) -> str:
    """The id of a task, which is also its name."""
    return f"{job.name}-{index}"


def records_of(case: kai.Case) -> ClusterRecords:
    """The cluster that a case describes."""
    ages = _ages_s(case.jobs)
    return ClusterRecords(
        nodes=tuple(_node(name, node, case.dra) for name, node in case.nodes.items()),
        tasks=tuple(
            _task(job, index, case.dra) for job in case.jobs for index in range(len(job.tasks))
        ),
        jobs=tuple(_job(job, ages[job.name]) for job in case.jobs),
        queues=_queues(case),
        topologies=case.topologies,
        cluster_objects=surroundings_of(case.dra),
    )


def _ages_s(jobs: tuple[kai.Job, ...]) -> dict[str, float]:
    """Jobs of higher priority, and at equal priority those written first, are older."""
    by_priority = sorted(jobs, key=lambda job: -job.priority)
    minutes = {job.name: len(jobs) - rank for rank, job in enumerate(by_priority)}
    return {job.name: 60.0 * (job.job_age_in_minutes or minutes[job.name]) for job in jobs}


def _node(name: str, node: kai.Node, devices: kai.DeviceObjects) -> NodeRecord:
    claimable = sum(each.count for each in devices.resource_slices if each.node_name == name)
    plain_gpus = 0 if node.mig_strategy == "mixed" else node.gpus
    return NodeRecord(
        name=name,
        allocatable={
            "cpu": round(node.cpu_millis * 1000),
            "memory": round(node.cpu_memory),
            "pods": 110,
            "gpu": (plain_gpus + claimable) * GPU_UNIT,
            **node.mig_instances,
        },
        labels={
            _NODE_NAME_LABEL: name,
            "nvidia.com/gpu.count": str(node.gpus),
            "nvidia.com/gpu.memory": str(node.gpu_memory),
            "nvidia.com/mig.strategy": node.mig_strategy,
            "node-role.kubernetes.io/mig-enabled": "true" if node.mig_strategy else "false",
            **node.labels,
        },
        gpu_memory_mib=node.gpu_memory,
        mig_strategy=node.mig_strategy,
        is_mig=bool(node.mig_strategy),
        dra_gpus=claimable,
    )


def _task(job: kai.Job, index: int, devices: kai.DeviceObjects) -> TaskRecord:
    task = job.tasks[index]
    name = task_id(job, index)
    gpu = _gpu_request(job, task, devices)
    status = status_of(task.state)
    placed = status not in (TaskStatus.PENDING, TaskStatus.GATED)
    groups = task.gpu_groups
    if gpu.kind is GpuKind.FRACTION and task.node_name and not groups:
        groups = tuple(f"{name}/{device}" for device in range(gpu.devices))
    return TaskRecord(
        uid=name,
        name=name,
        job=job_key(job),
        namespace=job.namespace,
        sub_group=task.sub_group_name or DEFAULT_SUB_GROUP,
        status=status,
        node=task.node_name if placed else "",
        request=_request(job, task, gpu),
        gpu=gpu,
        constraints=_constraints(job, task),
        labels={} if task.priority is None else {LABEL_TASK_PRIORITY: str(task.priority)},
        gpu_shares=groups if placed else (),
    )


def job_key(job: kai.Job) -> str:
    """Namespace and name, as the model wants them."""
    return f"{job.namespace}/{job.name}"


def _gpu_request(job: kai.Job, task: kai.Task, devices: kai.DeviceObjects) -> GpuRequest:
    if task.is_legacy_mig_task:
        return GpuRequest(kind=GpuKind.LEGACY_MIG)
    if task.required_mig_instances:
        slices = sum(mig_slices(n) * c for n, c in task.required_mig_instances.items())
        return GpuRequest(kind=GpuKind.MIG, mig_slices=slices)
    claimed = _claimed_gpus(job, task, devices)
    if claimed:
        return GpuRequest(kind=GpuKind.CLAIM, devices=len(claimed), claimed=claimed)
    shared = job.required_multi_fraction_devices_per_task
    if job.required_gpu_memory:
        return GpuRequest(kind=GpuKind.MEMORY, devices=shared, memory_mib=job.required_gpu_memory)
    gpus = job.required_gpus_per_task if task.required_gpus is None else task.required_gpus
    if gpus != int(gpus):
        return GpuRequest(kind=GpuKind.FRACTION, devices=shared, portion=round(gpus * GPU_UNIT))
    return GpuRequest(kind=GpuKind.WHOLE, devices=int(gpus)) if gpus else GpuRequest()


def _request(job: kai.Job, task: kai.Task, gpu: GpuRequest) -> dict[str, int]:
    request = {"pods": 1, **task.required_mig_instances}
    if gpu.kind is GpuKind.WHOLE:
        request["gpu"] = gpu.devices * GPU_UNIT
    if not job.is_best_effort_job:
        cores = job.required_cpus_per_task
        memory = job.required_memory_per_task
        request["cpu"] = round((1.0 if cores is None else cores) * 1000)
        request["memory"] = 10**9 if memory is None else memory
    return request


def _claimed_gpus(job: kai.Job, task: kai.Task, devices: kai.DeviceObjects) -> tuple[str, ...]:
    """GPUs of the claims that the task names; others may name the same."""
    claims = surroundings_of(devices).device_claims
    found = [claims.get(f"{job.namespace}/{name}") for name in task.resource_claim_names]
    return tuple(gpu for claim in found if claim is not None for gpu in shared_gpus(claim))


def _constraints(job: kai.Job, task: kai.Task) -> Constraints:
    node_affinity = None
    if task.node_affinity_names:
        by_name = requirement(_NODE_NAME_LABEL, Operator.IN, *task.node_affinity_names)
        node_affinity = NodeSelector((NodeTerm(labels=(by_name,)),))
    constraints = Constraints(
        node_affinity=node_affinity,
        pod_affinity=pod_affinity(
            LabelSelector(equalities(task.pod_affinity_labels)),
            job.namespace,
            near=task.pod_affinity_topology_key,
            apart=task.pod_anti_affinity_topology_key,
        ),
        volume_claims=tuple(sorted(task.persistent_volume_claim_names)),
        claims=tuple(ClaimReference(name, name) for name in task.resource_claim_names),
        namespace=job.namespace if task.resource_claim_names else "",
        labels=tuple(sorted(task.pod_affinity_labels.items())),
    )
    return constraints if constraints != UNCONSTRAINED else UNCONSTRAINED


def _job(job: kai.Job, age_s: float) -> JobRecord:
    grace = job.per_job_staleness_grace_period
    is_running = any(status_of(task.state) in ALLOCATED for task in job.tasks)
    stale_s = job.stale_duration_seconds
    return JobRecord(
        key=job_key(job),
        uid=job.name,
        queue=job.queue_name,
        sub_groups=_groups(job),
        priority=job.priority,
        is_preemptible=is_preemptible(job.preemptibility, job.priority),
        created_s=NOW_S - age_s,
        last_start_s=NOW_S - 60 if is_running else None,
        stale_since_s=None if stale_s is None else NOW_S - stale_s,
        staleness_grace_s=None if grace is None else grace.duration_seconds,
        preemption_delay_s=job.preemption_delay.duration_seconds if job.preemption_delay else 0.0,
    )


def _groups(job: kai.Job) -> SubGroupRecord:
    tree = job.root_sub_group_set or kai.SubGroupSet()
    needs_default = any(not task.sub_group_name for task in job.tasks)
    if needs_default and DEFAULT_SUB_GROUP not in _leaf_names(tree):
        everybody = kai.PodSet(name=DEFAULT_SUB_GROUP, min_available=len(job.tasks))
        tree = msgspec.structs.replace(tree, pod_sets=(*tree.pod_sets, everybody))
    return _group(tree)


def _leaf_names(tree: kai.SubGroupSet) -> set[str]:
    below = (_leaf_names(child) for child in tree.sub_groups)
    return {leaf.name for leaf in tree.pod_sets}.union(*below)


def _group(tree: kai.SubGroupSet) -> SubGroupRecord:
    leaves = tuple(
        SubGroupRecord(leaf.name, leaf.min_available, (), _topology(leaf.topology_constraint))
        for leaf in tree.pod_sets
    )
    inner = tuple(_group(child) for child in tree.sub_groups)
    return SubGroupRecord(
        tree.name, tree.min_sub_group, leaves + inner, _topology(tree.topology_constraint)
    )


def _topology(constraint: kai.TopologyConstraint | None) -> TopologyConstraint | None:
    if constraint is None or not constraint.topology:
        return None
    return TopologyConstraint(
        constraint.topology, constraint.required_level, constraint.preferred_level
    )


def _queues(case: kai.Case) -> tuple[QueueRecord, ...]:
    if case.disable_default_department:
        return _aged(case.queues)
    if case.departments:
        departments = [
            msgspec.structs.replace(each, gpu_over_quota_weight=each.deserved_gpus)
            for each in case.departments
        ]
        return _aged([*departments, *case.queues])
    below = [msgspec.structs.replace(q, parent_queue="default") for q in case.queues]
    return _aged([_DEFAULT_DEPARTMENT, *below])


def _aged(queues: Iterable[kai.Queue]) -> tuple[QueueRecord, ...]:
    return tuple(_queue(queue, age) for age, queue in enumerate(queues))


def _queue(queue: kai.Queue, age: int) -> QueueRecord:
    minimum = queue.reclaim_min_runtime
    return QueueRecord(
        name=queue.name,
        uid=queue.name,
        parent=queue.parent_queue,
        quota={
            "cpu": queue.deserved_cpus,
            "memory": _bounded(queue.deserved_memory, 1_000_000),
            "gpu": _bounded(queue.deserved_gpus, GPU_UNIT),
        },
        limit={
            "cpu": queue.max_allowed_cpus,
            "memory": _bounded(queue.max_allowed_memory, 1_000_000),
            "gpu": _bounded(queue.max_allowed_gpus or -1, GPU_UNIT),
        },
        weight={"gpu": queue.gpu_over_quota_weight},
        priority=queue.priority,
        created_s=60.0 * age,
        reclaim_min_runtime_s=None if minimum is None else minimum.duration_seconds,
    )


def _bounded(amount: float, unit: int) -> float:
    return amount if amount < 0 else amount * unit
