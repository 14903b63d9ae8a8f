"""The changes that could start a job: one dimension each, from the smallest step to the largest.

A dimension is moved alone; they are not traded against each other. The table `DIMENSIONS` is the
whole search space. What a step means is a pure function from its value to a `Delta` of the
cluster; whether it helps is for `foresight.smallest` to find out by running the engine.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import NamedTuple

import msgspec

from muster.api.names import LABEL_HOSTNAME
from muster.foresight.variants import Variants
from muster.model.constraint_terms import Toleration
from muster.model.constraints import Constraints
from muster.model.nearest import nearest
from muster.model.reasons import Reason, Refusal
from muster.model.record_changes import Delta
from muster.model.records import (
    UNLIMITED,
    GpuKind,
    JobRecord,
    NodeRecord,
    QueueRecord,
    SubGroupRecord,
    TaskRecord,
    TopologyConstraint,
)
from muster.model.status import ACTIVE_USED, TaskStatus
from muster.numerics.axis import GPU_UNIT

WAIT = "wait"
CORE = 1000
GIB = 1 << 30
_UNITS: Mapping[str, int] = {"gpu": GPU_UNIT, "cpu": CORE, "memory": GIB}
"""One step of a resource, in the axis' units; 1 for every other."""
_STEPS_MAX = 4096
MEMORY_SHARE = "gpu memory"
_SHARES = (
    ("gpu fraction", "portion", GpuKind.FRACTION, GPU_UNIT // 20),
    (MEMORY_SHARE, "memory_mib", GpuKind.MEMORY, 1024),
)
"""Ways to ask for a part of a GPU: the field that says how much, and one step of it."""
_NODES_MAX = 32
"""So many more nodes are tried, or one for each pod: others that wait take of them too."""
_ENDS_MAX = 256
"""So many jobs at most are waited for: the first to end."""
_QUEUES_MAX = 32
"""So many other queues are tried."""
_BOUNDS = {Reason.OVER_LIMIT: "limit", Reason.OVER_QUOTA: "quota"}
_QUEUE_IN_THE_WAY = frozenset(
    {
        Reason.OVER_LIMIT,
        Reason.OVER_QUOTA,
        Reason.OVER_SHARE,
        Reason.QUEUE_MISSING,
        Reason.QUEUE_NOT_LEAF,
        Reason.QUEUE_CLOSED,
        Reason.QUEUE_IN_CYCLE,
        Reason.QUEUE_TOO_DEEP,
    }
)


class Cost(IntEnum):
    """Who pays for a change; the order in which changes are told."""

    WAIT = 1
    RELAX = 2
    SMALLER = 3
    GRANTED = 4


class Needs(IntEnum):
    """What has to be run to see whether a change helps."""

    ALLOCATE = 1
    """Giving away what is free."""
    CYCLE = 2
    """All actions: somebody may be evicted."""


class Step(NamedTuple):
    """One change that is made already, where another is looked for beside it."""

    what: str
    subject: str
    before: object
    after: object


@dataclass(frozen=True, slots=True)
class Ladder:
    """One dimension of one job: values from the smallest change to the largest."""

    what: str
    subject: str
    """The resource, level, predicate or queue that is moved; "" where `what` says it all."""
    before: object
    steps: Sequence[object]
    edit: Callable[[object], Delta]
    cost: Cost
    needs: Needs = Needs.ALLOCATE
    is_ordered: bool = True
    """Whether a larger step helps where a smaller one does; otherwise each is tried in turn."""
    is_bound: bool = False
    """Whether others may take the room first: then it is a bound and not a promise."""
    first: Step | None = None
    """What is changed with it."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A job that waits, with what is known of it."""

    state: Variants
    """The cluster as the newest cycle leaves it."""
    job: JobRecord
    pending: tuple[TaskRecord, ...]
    refusals: tuple[Refusal, ...]
    ends: Mapping[str, float]
    """When jobs that run are expected to end, by key, as far as somebody knows."""

    def refused_for(self, *reasons: Reason) -> list[Refusal]:
        return [refusal for refusal in self.refusals if refusal.reason in reasons]


Dimension = Callable[[Waiting], Iterable[Ladder]]


def ladders(waiting: Waiting) -> list[Ladder]:
    """All that may be tried for the job, cheapest to run first."""
    found = [ladder for dimension in DIMENSIONS for ladder in dimension(waiting) if ladder.steps]
    return sorted(found, key=lambda ladder: (ladder.needs, ladder.cost))


def fewer_members(waiting: Waiting) -> Iterator[Ladder]:
    """A smaller minimum of a sub-group; its pods beyond it stay away."""
    for leaf in _leaves(waiting.job.sub_groups):
        least = leaf.minimum or 0

        def edit(value: object, leaf: SubGroupRecord = leaf) -> Delta:
            minimum = _count(value)
            tree = _with_leaf(waiting.job.sub_groups, leaf.name, minimum=minimum)
            own = [task for task in waiting.pending if task.sub_group == leaf.name]
            held = sum(
                task.sub_group == leaf.name and task.status in ACTIVE_USED
                for task in waiting.state.tasks_of(waiting.job.key)
            )
            beyond = sorted(own, key=lambda task: (task.created_s, task.uid))
            gated = tuple(
                _task(task, status=TaskStatus.GATED) for task in beyond[max(minimum - held, 0) :]
            )
            return Delta(jobs=(_job(waiting.job, sub_groups=tree),), tasks=gated)

        subject = leaf.name if len(_leaves(waiting.job.sub_groups)) > 1 else ""
        yield Ladder("members", subject, least, range(least - 1, 0, -1), edit, Cost.SMALLER)


def smaller_request(waiting: Waiting) -> Iterator[Ladder]:
    """No pod asks for more than so much of a resource."""
    names = sorted({name for task in waiting.pending for name in task.request} - {"pods"})
    for name in names:
        unit = _UNITS.get(name, 1)
        most = max(task.request.get(name, 0) for task in waiting.pending)
        first = -(-most // unit) - 1
        steps = [units * unit for units in range(first, max(first - _STEPS_MAX, 0), -1)]

        def edit(value: object, name: str = name) -> Delta:
            return Delta(
                tasks=tuple(_capped(task, name, _count(value)) for task in waiting.pending)
            )

        yield Ladder("request", name, most, steps, edit, Cost.SMALLER)


def smaller_share(waiting: Waiting) -> Iterator[Ladder]:
    """Of a shared GPU no pod asks for more than so much."""
    for subject, field, kind, unit in _SHARES:
        asking = [task for task in waiting.pending if task.gpu.kind is kind]
        most = max((getattr(task.gpu, field) for task in asking), default=0)
        steps = list(range((most - 1) // unit * unit, 0, -unit))[:_STEPS_MAX]

        def edit(value: object, asking: list[TaskRecord] = asking, field: str = field) -> Delta:
            return Delta(tasks=tuple(_with_share(task, field, _count(value)) for task in asking))

        yield Ladder("share", subject, most, steps, edit, Cost.SMALLER)


def relaxed_topology(waiting: Waiting) -> Iterator[Ladder]:
    """What must be together may be apart, and only should be together; or need not at all."""
    is_missing = bool(waiting.refused_for(Reason.TOPOLOGY_MISSING, Reason.TOPOLOGY_LEVEL_MISSING))
    for group in _groups(waiting.job.sub_groups):
        constraint = group.topology
        if constraint is None or not (constraint.required or is_missing):
            continue
        trees = {"none": _with_topology(waiting.job.sub_groups, group.name, None)}
        before = f"preferred {constraint.preferred}"
        if required := constraint.required:
            before = f"required {required}"
            softer = msgspec.structs.replace(constraint, required="", preferred=required)
            tree = _with_topology(waiting.job.sub_groups, group.name, softer)
            trees = {f"preferred {required}": tree, **trees}

        def edit(value: object, trees: Mapping[str, SubGroupRecord] = trees) -> Delta:
            return Delta(jobs=(_job(waiting.job, sub_groups=trees[str(value)]),))

        yield Ladder("topology", group.name, before, list(trees), edit, Cost.RELAX)


_TOLERATE_ALL: Toleration = Toleration(key="", operator="Exists")
_PREDICATES: Mapping[str, Callable[[Constraints], Constraints]] = {
    "nodeSelector": lambda c: replace(c, node_labels=()),
    "nodeAffinity": lambda c: replace(c, node_affinity=None),
    "podAffinity": lambda c: replace(c, pod_affinity=None),
    "topologySpreadConstraints": lambda c: replace(c, spread=()),
    "hostPorts": lambda c: replace(c, host_ports=()),
    "tolerations": lambda c: replace(c, tolerations=(*c.tolerations, _TOLERATE_ALL)),
}


def dropped_predicate(waiting: Waiting) -> Iterator[Ladder]:
    """One constraint on nodes less; for taints: all tolerated."""
    is_tainted = any(node.taints for node in waiting.state.nodes.values())
    for name, without in _PREDICATES.items():
        tasks = tuple(_task(t, constraints=without(t.constraints)) for t in waiting.pending)
        if tasks == waiting.pending or (name == "tolerations" and not is_tainted):
            continue
        edit = Delta(tasks=tasks)
        after = "tolerate every taint" if name == "tolerations" else "none"
        yield Ladder(
            "constraint",
            name,
            "as it is",
            [after],
            lambda _, edit=edit: edit,  # type: ignore[misc]
            Cost.RELAX,
        )


def preemptible(waiting: Waiting) -> Iterator[Ladder]:
    """A job that may be evicted may borrow."""
    if not waiting.job.is_preemptible:
        edit = Delta(jobs=(_job(waiting.job, is_preemptible=True),))
        yield Ladder("preemptible", "", False, [True], lambda _: edit, Cost.RELAX, is_ordered=False)


def _nearness(
    named: str, own: QueueRecord | None, names: Sequence[str]
) -> Callable[[QueueRecord], tuple[bool, bool, bool, str]]:
    """The key of an order of queues: first one of a like name where none is called so, then those
    below the one that is named, then those beside it.
    """
    meant = nearest(named, names) if own is None else ""
    return lambda queue: (
        queue.name != meant,
        queue.parent != named,
        own is None or queue.parent != own.parent,
        queue.name,
    )


def other_queue(waiting: Waiting) -> Iterator[Ladder]:
    """Another leaf queue that the namespace may use: first who was perhaps meant."""
    if not waiting.refused_for(*_QUEUE_IN_THE_WAY):
        return
    queues = waiting.state.queues
    own = queues.get(waiting.job.queue)
    parents = {queue.parent for queue in queues.values()}
    others = [
        queue
        for queue in queues.values()
        if queue.name not in parents and queue.name != waiting.job.queue
    ]
    others.sort(key=_nearness(waiting.job.queue, own, [queue.name for queue in others]))
    yield Ladder(
        "queue",
        "",
        waiting.job.queue,
        [queue.name for queue in others[:_QUEUES_MAX]],
        lambda name: Delta(jobs=(_job(waiting.job, queue=name),)),
        Cost.RELAX,
        is_ordered=False,
    )


def larger_bound(waiting: Waiting) -> Iterator[Ladder]:
    """More limit, or more quota, of the queue whose bound is in the way."""
    for refusal in waiting.refused_for(*_BOUNDS):
        queue = waiting.state.queues.get(refusal.subject)
        for evidence in refusal.evidence if queue is not None else ():
            assert queue is not None
            field, name = _BOUNDS[refusal.reason], evidence.resource
            bound = float(getattr(queue, field).get(name, 0 if field == "quota" else UNLIMITED))
            unit = _UNITS.get(name, 1)
            missing = -(-max(evidence.need - evidence.free, 0) // unit)
            steps = [bound + unit * step for step in range(1, min(missing, _STEPS_MAX) + 1)]

            def edit(
                value: object, queue: QueueRecord = queue, field: str = field, name: str = name
            ) -> Delta:
                amounts = {**getattr(queue, field), name: value}
                return Delta(queues=(msgspec.structs.replace(queue, **{field: amounts}),))

            yield Ladder(field, f"{queue.name} {name}", bound, steps, edit, Cost.GRANTED)


def more_nodes(waiting: Waiting) -> Iterator[Ladder]:
    """More nodes of the kind that there is most of."""
    ready = [n for n in waiting.state.nodes.values() if n.is_ready and not n.is_unschedulable]
    asks_gpu = any(task.gpu.kind is not GpuKind.NONE for task in waiting.pending)
    kinds: dict[object, list[NodeRecord]] = {}
    for node in ready:
        if not asks_gpu or node.allocatable.get("gpu", 0):
            kinds.setdefault(tuple(sorted(node.allocatable.items())), []).append(node)
    if not kinds:
        return
    like = min(sorted(kinds.values(), key=len)[-1], key=lambda node: node.name)

    def edit(value: object) -> Delta:
        return Delta(nodes=tuple(more_like(like, _count(value))))

    most = max(len(waiting.pending), _NODES_MAX)
    yield Ladder("nodes", f"like {like.name}", 0, range(1, most + 1), edit, Cost.GRANTED)


def more_like(node: NodeRecord, count: int) -> Iterator[NodeRecord]:
    """Empty nodes of the same kind."""
    for at in range(count):
        name = f"{node.name}+{at}"
        labels = {**node.labels, LABEL_HOSTNAME: name}
        yield msgspec.structs.replace(node, name=name, labels=labels)


def higher_priority(waiting: Waiting) -> Iterator[Ladder]:
    """The priority of some other job that is above its own."""
    above = {job.priority for job in waiting.state.jobs.values()}
    steps = sorted(priority for priority in above if priority > waiting.job.priority)
    yield Ladder(
        "priority",
        "",
        waiting.job.priority,
        steps,
        lambda value: Delta(jobs=(_job(waiting.job, priority=value),)),
        Cost.GRANTED,
        Needs.CYCLE,
    )


def wait_for_jobs(waiting: Waiting) -> Iterator[Ladder]:
    """The first jobs to end are gone."""
    state = waiting.state
    own = waiting.job.key
    ends = ((end_s, key) for key, end_s in waiting.ends.items() if key in state.jobs)
    names = [key for _, key in sorted(ends) if key != own][:_ENDS_MAX]

    yield Ladder(
        WAIT,
        ",".join(names),
        0,
        range(1, len(names) + 1),
        lambda value: ended(state, names[: _count(value)]),
        Cost.WAIT,
        is_bound=True,
    )


def ended(state: Variants, jobs: Iterable[str]) -> Delta:
    """These jobs are over, with those of their pods that wait."""
    tasks = (task for key in jobs for task in state.tasks_of(key))
    return Delta(
        tasks=tuple(
            _task(task, status=TaskStatus.SUCCEEDED)
            for task in tasks
            if task.status not in (TaskStatus.SUCCEEDED, TaskStatus.FAILED)
        )
    )


DIMENSIONS: Sequence[Dimension] = (
    wait_for_jobs,
    relaxed_topology,
    dropped_predicate,
    preemptible,
    other_queue,
    fewer_members,
    smaller_request,
    smaller_share,
    larger_bound,
    more_nodes,
    higher_priority,
)


def _count(value: object) -> int:
    assert isinstance(value, int), "steps of this ladder are counts"
    return value


def _job(job: JobRecord, **fields: object) -> JobRecord:
    return msgspec.structs.replace(job, **fields)


def _task(task: TaskRecord, **fields: object) -> TaskRecord:
    return msgspec.structs.replace(task, **fields)


def _capped(task: TaskRecord, name: str, most: int) -> TaskRecord:
    if task.request.get(name, 0) <= most:
        return task
    gpu = task.gpu
    if name == "gpu" and gpu.kind in (GpuKind.WHOLE, GpuKind.CLAIM):
        gpu = msgspec.structs.replace(gpu, devices=most // GPU_UNIT)
    return _task(task, request={**task.request, name: most}, gpu=gpu)


def _groups(group: SubGroupRecord) -> list[SubGroupRecord]:
    return [group, *(below for child in group.children for below in _groups(child))]


def _leaves(group: SubGroupRecord) -> list[SubGroupRecord]:
    """The sub-groups that hold tasks; the root never does."""
    return [one for child in group.children for one in _groups(child) if not one.children]


def _with_leaf(tree: SubGroupRecord, name: str, **fields: object) -> SubGroupRecord:
    """The tree with other values in one leaf."""
    if not tree.children and tree.name == name:
        return msgspec.structs.replace(tree, **fields)
    children = tuple(_with_leaf(child, name, **fields) for child in tree.children)
    return msgspec.structs.replace(tree, children=children)


def _with_topology(
    tree: SubGroupRecord, name: str, topology: TopologyConstraint | None
) -> SubGroupRecord:
    """The tree with another constraint on the group of that name."""
    children = tuple(_with_topology(child, name, topology) for child in tree.children)
    own = topology if tree.name == name and tree.topology is not None else tree.topology
    return msgspec.structs.replace(tree, children=children, topology=own)


def _with_share(task: TaskRecord, field: str, most: int) -> TaskRecord:
    less = min(getattr(task.gpu, field), most)
    return _task(task, gpu=msgspec.structs.replace(task.gpu, **{field: less}))
