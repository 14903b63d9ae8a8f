"""Queues and pod groups."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from muster.api import kinds, names
from muster.api.core import ResourceList
from muster.api.quantity import Quantity
from muster.api.queue import UNLIMITED
from muster.api.volcano import DEFAULT_QUEUE, OPEN, ROOT_QUEUE, PodGroup, Queue
from muster.cli.conversion.converted import Converted, Json, Note

_COLUMNS: Final = {
    "cpu": names.RESOURCE_CPU,
    "memory": names.RESOURCE_MEMORY,
    "gpu": names.RESOURCE_NVIDIA_GPU,
}
_MEGABYTE: Final = 10**6


def converted_queue(queue: Queue) -> Converted:
    name, spec = queue.metadata.name, queue.spec
    source = f"Queue {name}"
    if name == ROOT_QUEUE:
        note = Note("metadata.name", "root is not needed: a queue without parent is a root itself")
        return Converted(source, (), (note,))
    resources = {column: _amounts(queue, given) for column, given in _COLUMNS.items()}
    made: Json = {"resources": resources}
    if spec.parent and spec.parent != ROOT_QUEUE:
        made["parentQueue"] = native_queue(spec.parent)
    if spec.priority:
        made["priority"] = _native_priority(spec.priority)
    body = _body(kinds.QUEUE, native_queue(name), made)
    return Converted(source, (body,), tuple(_queue_notes(queue)))


def converted_group(group: PodGroup) -> Converted:
    spec = group.spec
    made: Json = {"queue": native_queue(spec.queue), "minMember": max(spec.min_member, 1)}
    if spec.priority_class_name:
        made["priorityClassName"] = spec.priority_class_name
    if spec.min_task_member:
        del made["minMember"]
        made["subGroups"] = [
            {"name": name, "minMember": least}
            for name, least in sorted(spec.min_task_member.items())
        ]
    body = _body(kinds.POD_GROUP, group.metadata.name, made, group.metadata.namespace)
    return Converted(f"PodGroup {group.key}", (body,), tuple(_group_notes(group)))


def native_queue(name: str) -> str:
    return names.DEFAULT_QUEUE if name in ("", DEFAULT_QUEUE) else name


def annotation_notes(annotations: Mapping[str, str]) -> Iterator[Note]:
    """Those of Volcano do nothing here."""
    for name in sorted(annotations):
        if name.startswith(("volcano.sh/", "scheduling.volcano.sh/")):
            yield Note(f"metadata.annotations[{name}]", "no counterpart: it does nothing here")


def _amounts(queue: Queue, resource: str) -> Json:
    quota = _number(resource, queue.spec.deserved or {})
    guarantee = _number(resource, queue.spec.guarantee.resource)
    limit = _number(resource, queue.spec.capability or {})
    return {
        "quota": max(quota or 0.0, guarantee or 0.0),
        "overQuotaWeight": float(queue.spec.weight),
        "limit": UNLIMITED if limit is None else limit,
    }


def _native_priority(priority: int) -> int:
    """Native priorities lie around 100, Volcano's around 0."""
    return max(100 + priority, 0)


def _number(resource: str, amounts: ResourceList) -> float | None:
    """In the units of native queues: thousandths of a core, megabytes, devices."""
    found: Quantity | None = amounts.get(resource)
    if found is None:
        return None
    if resource == names.RESOURCE_CPU:
        return float(found.milli)
    if resource == names.RESOURCE_MEMORY:
        return round(found.value / _MEGABYTE, 3)
    return found.milli / 1000


def _queue_notes(queue: Queue) -> Iterator[Note]:
    spec = queue.spec
    if queue.metadata.name == DEFAULT_QUEUE:
        yield Note("metadata.name", f"default becomes {names.DEFAULT_QUEUE}")
    if spec.guarantee.resource:
        yield Note("spec.guarantee", "it becomes quota: lent while idle, taken back when asked for")
    if spec.reclaimable is False:
        why = "no counterpart: give its work `preemptibility: non-preemptible` within the quota"
        yield Note("spec.reclaimable", why)
    if queue.status.state not in ("", OPEN):
        why = "no counterpart: a native queue takes no work with a limit of 0"
        yield Note("status.state", f"{queue.status.state}: {why}")
    for path, given in (
        ("spec.capability", spec.capability),
        ("spec.deserved", spec.deserved),
        ("spec.guarantee.resource", spec.guarantee.resource),
    ):
        for name in sorted(set(given or {}) - set(_COLUMNS.values())):
            yield Note(f"{path}.{name}", "no counterpart: native queues count cpu, memory and GPUs")
    if spec.affinity is not None:
        yield Note("spec.affinity", "no counterpart: divide the nodes among SchedulingShards")
    if spec.extend_clusters:
        yield Note("spec.extendClusters", "no counterpart: one muster serves one cluster")
    if spec.type:
        yield Note("spec.type", "no counterpart, and of no effect")
    for name in sorted(queue.metadata.annotations):
        if name.startswith("volcano.sh/hierarchy"):
            why = "write the tree with spec.parentQueue, and its weights as overQuotaWeight"
            yield Note(f"metadata.annotations[{name}]", why)


def _group_notes(group: PodGroup) -> Iterator[Note]:
    spec = group.spec
    yield from annotation_notes(group.metadata.annotations)
    was = "was scheduling.k8s.io/group-name"
    join = f"pods join by the annotation {names.ANNOTATION_POD_GROUP} ({was})"
    yield Note("metadata.name", join)
    if not spec.queue:
        why = f"none is named: {names.DEFAULT_QUEUE}; for kube-batch 0.2 it was its namespace"
        yield Note("spec.queue", why)
    if spec.min_resources:
        yield Note("spec.minResources", "not needed: it is summed up from the pods")
    if spec.min_task_member:
        why = (
            f"pods join a sub-group by the label {names.LABEL_SUBGROUP} (was volcano.sh/task-spec)"
        )
        yield Note("spec.minTaskMember", why)
        if spec.min_member != sum(spec.min_task_member.values()):
            why = f"{spec.min_member} in all is not kept beside the minimum of each sub-group"
            yield Note("spec.minMember", why)
    if spec.network_topology is not None:
        level = "requiredTopologyLevel" if spec.network_topology.mode == "hard" else ""
        field = level or "preferredTopologyLevel"
        why = f"write a Topology with the labels of your nodes, and spec.topologyConstraint.{field}"
        yield Note("spec.networkTopology", why)
    if spec.sub_group_policy:
        why = "no counterpart: sub-groups are named, each with its own topologyConstraint"
        yield Note("spec.subGroupPolicy", why)


def _body(kind: kinds.Kind[Any], name: str, spec: Json, namespace: str = "") -> Json:
    meta = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, "spec": spec}
