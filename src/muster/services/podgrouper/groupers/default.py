"""Anything we do not know by name: a gang of one per top owner. Every other grouper starts here."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from muster.api import names
from muster.services.podgrouper.groupers import fields
from muster.services.podgrouper.groupers.fields import annotations, labels
from muster.services.podgrouper.groupers.go_text import (
    duration_nanoseconds,
    duration_text,
    yaml_scalar,
)
from muster.services.podgrouper.groupers.group import Group, GroupTopology, Object
from muster.services.podgrouper.groupers.workload import Workload

TRAIN, BUILD, INFERENCE = "train", "build", "inference"

_PREEMPTIBILITY = ("preemptible", "non-preemptible")


def group_by_top_owner(workload: Workload) -> Group:
    """One group per top owner, of at least one pod; every owner on the way may speak."""
    return base_group(workload, workload.top, considered=workload.owners or [workload.top])


def base_group(
    workload: Workload,
    top: Object,
    priority_class: str = TRAIN,
    considered: Sequence[Object] | None = None,
) -> Group:
    """The group of `top` as its labels and annotations describe it.

    `considered` are the owners asked for class, preemptibility and durations, nearest first; a
    grouper that knows its kind asks the top owner alone.
    """
    asked = considered if considered is not None else [top]
    pod = workload.pod
    return Group(
        name=f"pg-{fields.name_of(top)}-{fields.uid_of(top)}",
        namespace=fields.namespace_of(pod),
        owner=owner_reference(top),
        labels=_group_labels(top, pod),
        annotations=_group_annotations(top, pod),
        queue=_queue(workload, top),
        priority_class=_priority_class(workload, asked, priority_class),
        preemptibility=_preemptibility(workload, asked),
        preemption_delay=_duration(
            [*asked, pod], names.ANNOTATION_PREEMPTION_DELAY, lambda delay: delay >= 0
        ),
        staleness_grace_period=_duration([*asked, pod], names.ANNOTATION_STALENESS_GRACE_PERIOD),
        topology=topology_of(annotations(top)),
    )


def owner_reference(thing: Object) -> dict[str, str]:
    return {
        "apiVersion": str(thing.get("apiVersion") or ""),
        "kind": str(thing.get("kind") or ""),
        "name": fields.name_of(thing),
        "uid": fields.uid_of(thing),
    }


def topology_of(wishes: Mapping[str, str]) -> GroupTopology:
    """The topology constraint that annotations ask for."""
    return GroupTopology(
        name=wishes.get(names.ANNOTATION_TOPOLOGY, ""),
        required=wishes.get(names.ANNOTATION_TOPOLOGY_REQUIRED, ""),
        preferred=wishes.get(names.ANNOTATION_TOPOLOGY_PREFERRED, ""),
    )


def duration_or_empty(value: str, is_legal: Callable[[int], bool] = lambda _: True) -> str:
    """A duration in its canonical notation; empty when it cannot be read or is not legal."""
    try:
        nanoseconds = duration_nanoseconds(value)
    except ValueError:
        return ""
    return duration_text(nanoseconds) if is_legal(nanoseconds) else ""


def _group_labels(top: Object, pod: Object) -> dict[str, str]:
    found = dict(labels(top))
    if names.LABEL_USER not in found and names.LABEL_USER in labels(pod):
        found[names.LABEL_USER] = labels(pod)[names.LABEL_USER]
    return found


def _group_annotations(top: Object, pod: Object) -> dict[str, str]:
    found = (
        {names.LABEL_USER: annotations(pod)[names.LABEL_USER]}
        if names.LABEL_USER in annotations(pod)
        else {}
    )
    found.update(annotations(top))
    # Written last: an owner that carries the same key must not pass for somebody else.
    found[names.ANNOTATION_TOP_OWNER] = _top_owner_text(top)
    return found


def _top_owner_text(top: Object) -> str:
    group, version = fields.group_version(top)
    facts = {
        "name": fields.name_of(top),
        "uid": fields.uid_of(top),
        "group": group,
        "version": version,
        "kind": str(top.get("kind") or ""),
    }
    return "".join(f"{key}: {yaml_scalar(value)}\n" for key, value in facts.items())


def _queue(workload: Workload, top: Object) -> str:
    key = workload.settings.queue_label
    for thing in (top, workload.pod):
        if key in labels(thing):
            return labels(thing)[key]
    said = {
        **labels(workload.pod),
        **labels(top),
    }  # also where the owner says nothing in so many words
    project = said.get(names.LABEL_LEGACY_QUEUE)
    if not project:
        return names.DEFAULT_QUEUE
    pool = labels(workload.pod).get(workload.settings.node_pool_label)
    return project if pool is None else f"{project}-{pool}"


def _priority_class(workload: Workload, owners: Sequence[Object], otherwise: str) -> str:
    for candidate in _priority_class_candidates(workload, owners):
        if candidate and workload.reads.has_priority_class(candidate):
            return candidate
    return otherwise


def _priority_class_candidates(workload: Workload, owners: Sequence[Object]) -> Iterator[str]:
    pod = workload.pod
    for owner in owners:
        # Whoever speaks first for an owner hides the others, even with an empty or unknown class.
        for source in (labels(owner), labels(pod)):
            if names.LABEL_PRIORITY_CLASS in source:
                yield source[names.LABEL_PRIORITY_CLASS]
                break
        else:
            yield (pod.get("spec") or {}).get("priorityClassName") or ""
    for owner in owners:
        defaults = workload.settings.defaults_of(owner)
        if defaults:
            yield defaults.priority_class


def _preemptibility(workload: Workload, owners: Sequence[Object]) -> str:
    for thing in [*owners, workload.pod]:
        value = labels(thing).get(names.LABEL_PREEMPTIBILITY)
        if value is not None and (value == "" or value in _PREEMPTIBILITY):
            return value
    for owner in owners:
        defaults = workload.settings.defaults_of(owner)
        value = defaults.preemptibility.lower() if defaults else ""
        if value in _PREEMPTIBILITY:
            return value
    return ""


def _duration(
    things: Sequence[Object], key: str, is_legal: Callable[[int], bool] = lambda _: True
) -> str:
    for thing in things:
        found = duration_or_empty(annotations(thing).get(key, ""), is_legal)
        if found:
            return found
    return ""
