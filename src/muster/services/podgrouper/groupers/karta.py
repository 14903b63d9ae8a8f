"""Karta: a description of an unknown kind that says where its components and their scale are."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from muster.services.podgrouper.groupers import fields
from muster.services.podgrouper.groupers.default import base_group
from muster.services.podgrouper.groupers.group import (
    Group,
    GroupingError,
    GroupTopology,
    Object,
    SubGroup,
)
from muster.services.podgrouper.groupers.karta_tree import Components, lets_pass, single
from muster.services.podgrouper.groupers.workload import Workload

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_END_OF_NAME = re.compile(rf"(?=.{{1,213}}$)([-a-z0-9]*[a-z0-9])?(\.{_LABEL})*")
"""Of an object, behind the 40 letters of a uid and what stands before it."""


def karta_of(workload: Workload) -> Object | None:
    """The one description that fits the top owner; None when there is none, or more than one."""
    if not workload.settings.uses_kartas:
        return None
    group, version = fields.group_version(workload.top)
    kind = str(workload.top.get("kind") or "")
    fitting = [
        karta
        for karta in workload.reads.kartas(group, version, kind)
        if not karta["metadata"].get("deletionTimestamp")
        and _root_kind(karta) == (group, version, kind)
        and (group or kind == "Pod")
        and _instructions(karta)
        and _components(karta).is_sound()
        and _names_components(karta)
    ]
    return fitting[0] if len(fitting) == 1 else None


def group_by_karta(workload: Workload, karta: Object) -> Group:
    """A leaf per listed component; without a list, a gang of the root's scale."""
    instructions = _instructions(karta)
    described = instructions.get("podGroup")
    if described is None:
        return _flat(workload, _components(karta), instructions["podGroups"])
    group = base_group(workload, workload.top)
    name = f"pg-{fields.uid_of(workload.top)}-{described.get('name', '')}"
    group = replace(group, name=name)
    wanted = _topology(described.get("topology"))
    if wanted:
        group = replace(group, topology=wanted)
    listed, components = described.get("subGroups") or [], _components(karta)
    if not listed:
        return replace(group, min_member=components.scale(workload.top, components.root))
    leaves = tuple(_leaf(workload, karta, part) for part in listed)
    names = (leaf.name for leaf in leaves if components.is_of(workload.pod, leaf.name))
    return replace(
        group,
        min_member=None,
        min_sub_group=len(leaves),
        sub_groups=leaves,
        pod_sub_group=next(names, ""),
    )


def _leaf(workload: Workload, karta: Object, part: Mapping[str, Any]) -> SubGroup:
    name, components = str(part.get("componentName") or ""), _components(karta)
    if name not in components.by_name:
        raise GroupingError(f"component {name} not found", _karta_fix(karta))
    scale = components.scale(workload.top, name)
    if scale <= 0:
        raise GroupingError(
            f"component {name} must expose a replica scale definition",
            f"{workload.top.get('kind')} {fields.name_of(workload.top)} asks for no pods of it "
            "as it is; give it replicas, or have the component taken out of the Karta's subGroups",
        )
    return SubGroup(name, scale, topology=_topology(part.get("topology")))


def _karta_fix(karta: Object) -> str:
    return f"correct the gang instructions of Karta {fields.name_of(karta)}"


def _flat(
    workload: Workload, components: Components, described: Sequence[Mapping[str, Any]]
) -> Group:
    """The older form: groups without parts, each sized by the member that the pod is of."""
    owner, pod = workload.top, workload.pod
    leaf = components.leaf_of(pod, fields.name_of(pod))
    member = _member_of(pod, components.path_to_root(leaf), described)
    name = str(member["componentName"])
    instance = components.instance_of(owner, pod, name) if name == leaf else None
    keys = [
        key
        for path in member.get("groupByKeyPaths") or ()
        for key in single(pod, path, f'group key path "{path}"')
    ]
    group_name = "-".join([f"pg-{fields.uid_of(owner)}", *keys])
    if keys and not _END_OF_NAME.fullmatch("-".join(keys)):
        raise GroupingError(
            f"Karta grouping keys [{' '.join(keys)}] produce invalid Kubernetes PodGroup name "
            f'"{group_name}"'
        )
    return replace(
        base_group(workload, owner),
        name=group_name,
        min_member=components.scale(owner, name, instance),
    )


def _member_of(
    pod: Object, path: Sequence[str], described: Sequence[Mapping[str, Any]]
) -> Mapping[str, Any]:
    """The first member that lets the pod pass: of its own component, or else of one above it."""
    for component in path:
        for entry in described:
            for member in entry.get("members") or ():
                if member.get("componentName") == component and all(
                    lets_pass(pod, condition) for condition in member.get("filters") or ()
                ):
                    found: Mapping[str, Any] = member
                    return found
    raise GroupingError(
        f"pod {fields.key_of(pod)} does not match any Karta pod group member definition"
    )


def _instructions(karta: Object) -> Mapping[str, Any]:
    found = fields.mapping(karta, "spec", "optimizationInstructions", "gangScheduling") or {}
    return found if found.get("podGroup") is not None or found.get("podGroups") else {}


def _names_components(karta: Object) -> bool:
    """Whether all that the older form lists is there: the original passes over any other."""
    known = _components(karta).by_name
    groups = _instructions(karta).get("podGroups") or ()
    members = (member for group in groups for member in group.get("members") or ())
    return all(member.get("componentName") in known for member in members)


def _root_kind(karta: Object) -> tuple[str, str, str]:
    kind = fields.mapping(karta, "spec", "structureDefinition", "rootComponent", "kind") or {}
    return str(kind.get("group", "")), str(kind.get("version", "")), str(kind.get("kind", ""))


def _components(karta: Object) -> Components:
    structure = fields.mapping(karta, "spec", "structureDefinition") or {}
    return Components(
        [structure.get("rootComponent") or {}, *(structure.get("childComponents") or [])]
    )


def _topology(wanted: Mapping[str, str] | None) -> GroupTopology | None:
    if not wanted:
        return None
    found = GroupTopology(
        wanted.get("topologyName", ""),
        wanted.get("requiredTopologyLevel", ""),
        wanted.get("preferredTopologyLevel", ""),
    )
    if not found.name:
        raise GroupingError("topology constraint must include topology name")
    if not (found.required or found.preferred):
        raise GroupingError("topology constraint must include preferred or required topology level")
    return found
