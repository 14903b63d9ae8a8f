"""A pod that no group was made for -> its PodGroup: one for all pods of its controller.

What the controller's annotations say holds for all of them; a Deployment hands its own down to its
ReplicaSets. A pod that says otherwise is right, if it is the first.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from muster.api.core import Namespace, Pod
from muster.api.kinds import POD
from muster.api.meta import OwnerReference
from muster.api.volcano import (
    ANNOTATION_GROUP,
    ANNOTATION_GROUP_MIN_MEMBER,
    ANNOTATION_GROUP_OF_VOLCANO,
    ANNOTATION_QUEUE,
    COOLDOWN_TIME,
    DEFAULT_QUEUE,
    NEARNESS_MODE,
    NEARNESS_TIER,
    PREEMPTABLE,
    PodGroup,
)
from muster.api.volcano_batch import LABEL_QUEUE
from muster.base.parse_int import parse_int
from muster.services.volcano.decide.groups import pod_requests
from muster.services.volcano.decide.pods import as_owner

Json = dict[str, Any]
NamespaceOf = Callable[[str], Namespace | None]
EMPTY: Mapping[str, str] = MappingProxyType({})


def is_to_be_grouped(pod: Pod, scheduler: str) -> bool:
    """Whether its group is our business: nobody named another."""
    notes = pod.metadata.annotations
    is_leaving = pod.has_ended or pod.metadata.deletion_timestamp is not None
    if pod.spec.scheduler_name != scheduler or is_leaving:
        return False
    named = notes.get(ANNOTATION_GROUP) or notes.get(ANNOTATION_GROUP_OF_VOLCANO)
    return named in (None, "", group_name_for(owner_of(pod)))


def owner_of(pod: Pod) -> OwnerReference:
    """Its controller, or the pod itself."""
    meta = pod.metadata
    return meta.controller or OwnerReference(
        api_version=POD.api_version, kind=POD.kind, name=meta.name, uid=meta.uid
    )


def group_name_for(owner: OwnerReference) -> str:
    return f"podgroup-{owner.uid}"


def is_of_pods(group: PodGroup) -> bool:
    """Whether the group was made for pods, and not by somebody else."""
    owner = group.metadata.controller
    return owner is not None and group.metadata.name == group_name_for(owner)


def is_scaled_away(owner: Mapping[str, Any]) -> bool:
    """Whether a controller of pods wants none. Who says nothing wants one, or does not scale."""
    return (owner.get("spec") or {}).get("replicas") == 0


def group_for(pod: Pod, namespace: Namespace | None, of_owner: Mapping[str, str] = EMPTY) -> Json:
    """The group to make unless it is there; `of_owner`: the annotations of the pod's controller."""
    meta, owner = pod.metadata, owner_of(pod)
    notes, labels = {**of_owner, **meta.annotations}, meta.labels
    least = max(parse_int(notes.get(ANNOTATION_GROUP_MIN_MEMBER, "")) or 1, 1)
    above = namespace.metadata.annotations if namespace is not None else {}
    queue = (
        meta.annotations.get(ANNOTATION_QUEUE)
        or labels.get(LABEL_QUEUE)
        or of_owner.get(ANNOTATION_QUEUE)
        or above.get(ANNOTATION_QUEUE)
        or DEFAULT_QUEUE
    )
    requests = {name: str(one * least) for name, one in sorted(pod_requests(pod).items()) if one}
    spec: Json = {"minMember": least, "queue": queue, "minResources": requests}
    if pod.spec.priority_class_name:
        spec["priorityClassName"] = pod.spec.priority_class_name
    if (nearness := _nearness(notes)) is not None:
        spec["networkTopology"] = nearness
    kept = {
        name: value
        for name, value in notes.items()
        if name.startswith(("volcano.sh/", "scheduling.volcano.sh/"))
    }
    return {
        "metadata": {
            "name": group_name_for(owner),
            "namespace": meta.namespace,
            "labels": {key: labels[key] for key in (PREEMPTABLE, COOLDOWN_TIME) if key in labels},
            "annotations": kept,
            "ownerReferences": [as_owner(owner)],
        },
        "spec": spec,
    }


def _nearness(notes: Mapping[str, str]) -> Json | None:
    """How near each other the pods must be. A word that is no mode means what saying none does."""
    mode, tier = notes.get(NEARNESS_MODE), parse_int(notes.get(NEARNESS_TIER, ""))
    if mode is None and tier is None:
        return None
    found: Json = {"mode": "soft" if (mode or "").lower() == "soft" else "hard"}
    return found if tier is None else found | {"highestTierAllowed": tier}
