"""The PodGroup of a job: how much of it starts together, and what that takes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from muster.api.codec import builtins, from_builtins
from muster.api.core import Pod, PodSpec, ResourceList
from muster.api.meta import replace
from muster.api.quantity import Quantity
from muster.api.selectors import LabelSelector
from muster.api.volcano import (
    ANNOTATION_TASK,
    NetworkTopology,
    PodGroup,
    PodGroupSpec,
    SubGroupPolicy,
)
from muster.api.volcano_batch import LABEL_PARTITION, Job, TaskSpec
from muster.model.requests import containers_in_order, occupied
from muster.services.volcano.decide.pods import group_name, owner_reference

Json = dict[str, Any]
PriorityOf = Callable[[str], int]
"""Value of a PriorityClass by name; 0 when it does not exist."""
EMPTY: PodGroupSpec = PodGroupSpec()


def group_of(job: Job, startable: Sequence[TaskSpec], priority_of: PriorityOf) -> Json:
    """The group as it is created. `startable`: tasks that wait for no other."""
    notes = {
        name: value
        for name, value in job.metadata.annotations.items()
        if name != "kubectl.kubernetes.io/last-applied-configuration"
    }
    return {
        "metadata": {
            "name": group_name(job),
            "namespace": job.metadata.namespace,
            "labels": dict(job.metadata.labels),
            "annotations": notes,
            "ownerReferences": [owner_reference(job)],
        },
        "spec": builtins(group_spec(job, startable, priority_of)),
    }


def group_spec(job: Job, startable: Sequence[TaskSpec], priority_of: PriorityOf) -> PodGroupSpec:
    """A task that waits for another is not waited for: the two would wait for each other."""
    spec = job.spec
    least = min(spec.min_available or 0, sum(task.replicas for task in startable))
    needs = {task.name: task.min_available or 0 for task in startable}
    return replace(
        EMPTY,
        min_member=least,
        min_task_member=needs,
        queue=spec.queue,
        priority_class_name=spec.priority_class_name,
        min_resources=min_resources(startable, least, priority_of),
        network_topology=spec.network_topology,
        sub_group_policy=tuple(map(_parts, filter(_is_parted, startable))),
    )


def group_patch(group: PodGroup, wanted: PodGroupSpec) -> Json | None:
    """What changes when the job did: its numbers, its priority; None for nothing."""
    spec = group.spec
    found: Json = {}
    if spec.min_member != wanted.min_member:
        found["minMember"] = wanted.min_member
    if spec.priority_class_name != wanted.priority_class_name:
        found["priorityClassName"] = wanted.priority_class_name or None
    if changed := _changes(dict(spec.min_task_member), dict(wanted.min_task_member)):
        found["minTaskMember"] = changed
    before = {name: str(one) for name, one in (spec.min_resources or {}).items()}
    after = {name: str(one) for name, one in (wanted.min_resources or {}).items()}
    if spec.min_resources != wanted.min_resources and (changed := _changes(before, after)):
        found["minResources"] = changed
    return {"spec": found} if found else None


def min_resources(
    tasks: Sequence[TaskSpec], least: int, priority_of: PriorityOf
) -> dict[str, Quantity]:
    """What `least` pods ask for: those that tasks must have first, then those of the highest
    priority. Where less is needed than tasks must have in sum, only the priority counts."""
    ranked = sorted(tasks, key=lambda task: -priority_of(_spec(task).priority_class_name))
    musts = [min(task.min_available or 0, task.replicas) for task in ranked]
    counts = musts if least >= sum(musts) else [0] * len(ranked)
    left = least - sum(counts)
    total: dict[str, Quantity] = {}
    for task, count in zip(ranked, counts, strict=True):
        more = min(left, task.replicas - count)
        left -= more
        for name, amount in requests_of(_spec(task)).items():
            total[name] = total.get(name, Quantity()) + amount * (count + more)
    return {name: amount for name, amount in sorted(total.items()) if amount}


def requests_of(spec: PodSpec) -> dict[str, Quantity]:
    """What one pod asks for, as the scheduler counts it, in the words that it is written in."""
    listed = ((kind, _asked(one.resources)) for one, kind in containers_in_order(spec))
    whole = _asked(spec.resources) if spec.resources is not None else {}
    return occupied(listed, spec.overhead, whole)


def pod_requests(pod: Pod) -> dict[str, Quantity]:
    return requests_of(pod.spec)


def _asked(resources: Any) -> ResourceList:
    """A limit without a request is a request."""
    return {**resources.limits, **resources.requests}


def _spec(task: TaskSpec) -> PodSpec:
    return from_builtins(PodSpec, task.template.get("spec") or {})


def _is_parted(task: TaskSpec) -> bool:
    return task.partition_policy is not None


def _parts(task: TaskSpec) -> SubGroupPolicy:
    parts = task.partition_policy
    assert parts is not None
    topology: NetworkTopology | None = parts.network_topology
    return SubGroupPolicy(
        name=task.name,
        network_topology=topology,
        sub_group_size=parts.partition_size,
        min_sub_groups=parts.min_partitions or None,
        label_selector=LabelSelector(match_labels={ANNOTATION_TASK: task.name}),
        match_label_keys=(LABEL_PARTITION,),
    )


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Json:
    changed: Json = {name: one for name, one in after.items() if before.get(name) != one}
    return changed | {name: None for name in before if name not in after}
