"""Kubernetes' own gangs (scheduling.k8s.io, alpha): pods that name a PodGroup, or a Workload.

Since 1.36 a pod names a PodGroup, which a controller made from a template of a Workload; in 1.35 it
names a group inside a Workload. Where the API server does not serve the kind it drops the field
from pods, so nothing is asked.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from muster.api import names
from muster.services.podgrouper.groupers import fields
from muster.services.podgrouper.groupers.default import base_group
from muster.services.podgrouper.groupers.group import Group, GroupingError, GroupTopology, Object
from muster.services.podgrouper.groupers.workload import ObjectRef, Workload

API_GROUP = "scheduling.k8s.io"
API_VERSION = f"{API_GROUP}/v1alpha2"
_WORKLOAD_VERSION = f"{API_GROUP}/v1alpha1"
_OUR_PREFIX = "kai.scheduler/"
_GROUP_FIELD = ("spec", "schedulingGroup", "podGroupName")


def is_native(pod: Object) -> bool:
    """Whether the pod names a group of Kubernetes' own API; nearly none does."""
    return bool(native_group_name(pod) or fields.text(pod, "spec", "workloadRef", "name"))


def native_group_name(pod: Object) -> str:
    return fields.text(pod, *_GROUP_FIELD) or ""


def group_natively(workload: Workload) -> Group:
    name = native_group_name(workload.pod)
    return _by_pod_group(workload, name) if name else _by_workload(workload)


def _by_pod_group(workload: Workload, name: str) -> Group:
    """One group per PodGroup of Kubernetes: its minCount is the gang's minimum."""
    found = workload.reads.get(_ref(workload, API_VERSION, "PodGroup", name))
    if found is None:
        raise GroupingError(
            f'{".".join(_GROUP_FIELD)}: podgroups.{API_GROUP} "{name}" not found; '
            "create it, and this pod is grouped by it"
        )
    made_of = fields.text(found, "spec", "podGroupTemplateRef", "workload", "workloadName")
    template = (
        workload.reads.get(_ref(workload, API_VERSION, "Workload", made_of)) if made_of else None
    )
    policy = fields.mapping(found, "spec", "schedulingPolicy") or {}
    group = _grouped(workload, _with_user_metadata(workload, found, template), policy)
    wanted = fields.text(found, "spec", "priorityClassName") or ""
    known = bool(wanted) and workload.reads.has_priority_class(wanted)
    return _disrupted_as(
        _disruption_mode(found, template),
        replace(
            group,
            priority_class=wanted if known else group.priority_class,
            topology=_topology(workload, found, group.topology),
        ),
    )


def _by_workload(workload: Workload) -> Group:
    """One group per Workload, group in it, and replica: `podGroupReplicaKey` tells them apart."""
    ref = fields.mapping(workload.pod, "spec", "workloadRef") or {}
    name, part = str(ref.get("name") or ""), str(ref.get("podGroup") or "")
    found = workload.reads.get(_ref(workload, _WORKLOAD_VERSION, "Workload", name))
    if found is None:
        raise GroupingError(
            f'spec.workloadRef.name: workloads.{API_GROUP} "{name}" not found; '
            "create it, and this pod is grouped by it"
        )
    listed = fields.objects(found, "spec", "podGroups")
    described = next((one for one in listed if one.get("name") == part), None)
    if described is None:
        known = ", ".join(str(one.get("name")) for one in listed)
        raise GroupingError(
            f'spec.workloadRef.podGroup: workload {name} has no group "{part}"; '
            f"name one of its groups: {known}"
        )
    policy = fields.mapping(described, "policy") or {}
    group = _grouped(workload, _with_user_metadata(workload, found), policy)
    replica = str(ref.get("podGroupReplicaKey") or "")
    return replace(group, name="-".join([group.name, part, *([replica] if replica else [])]))


def _ref(workload: Workload, api_version: str, kind: str, name: str) -> ObjectRef:
    return ObjectRef(api_version, kind, fields.namespace_of(workload.pod), name)


def _grouped(workload: Workload, named: Object, policy: Mapping[str, Any]) -> Group:
    minimum = fields.integer(policy, "gang", "minCount")
    group = base_group(workload, named, considered=[named, *workload.owners])
    return replace(group, min_member=1 if minimum is None else minimum)


def _with_user_metadata(
    workload: Workload, found: Object, template: Object | None = None
) -> Object:
    """Controllers make these objects without a word of ours: what the user wrote above counts.

    Of the pod's top owner only what is meant for us: pods of several owners may be one gang, and
    its labels should not change with the pod that is looked at.
    """
    ours = (workload.settings.queue_label, names.LABEL_LEGACY_QUEUE)
    metadata = dict(found["metadata"])
    for part, read in (("labels", fields.labels), ("annotations", fields.annotations)):
        top = read(workload.owners[-1]) if workload.owners else {}
        said = {
            key: value for key, value in top.items() if key in ours or key.startswith(_OUR_PREFIX)
        }
        metadata[part] = said | dict(read(template or {})) | dict(read(found))
    return {**found, "metadata": metadata}


def _disruption_mode(found: Object, template: Object | None) -> str:
    """What the PodGroup says. The server fills in `Pod`, and Kubernetes' Job controller does not
    copy what the template says; so a template that wants more than `Pod` counts.
    """
    name = fields.text(found, "spec", "podGroupTemplateRef", "workload", "podGroupTemplateName")
    listed = fields.objects(template or {}, "spec", "podGroupTemplates")
    said = [
        fields.text(found, "spec", "disruptionMode") or "",
        *(fields.text(one, "disruptionMode") or "" for one in listed if one.get("name") == name),
    ]
    whole = names.DISRUPTION_MODE_POD_GROUP
    return whole if whole in said else said[0]


def _disrupted_as(mode: str, group: Group) -> Group:
    """An annotation of ours counts before the field, which cannot be left out."""
    mode = group.annotations.get(names.ANNOTATION_DISRUPTION_MODE) or mode
    if not mode:
        return group
    notes = {**group.annotations, names.ANNOTATION_DISRUPTION_MODE: mode}
    return replace(group, annotations=notes)


def _topology(workload: Workload, found: Object, by_annotations: GroupTopology) -> GroupTopology:
    """Kubernetes names a node label; it is a level of the topology that an annotation names, or of
    the only one that has it."""
    listed = fields.items(found, "spec", "schedulingConstraints", "topology")
    key = fields.text(listed[0], "key") if listed else None
    if not key:
        return by_annotations
    name = by_annotations.name or workload.reads.topology_with(key)
    if not name:
        raise GroupingError(
            f"spec.schedulingConstraints.topology: podgroup {fields.name_of(found)} wants its pods "
            f'in one "{key}", which is a level of no Topology; create one with that nodeLabel'
        )
    return replace(by_annotations, name=name, required=key)
