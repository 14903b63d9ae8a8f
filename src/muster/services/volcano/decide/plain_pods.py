"""A pod that no group was made for -> its PodGroup: one for all pods of its controller."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from muster.api.core import Namespace, Pod
from muster.api.kinds import POD
from muster.api.meta import OwnerReference
from muster.api.volcano import (
    ANNOTATION_GROUP,
    ANNOTATION_GROUP_MIN_MEMBER,
    ANNOTATION_GROUP_OF_VOLCANO,
    ANNOTATION_QUEUE,
    DEFAULT_QUEUE,
)
from muster.api.volcano_batch import LABEL_QUEUE
from muster.base.parse_int import parse_int
from muster.services.volcano.decide.groups import pod_requests
from muster.services.volcano.decide.pods import as_owner

Json = dict[str, Any]
NamespaceOf = Callable[[str], Namespace | None]


@dataclass(frozen=True, slots=True)
class GroupForPod:
    """The group to make unless it is there, and what the pod says then."""

    group: Json
    annotate: Json


def needs_group(pod: Pod, scheduler: str) -> bool:
    notes = pod.metadata.annotations
    is_ours = pod.spec.scheduler_name == scheduler and not pod.has_ended
    return is_ours and ANNOTATION_GROUP not in notes and ANNOTATION_GROUP_OF_VOLCANO not in notes


def group_for(pod: Pod, namespace: Namespace | None) -> GroupForPod:
    meta = pod.metadata
    owner = meta.controller or OwnerReference(
        api_version=POD.api_version, kind=POD.kind, name=meta.name, uid=meta.uid
    )
    notes, labels = meta.annotations, meta.labels
    least = max(parse_int(notes.get(ANNOTATION_GROUP_MIN_MEMBER, "")) or 1, 1)
    above = namespace.metadata.annotations if namespace is not None else {}
    queue = (
        notes.get(ANNOTATION_QUEUE)
        or labels.get(LABEL_QUEUE)
        or above.get(ANNOTATION_QUEUE)
        or DEFAULT_QUEUE
    )
    requests = {name: str(one * least) for name, one in sorted(pod_requests(pod).items()) if one}
    spec: Json = {"minMember": least, "queue": queue, "minResources": requests}
    if pod.spec.priority_class_name:
        spec["priorityClassName"] = pod.spec.priority_class_name
    kept = {
        name: value
        for name, value in notes.items()
        if name.startswith(("volcano.sh/", "scheduling.volcano.sh/"))
    }
    name = f"podgroup-{owner.uid}"
    group: Json = {
        "metadata": {
            "name": name,
            "namespace": meta.namespace,
            "annotations": kept,
            "ownerReferences": [as_owner(owner)],
        },
        "spec": spec,
    }
    return GroupForPod(group, {"metadata": {"annotations": {ANNOTATION_GROUP: name}}})
