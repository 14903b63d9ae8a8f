"""Ray clusters, and the jobs and services that own one: a head and its worker groups."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from muster.services.podgrouper.groupers import fields
from muster.services.podgrouper.groupers.default import base_group, topology_of
from muster.services.podgrouper.groupers.group import (
    Group,
    GroupingError,
    GroupTopology,
    Object,
    SubGroup,
)
from muster.services.podgrouper.groupers.workload import ObjectRef, Workload

_PRIORITY_CLASS = "ray.io/priority-class-name"
_GROUP = "ray.io/group"
_HEAD_GROUP = "headgroup"


@dataclass(frozen=True, slots=True)
class _WorkerGroup:
    name: str
    pods_to_start: int
    topology: GroupTopology | None


def group_ray_cluster(workload: Workload) -> Group:
    return _group(workload, workload.top)


def group_ray_job(workload: Workload) -> Group:
    return _group(workload, _cluster_named(workload, ("status", "rayClusterName")))


def group_ray_service(workload: Workload) -> Group:
    """During an upgrade a service has two clusters; the active one decides the size."""
    active = ("status", "activeServiceStatus", "rayClusterName")
    pending = ("status", "pendingServiceStatus", "rayClusterName")
    return _group(workload, _cluster_named(workload, active, pending))


def _group(workload: Workload, cluster: Object) -> Group:
    group = base_group(workload, workload.top)
    asked = fields.labels(workload.top).get(_PRIORITY_CLASS)
    if asked and workload.reads.has_priority_class(asked):
        group = replace(group, priority_class=asked)
    workers = _worker_groups(cluster)
    minimum = 1 + sum(one.pods_to_start for one in workers)
    if _is_legacy(workload, group.name):
        return replace(group, min_member=minimum)
    head = fields.mapping(cluster, "spec", "headGroupSpec") or {}
    parts = [SubGroup(_HEAD_GROUP, 1, topology=_template_topology(head, "headGroupSpec"))]
    parts += [SubGroup(one.name, one.pods_to_start, topology=one.topology) for one in workers]
    label = fields.labels(workload.pod).get(_GROUP, "")
    known = label if label in {part.name for part in parts} else ""
    return replace(group, min_member=minimum, sub_groups=tuple(parts), pod_sub_group=known)


def _cluster_named(workload: Workload, *paths: tuple[str, ...]) -> Object:
    owner = workload.top
    name = next((found for path in paths if (found := fields.text(owner, *path))), "")
    if not name:
        raise GroupingError(
            f"failed to extract rayClusterName for {fields.key_of(owner)} of kind {owner['kind']}. "
            "Please make sure that the ray-operator is up and a rayCluster child-object has been "
            "created"
        )
    ref = ObjectRef(owner["apiVersion"], "RayCluster", fields.namespace_of(owner), name)
    cluster = workload.reads.get(ref)
    if cluster is None:
        raise GroupingError(f'RayCluster.ray.io "{name}" not found')
    return cluster


def _worker_groups(cluster: Object) -> list[_WorkerGroup]:
    found = []
    for number, spec in enumerate(fields.objects(cluster, "spec", "workerGroupSpecs")):
        name = fields.text(spec, "groupName") or f"worker-group-{number}"
        pods = _pods_to_start(spec, number)
        if pods is not None:
            topology = _template_topology(spec, f"workerGroupSpecs.{name}")
            found.append(_WorkerGroup(name, pods, topology))
    return found


def _pods_to_start(spec: Mapping[str, Any], number: int) -> int | None:
    """None for a group that is switched off: suspended, or of no replicas."""
    if spec.get("suspend") or spec.get("suspended"):
        return None
    least = fields.integer(spec, "minReplicas") or 0
    replicas = fields.integer(spec, "replicas") or 0
    if least > replicas:
        raise GroupingError(
            "ray-cluster replicas for a workerGroupsSpec can't be less than minReplicas. Given "
            f"{replicas} replicas and {least} minReplicas. Please fix the replicas field for group "
            f"number {number}"
        )
    if not replicas:
        return None
    hosts = fields.integer(spec, "numOfHosts")
    return (least or replicas) * (1 if hosts is None else hosts)


def _template_topology(spec: Mapping[str, Any], where: str) -> GroupTopology | None:
    wanted = topology_of(fields.annotations(spec.get("template") or {}))
    if not wanted.name and (wanted.required or wanted.preferred):
        raise GroupingError(
            f"topology annotation (kai.scheduler/topology) is required for {where} when topology "
            "placement annotations are set"
        )
    # A topology without a level asks for nothing.
    return wanted if wanted.required or wanted.preferred else None


def _is_legacy(workload: Workload, name: str) -> bool:
    """A group from before sub-groups existed keeps having none."""
    live = workload.reads.pod_groups(fields.namespace_of(workload.pod)).get(name)
    return live is not None and not (live.get("spec") or {}).get("subGroups")
