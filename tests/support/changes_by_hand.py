"""Changes as somebody would make them who only read the answer: what, of which subject, to which
value. Nothing here is shared with how `muster.foresight` looks for changes.

A cluster is changed by writing its records anew, whole: slow, and plain to read.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace as replaced

from msgspec.structs import replace

from muster.api.names import LABEL_HOSTNAME
from muster.foresight.smallest import Change
from muster.model.constraint_terms import Toleration
from muster.model.constraints import Constraints
from muster.model.records import (
    ClusterRecords,
    GpuKind,
    JobRecord,
    SubGroupRecord,
    TaskRecord,
)
from muster.model.status import ACTIVE_USED, TaskStatus
from muster.numerics.axis import GPU_UNIT

STEPS: Mapping[str, int] = {"gpu": GPU_UNIT, "cpu": 1000, "memory": 2**30}
"""The smallest amount by which people change a request or a bound; 1 of everything else."""
SHARE_STEPS: Mapping[str, int] = {"gpu fraction": GPU_UNIT // 20, "gpu memory": 1024}


def done(world: ClusterRecords, job: str, what: str, subject: str, after: object) -> ClusterRecords:
    """The cluster once somebody has done what is said, to the value that is said. Of two changes
    the first one goes all the way, and its value stands in the subject.
    """
    first, _, second = what.rpartition("+")
    if first:
        told, _, subject = subject.partition("; ")
        world = _first_done(world, job, first, told)
    return _BY_HAND[second](world, job, subject, after)


def _first_done(world: ClusterRecords, job: str, what: str, told: str) -> ClusterRecords:
    is_word_first = what == "constraint"
    head, _, value = told.partition(" ") if is_word_first else told.rpartition(" ")
    after: object = value
    if what in ("members", "request", "share"):
        after = int(value)
    elif what == "preemptible":
        after = value == "True"
    return _BY_HAND[what](world, job, "" if head == what else head, after)


def smaller_steps(world: ClusterRecords, job: str, change: Change) -> Iterator[object]:
    """Every value of the same dimension between what is and what is named, the next one first."""
    before, after = change.before, change.after
    assert isinstance(after, int | float)
    assert isinstance(before, int | float)
    match change.what:
        case "members":
            yield from range(int(after) + 1, int(before))
        case "request":
            step = STEPS.get(change.subject, 1)
            yield from range(int(after) + step, int(before), step)
        case "share":
            step = SHARE_STEPS[change.subject]
            yield from range(int(after) + step, int(before), step)
        case "limit" | "quota":
            step = STEPS.get(change.subject.rpartition(" ")[2], 1)
            yield from (after - step * back for back in range(1, int((after - before) // step)))
        case "nodes":
            yield from range(int(after) - 1, 0, -1)
        case "priority":
            others = {one.priority for one in world.jobs if one.key != job}
            yield from sorted((p for p in others if before < p < after), reverse=True)


def _members(world: ClusterRecords, job: str, subject: str, after: object) -> ClusterRecords:
    """A smaller gang: those of its pods that wait and that it does not need are taken away."""
    assert isinstance(after, int)
    tree = _job(world, job).sub_groups
    name = subject or next(_leaves(tree)).name

    def smaller(group: SubGroupRecord) -> SubGroupRecord:
        below = tuple(map(smaller, group.children))
        is_meant = not below and group.name == name
        return replace(group, children=below, minimum=after if is_meant else group.minimum)

    own = [task for task in world.tasks if task.job == job and task.sub_group == name]
    held = sum(task.status in ACTIVE_USED for task in own)
    waiting = sorted(
        (task for task in own if task.status is TaskStatus.PENDING),
        key=lambda task: (task.created_s, task.uid),
    )
    extra = {task.uid for task in waiting[max(after - held, 0) :]}
    tasks = tuple(task for task in world.tasks if task.uid not in extra)
    return replace(_with_job(world, job, sub_groups=smaller(tree)), tasks=tasks)


def _request(world: ClusterRecords, job: str, subject: str, after: object) -> ClusterRecords:
    """Its pods that wait ask for no more than this."""
    assert isinstance(after, int)

    def smaller(task: TaskRecord) -> TaskRecord:
        if task.request.get(subject, 0) <= after:
            return task
        gpu = task.gpu
        if subject == "gpu" and gpu.kind in (GpuKind.WHOLE, GpuKind.CLAIM):
            gpu = replace(gpu, devices=after // GPU_UNIT)
        return replace(task, gpu=gpu, request={**task.request, subject: after})

    return _with_pods(world, job, smaller)


def _share(world: ClusterRecords, job: str, subject: str, after: object) -> ClusterRecords:
    assert isinstance(after, int)

    def smaller(task: TaskRecord) -> TaskRecord:
        gpu = task.gpu
        if subject == "gpu memory":
            return replace(task, gpu=replace(gpu, memory_mib=min(gpu.memory_mib, after)))
        return replace(task, gpu=replace(gpu, portion=min(gpu.portion, after)))

    return _with_pods(world, job, smaller)


def _topology(world: ClusterRecords, job: str, subject: str, after: object) -> ClusterRecords:
    level = str(after).removeprefix("preferred ")

    def relaxed(group: SubGroupRecord) -> SubGroupRecord:
        below = tuple(map(relaxed, group.children))
        asked = group.topology
        if group.name == subject and asked is not None:
            asked = None if after == "none" else replace(asked, required="", preferred=level)
        return replace(group, children=below, topology=asked)

    return _with_job(world, job, sub_groups=relaxed(_job(world, job).sub_groups))


def _constraint(world: ClusterRecords, job: str, subject: str, after: object) -> ClusterRecords:
    def freer(task: TaskRecord) -> TaskRecord:
        mine, nothing = task.constraints, Constraints()
        fields = {
            "nodeSelector": {"node_labels": nothing.node_labels},
            "nodeAffinity": {"node_affinity": nothing.node_affinity},
            "podAffinity": {"pod_affinity": nothing.pod_affinity},
            "topologySpreadConstraints": {"spread": nothing.spread},
            "hostPorts": {"host_ports": nothing.host_ports},
            "tolerations": {"tolerations": (*mine.tolerations, Toleration("", "Exists"))},
        }
        return replace(task, constraints=replaced(mine, **fields[subject]))  # type: ignore[arg-type]

    return _with_pods(world, job, freer)


def _bound(field: str) -> Callable[[ClusterRecords, str, str, object], ClusterRecords]:
    def granted(world: ClusterRecords, job: str, subject: str, after: object) -> ClusterRecords:
        name, _, resource = subject.rpartition(" ")
        queues = tuple(
            replace(queue, **{field: {**getattr(queue, field), resource: after}})
            if queue.name == name
            else queue
            for queue in world.queues
        )
        return replace(world, queues=queues)

    return granted


def _nodes(world: ClusterRecords, job: str, subject: str, after: object) -> ClusterRecords:
    assert isinstance(after, int)
    name = subject.removeprefix("like ")
    like = next(node for node in world.nodes if node.name == name)
    bought = tuple(
        replace(like, name=f"{name}+{at}", labels={**like.labels, LABEL_HOSTNAME: f"{name}+{at}"})
        for at in range(after)
    )
    return replace(world, nodes=(*world.nodes, *bought))


def _wait(world: ClusterRecords, job: str, subject: str, after: object) -> ClusterRecords:
    """These jobs are over, and their pods are not there any more."""
    over = set(subject.split(","))
    return replace(world, tasks=tuple(task for task in world.tasks if task.job not in over))


_BY_HAND: Mapping[str, Callable[[ClusterRecords, str, str, object], ClusterRecords]] = {
    "members": _members,
    "request": _request,
    "share": _share,
    "topology": _topology,
    "constraint": _constraint,
    "limit": _bound("limit"),
    "quota": _bound("quota"),
    "nodes": _nodes,
    "wait": _wait,
    "preemptible": lambda world, job, _, after: _with_job(world, job, is_preemptible=after),
    "queue": lambda world, job, _, after: _with_job(world, job, queue=after),
    "priority": lambda world, job, _, after: _with_job(world, job, priority=after),
}


def _job(world: ClusterRecords, key: str) -> JobRecord:
    return next(job for job in world.jobs if job.key == key)


def _leaves(group: SubGroupRecord) -> Iterator[SubGroupRecord]:
    for child in group.children:
        yield from _leaves(child) if child.children else iter((child,))


def _with_job(world: ClusterRecords, key: str, **fields: object) -> ClusterRecords:
    jobs = (replace(job, **fields) if job.key == key else job for job in world.jobs)
    return replace(world, jobs=tuple(jobs))


def _with_pods(
    world: ClusterRecords, job: str, edit: Callable[[TaskRecord], TaskRecord]
) -> ClusterRecords:
    def edited(tasks: Iterable[TaskRecord]) -> Iterator[TaskRecord]:
        for task in tasks:
            is_meant = task.job == job and task.status is TaskStatus.PENDING
            yield edit(task) if is_meant else task

    return replace(world, tasks=tuple(edited(world.tasks)))
