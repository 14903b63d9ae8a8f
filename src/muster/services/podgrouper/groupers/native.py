"""Kubernetes' own gangs: pods that name a PodGroup of scheduling.k8s.io (alpha).

Where the API server does not serve that kind it drops the field from pods, so nothing is asked.
"""

from dataclasses import replace

from muster.services.podgrouper.groupers import fields
from muster.services.podgrouper.groupers.default import base_group
from muster.services.podgrouper.groupers.group import Group, GroupingError, Object, Topology
from muster.services.podgrouper.groupers.workload import ObjectRef, Workload

API_GROUP = "scheduling.k8s.io"
_API_VERSION = f"{API_GROUP}/v1alpha2"


def native_group_name(pod: Object) -> str:
    """The PodGroup that the pod names; empty for nearly all pods."""
    return fields.text(pod, "spec", "schedulingGroup", "podGroupName") or ""


def group_natively(workload: Workload) -> Group:
    """One group per PodGroup of Kubernetes: its minCount is the gang's minimum."""
    name = native_group_name(workload.pod)
    ref = ObjectRef(_API_VERSION, "PodGroup", fields.namespace_of(workload.pod), name)
    found = workload.reads.get(ref)
    if found is None:
        raise GroupingError(
            f'spec.schedulingGroup.podGroupName: podgroups.{API_GROUP} "{name}" not found; '
            "create it, and this pod is grouped by it"
        )
    group = base_group(workload, found, considered=[found, *workload.owners])
    wanted = fields.text(found, "spec", "priorityClassName") or ""
    known = bool(wanted) and workload.reads.has_priority_class(wanted)
    return replace(
        group,
        min_member=fields.integer(found, "spec", "schedulingPolicy", "gang", "minCount") or 1,
        priority_class=wanted if known else group.priority_class,
        topology=_topology(found, group.topology),
    )


def _topology(found: Object, by_annotations: Topology) -> Topology:
    """Kubernetes names the level by its node label; which topology it is of, an annotation says."""
    listed = fields.items(found, "spec", "schedulingConstraints", "topology")
    key = fields.text(listed[0], "key") if listed else None
    if not key or not by_annotations.name:
        return by_annotations
    return replace(by_annotations, required=key)
