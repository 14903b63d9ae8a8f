"""Grove: a PodGang lists its groups of pods and where they should stand together."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from muster.api import names
from muster.services.podgrouper.groupers import fields
from muster.services.podgrouper.groupers.default import (
    base_group,
    duration_or_empty,
    topology_of,
)
from muster.services.podgrouper.groupers.group import (
    Group,
    GroupingError,
    GroupTopology,
    Object,
    SubGroup,
)
from muster.services.podgrouper.groupers.workload import ObjectRef, Workload

_POD_GANG = "grove.io/podgang"
_TOPOLOGY_NAME = "grove.io/topology-name"


@dataclass(frozen=True, slots=True)
class _Member:
    """One `spec.podgroups[]` entry of a PodGang."""

    name: str
    least: int
    pods: frozenset[str]
    topology: GroupTopology | None


def group_pod_gang(workload: Workload) -> Group:
    """One group per PodGang, with a leaf per group of pods."""
    gang = _gang_of(workload)
    topology_name = _topology_name(gang, workload.top)
    group = _with_wishes_of_set(workload, gang, _base(workload, gang, topology_name))
    parents, parent_of = _parents(gang, topology_name)
    members = _members(gang, topology_name)
    leaves = tuple(
        SubGroup(one.name, one.least, parent=parent_of.get(one.name), topology=one.topology)
        for one in members
    )
    pod_name = fields.name_of(workload.pod)
    return replace(
        group,
        min_member=sum(one.least for one in members),
        sub_groups=parents + leaves,
        pod_sub_group=next((one.name for one in members if pod_name in one.pods), ""),
    )


def _gang_of(workload: Workload) -> Object:
    pod = workload.pod
    name = fields.labels(pod).get(_POD_GANG)
    if name is None:
        raise GroupingError(
            f"label for podgang name (key: {_POD_GANG}) not found in pod {fields.key_of(pod)}"
        )
    ref = ObjectRef("scheduler.grove.io/v1alpha1", "PodGang", fields.namespace_of(pod), name)
    gang = workload.reads.get(ref)
    if gang is None:
        raise GroupingError(
            f"failed to get PodGang {ref.namespace}/{name}. "
            f'Err: PodGang.scheduler.grove.io "{name}" not found'
        )
    return gang


def _topology_name(gang: Object, owner: Object) -> str:
    for thing in (gang, owner):
        named = (
            fields.annotations(thing).get(_TOPOLOGY_NAME)
            or topology_of(fields.annotations(thing)).name
        )
        if named:
            return named
    return ""


def _base(workload: Workload, gang: Object, topology_name: str) -> Group:
    group = base_group(workload, gang)
    try:
        wanted = _pack_constraint(fields.mapping(gang, "spec") or {}, topology_name)
    except GroupingError as wrong:
        raise GroupingError(
            f"failed to apply topology constraints from PodGang {fields.key_of(gang)}. Err: "
            f"failed to parse topology from PodGang, Err: {wrong}"
        ) from None
    if wanted:
        said = group.topology
        group = replace(
            group,
            topology=GroupTopology(
                wanted.name, wanted.required or said.required, wanted.preferred or said.preferred
            ),
        )
    asked = fields.text(gang, "spec", "priorityClassName")
    return group if asked is None else replace(group, priority_class=asked)


def _with_wishes_of_set(workload: Workload, gang: Object, group: Group) -> Group:
    """What the set that owns the gang says, where the gang itself does not."""
    owner = workload.top
    marks = {**fields.labels(owner), **group.labels}
    wishes = {**fields.annotations(owner), **group.annotations}
    fallback = topology_of(wishes)
    queue_key = workload.settings.queue_label
    says_queue = queue_key in fields.labels(gang) or queue_key in fields.labels(workload.pod)
    delay = duration_or_empty(
        wishes.get(names.ANNOTATION_PREEMPTION_DELAY, ""), lambda value: value >= 0
    )
    staleness = duration_or_empty(wishes.get(names.ANNOTATION_STALENESS_GRACE_PERIOD, ""))
    return replace(
        group,
        labels=marks,
        annotations=wishes,
        queue=group.queue if says_queue else marks.get(queue_key, group.queue),
        # A label, also of the gang itself and whatever it says, beats the gang's field.
        priority_class=marks.get(names.LABEL_PRIORITY_CLASS, group.priority_class),
        preemptibility=_preemptibility(workload, gang, marks, group),
        preemption_delay=delay or group.preemption_delay,
        staleness_grace_period=group.staleness_grace_period or staleness,
        topology=GroupTopology(
            group.topology.name or fallback.name,
            group.topology.required or fallback.required,
            group.topology.preferred or fallback.preferred,
        ),
    )


def _preemptibility(
    workload: Workload, gang: Object, marks: Mapping[str, str], group: Group
) -> str:
    value = marks.get(names.LABEL_PREEMPTIBILITY)
    if value is None:
        return group.preemptibility
    if value not in ("", "preemptible", "non-preemptible"):
        namespace = fields.namespace_of(workload.pod)
        raise GroupingError(
            f"failed to get metadata from top owner {namespace}/{fields.name_of(gang)}. Err: "
            f"failed to parse preemptibility from top owner {group.namespace}/{group.name}. "
            f"Err: invalid preemptibility value: {value}",
            f"write preemptible or non-preemptible in the label {names.LABEL_PREEMPTIBILITY}",
        )
    return value


def _members(gang: Object, topology_name: str) -> list[_Member]:
    found = []
    for number, entry in enumerate(fields.items(gang, "spec", "podgroups")):
        where = f"spec.podgroups[{number}]"
        try:
            found.append(_member(entry, topology_name, where, gang))
        except GroupingError as wrong:
            raise GroupingError(
                f"failed to parse {where} from PodGang {fields.key_of(gang)}. Err: {wrong}"
            ) from None
    return found


def _member(entry: Mapping[str, Any], topology_name: str, where: str, gang: Object) -> _Member:
    name = fields.text(entry, "name")
    if not name:
        raise GroupingError("missing required 'name' field")
    least = fields.integer(entry, "minReplicas")
    if least is None:
        raise GroupingError("missing required 'minReplicas' field")
    if least <= 0:
        raise GroupingError("invalid 'minReplicas' field. Must be greater than 0")
    if entry.get("podReferences") is None:
        raise GroupingError("missing required 'podReferences' field")
    listed = enumerate(fields.items(entry, "podReferences"))
    pods = frozenset(_referred(one, f"{where}.podreferences[{at}]", gang) for at, one in listed)
    return _Member(name, least, pods, _pack_constraint(entry, topology_name))


def _referred(reference: Mapping[str, Any], path: str, gang: Object) -> str:
    """The pod of a reference, which is in the namespace of its gang."""
    where, name = fields.text(reference, "namespace"), fields.text(reference, "name")
    for field, value in (("namespace", where), ("name", name)):
        if value is None:
            raise GroupingError(
                f"failed to parse {path} from PodGang {fields.key_of(gang)}. "
                f"Err: missing required '{field}' field"
            )
    namespace = fields.namespace_of(gang)
    if where != namespace:
        raise GroupingError(
            f"cross-namespace pod reference not allowed: pod {where}/{name} cannot be referenced "
            f"from PodGang in namespace {namespace}"
        )
    return str(name)


def _parents(gang: Object, topology_name: str) -> tuple[tuple[SubGroup, ...], dict[str, str]]:
    """Groups of groups, and which parent each group of pods belongs to."""
    known = {str(one.get("name")) for one in fields.items(gang, "spec", "podgroups")}
    parents: list[SubGroup] = []
    parent_of: dict[str, str] = {}
    configs = fields.items(gang, "spec", "topologyConstraintGroupConfigs")
    for number, config in enumerate(configs):
        name = fields.text(config, "name")
        if not name:
            raise GroupingError(
                f"failed to parse topologyConstraintGroupConfig[{number}]: "
                "missing required 'name' field"
            )
        listed = fields.items(config, "podGroupNames")
        parent_of.update(dict.fromkeys((one for one in listed if one in known), name))
        if listed:
            parents.append(SubGroup(name, topology=_pack_constraint(config, topology_name)))
    # Of two that list a group the later has it; who is left with none could never be satisfied.
    sizes = Counter(parent_of.values())
    counted = (replace(one, min_sub_group=sizes[one.name]) for one in parents if sizes[one.name])
    return tuple(counted), parent_of


def _pack_constraint(entry: Mapping[str, Any], topology_name: str) -> GroupTopology | None:
    pack = fields.mapping(entry, "topologyConstraint", "packConstraint") or {}
    required, preferred = str(pack.get("required") or ""), str(pack.get("preferred") or "")
    if not required and not preferred:
        return None
    if not topology_name:
        raise GroupingError("topology name cannot be empty when topology constraints are defined")
    return GroupTopology(topology_name, required, preferred)
