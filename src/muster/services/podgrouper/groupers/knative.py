"""Knative services: a gang per revision, or pod by pod where that is how the revision began."""

from collections import Counter
from dataclasses import replace

from muster.api import names
from muster.services.podgrouper.groupers import fields
from muster.services.podgrouper.groupers.default import INFERENCE, base_group
from muster.services.podgrouper.groupers.group import Group, GroupingError, GroupTopology, Object
from muster.services.podgrouper.groupers.pods import alone
from muster.services.podgrouper.groupers.workload import ObjectRef, Workload

_REVISION = "serving.knative.dev/revision"
_MIN_SCALE = "autoscaling.knative.dev/min-scale"


def group_knative_service(workload: Workload) -> Group:
    """The revision as a gang of its minimum scale."""
    pod = workload.pod
    name = fields.labels(pod).get(_REVISION)
    if not name:
        raise GroupingError(
            f"revisionName not found for knative service pod {fields.key_of(pod)}",
            f"the label {_REVISION}, which Knative writes on the pods of a revision, is not there",
        )
    ref = ObjectRef("serving.knative.dev/v1", "Revision", fields.namespace_of(pod), name)
    revision = workload.reads.get(ref)
    if revision is None:
        raise GroupingError(f'Revision.serving.knative.dev "{name}" not found')
    group = _revision_group(workload, revision)
    if not workload.settings.knative_gangs or not _is_gang(workload, revision):
        return alone(workload, replace(group, priority_class=INFERENCE))
    return replace(group, min_member=_min_scale(revision))


def _revision_group(workload: Workload, revision: Object) -> Group:
    """Revisions scale by traffic: they take no preemptibility, delay or topology of their own."""
    return replace(
        base_group(workload, revision, INFERENCE),
        preemptibility="",
        preemption_delay="",
        staleness_grace_period="",
        topology=GroupTopology(),
    )


def _min_scale(revision: Object) -> int:
    try:
        return fields.parsed_int(fields.annotations(revision).get(_MIN_SCALE, ""))
    except ValueError:
        return 1


def _is_gang(workload: Workload, revision: Object) -> bool:
    """Pods that were grouped before decide; a revision never mixes both ways."""
    namespace = fields.namespace_of(workload.pod)
    pods = workload.reads.pods(namespace, {_REVISION: fields.name_of(revision)})
    used = Counter(
        group for pod in pods if (group := fields.annotations(pod).get(names.ANNOTATION_POD_GROUP))
    )
    if not used or max(used.values()) > 1:
        return True
    if len(used) > 1:
        return False
    name = next(iter(used))
    live = workload.reads.pod_groups(namespace).get(name)
    if live is None:
        return True
    return _gang_by_owner(workload, revision, live)


def _gang_by_owner(workload: Workload, revision: Object, live: Object) -> bool:
    owners = live["metadata"].get("ownerReferences") or []
    kind = owners[0].get("kind") if owners else None
    if kind in ("Revision", "Pod"):
        return bool(kind == "Revision")
    about = (
        f"unable to determine gang behavior for revision {fields.key_of(revision)} and pod "
        f"{fields.key_of(workload.pod)}: podgroup {fields.name_of(live)}"
    )
    if not owners:
        raise GroupingError(f"{about} has no owner references")
    first = owners[0]
    shown = " ".join(str(first.get(key, "")) for key in ("apiVersion", "kind", "name", "uid"))
    raise GroupingError(f"{about} has unexpected owner reference: {{{shown} <nil> <nil>}}")
