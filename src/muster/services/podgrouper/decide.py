"""What to write so that the cluster holds the group a pod belongs to. Pure: the reconciler writes.

Some things are the user's once the group exists: its queue, its node pool, and what only people
set (markUnschedulable, schedulingBackoff). They are taken from the live object, never overwritten.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from muster.api import names
from muster.api.conditions import condition
from muster.api.core import Pod
from muster.base.timefmt import rfc3339
from muster.services.podgrouper.groupers import fields
from muster.services.podgrouper.groupers.group import Group, Object
from muster.services.podgrouper.groupers.workload import GroupingSettings, ObjectRef

_MESSAGE_SIZE = 1024
_ALIKE = 0.85
"""How much of two keys of labels is the same where one was meant to be the other."""
_KEPT_FROM_LIVE = ("markUnschedulable", "schedulingBackoff", "queue")


@dataclass(frozen=True, slots=True)
class CreateGroup:
    """Make this PodGroup."""

    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class MergeGroup:
    """Patch the PodGroup with this JSON merge patch."""

    patch: Mapping[str, Any]


def is_ours(pod: Object, settings: GroupingSettings) -> bool:
    """Whether this pod is to be grouped at all, judged by the pod alone."""
    if ((pod.get("spec") or {}).get("schedulerName") or "") != settings.scheduler_name:
        return False
    if is_skipped(pod):
        return False
    # A pod that nobody owns and that names its group was put there by its author.
    has_owner = bool(pod["metadata"].get("ownerReferences"))
    return has_owner or names.ANNOTATION_POD_GROUP not in fields.annotations(pod)


def is_skipped(thing: Object) -> bool:
    return fields.annotations(thing).get(names.ANNOTATION_SKIP_GROUPER) == "true"


def group_write(
    group: Group, pod: Object, live: Object | None, settings: GroupingSettings
) -> CreateGroup | MergeGroup | None:
    """The write that brings the live PodGroup to what `group` says; None when it is there."""
    labels = _with_node_pool(group, pod, settings)
    if live is None:
        return CreateGroup(
            {
                "apiVersion": "scheduling.run.ai/v2alpha2",
                "kind": "PodGroup",
                "metadata": {
                    "name": group.name,
                    "namespace": group.namespace,
                    "labels": labels,
                    "annotations": dict(group.annotations),
                    "ownerReferences": [dict(group.owner)],
                },
                "spec": group.spec(),
            }
        )
    patch = _metadata_patch(group, labels, live, settings)
    spec = _spec_patch(_wanted_spec(group, live), live.get("spec") or {})
    merged = {key: part for key, part in (("metadata", patch), ("spec", spec)) if part}
    return MergeGroup(merged) if merged else None


def pod_patch(group: Group, pod: Object) -> Mapping[str, Any] | None:
    """The JSON merge patch that ties the pod to its group; None when it is tied."""
    metadata: dict[str, Any] = {}
    if fields.annotations(pod).get(names.ANNOTATION_POD_GROUP) != group.name:
        metadata["annotations"] = {names.ANNOTATION_POD_GROUP: group.name}
    part = group.pod_sub_group
    if part and fields.labels(pod).get(names.LABEL_SUBGROUP) != part:
        metadata["labels"] = {names.LABEL_SUBGROUP: part}
    return {"metadata": metadata} if metadata else None


def waits_ungrouped(pod: Pod, why: str, now_s: float) -> Mapping[str, str] | None:
    """The condition of a pod that nobody will schedule because it has no group; None: it has it.

    Not `Unschedulable`, for which autoscalers would add nodes.
    """
    if names.ANNOTATION_POD_GROUP in pod.metadata.annotations or pod.spec.node_name:
        return None
    text = why if len(why) <= _MESSAGE_SIZE else f"{why[:_MESSAGE_SIZE]}..."
    said = pod.status.condition(names.CONDITION_POD_SCHEDULED)
    reason = names.REASON_POD_GROUPER_WARNING
    if said is not None and (said.status, said.reason, said.message) == ("False", reason, text):
        return None
    return condition(names.CONDITION_POD_SCHEDULED, False, reason, text, rfc3339(now_s))


def mistaken_label(group: Group, pod: Object, settings: GroupingSettings) -> str:
    """What to say of a group that was left to the default queue, though a label nearly named one;
    empty where none did.
    """
    if group.queue != names.DEFAULT_QUEUE or _names_queue(group, pod, settings):
        return ""
    written = {**group.labels, **fields.labels(pod)}
    meant = get_close_matches(settings.queue_label, written, n=1, cutoff=_ALIKE)
    if not meant:
        return ""
    return (
        f'it is charged to queue {group.queue}: nobody reads the label "{meant[0]}"; did you mean '
        f"{settings.queue_label}? Correct it and submit again, for a group keeps its queue"
    )


def unread_owner(group: Group, pod: Object, owner: ObjectRef, settings: GroupingSettings) -> str:
    """What to say of a group whose queue was left to the default because its owner is not readable;
    empty where somebody named the queue.
    """
    if group.queue != names.DEFAULT_QUEUE or _names_queue(group, pod, settings):
        return ""
    kind = f"{owner.kind} {owner.name} ({owner.api_version})"
    return (
        f"it is charged to queue {group.queue}: the pod grouper may not read {kind}, so a queue "
        f"label there is not seen; write the label {settings.queue_label} on the pod too, or give "
        "the pod grouper the right to get that kind"
    )


def unknown_class(group: Group, pod: Object, is_known: Callable[[str], bool]) -> str:
    """What to say of a group whose label names a priority class that is not there; empty where it
    is, or none is named.
    """
    key = names.LABEL_PRIORITY_CLASS
    named = group.labels.get(key) or fields.labels(pod).get(key, "")
    if not named or named == group.priority_class or is_known(named):
        return ""
    return (
        f'it has the priority class {group.priority_class}: the label "{key}" names {named}, and '
        "there is no such class; write one that `kubectl get priorityclasses` lists"
    )


def _names_queue(group: Group, pod: Object, settings: GroupingSettings) -> bool:
    keys = (settings.queue_label, names.LABEL_LEGACY_QUEUE)
    return any(key in fields.labels(pod) or key in group.labels for key in keys)


def _with_node_pool(group: Group, pod: Object, settings: GroupingSettings) -> dict[str, str]:
    key = settings.node_pool_label
    labels = dict(group.labels)
    if key not in labels and key in fields.labels(pod):
        labels[key] = fields.labels(pod)[key]
    return labels


def _wanted_spec(group: Group, live: Object) -> dict[str, Any]:
    spec, live_spec = group.spec(), live.get("spec") or {}
    for key in _KEPT_FROM_LIVE:
        spec.pop(key, None)
        if key in live_spec:
            spec[key] = live_spec[key]
    if not group.topology.name:
        # A workload that says no topology leaves alone what somebody set on the group by hand.
        spec["topologyConstraint"] = live_spec.get("topologyConstraint") or {}
    return spec


def _spec_patch(wanted: Mapping[str, Any], live: Mapping[str, Any]) -> dict[str, Any]:
    changed = {key: value for key, value in wanted.items() if live.get(key) != value}
    gone = {key: None for key in live if key not in wanted}
    if "topologyConstraint" in changed:
        old = live.get("topologyConstraint") or {}
        changed["topologyConstraint"] = {
            **{key: None for key in old if key not in wanted["topologyConstraint"]},
            **wanted["topologyConstraint"],
        }
    return {**gone, **changed}


def _metadata_patch(
    group: Group, labels: Mapping[str, str], live: Object, settings: GroupingSettings
) -> dict[str, Any]:
    live_labels = fields.labels(live)
    wanted = {key: value for key, value in labels.items() if key != settings.node_pool_label}
    if settings.queue_label in live_labels:
        wanted.pop(settings.queue_label, None)
    parts: dict[str, Any] = {
        "labels": _missing(wanted, live_labels),
        "annotations": _missing(group.annotations, fields.annotations(live)),
    }
    if live["metadata"].get("ownerReferences") != [dict(group.owner)]:
        parts["ownerReferences"] = [dict(group.owner)]
    return {key: part for key, part in parts.items() if part}


def _missing(wanted: Mapping[str, str], live: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in wanted.items() if live.get(key) != value}
