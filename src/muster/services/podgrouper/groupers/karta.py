"""Karta: a description of an unknown kind that says where its components and their scale are."""

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
from muster.services.podgrouper.groupers.paths import is_path, value_at
from muster.services.podgrouper.groupers.workload import Workload


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
        and _instructions(karta)
    ]
    return fitting[0] if len(fitting) == 1 else None


def group_by_karta(workload: Workload, karta: Object) -> Group:
    """A leaf per listed component; without a list, a gang of the root's scale."""
    instructions = _instructions(karta)
    group = base_group(workload, workload.top, considered=workload.owners or [workload.top])
    described = instructions.get("podGroup")
    if not described:
        return _flat(workload, karta, group, instructions["podGroups"])
    name = f"pg-{fields.uid_of(workload.top)}-{described.get('name', '')}"
    group = replace(group, name=name)
    wanted = _topology(described.get("topology"), "podGroup")
    if wanted:
        group = replace(group, topology=wanted)
    listed = described.get("subGroups") or []
    if not listed:
        return replace(group, min_member=_scale(workload.top, karta, _root_name(karta)))
    leaves = tuple(
        SubGroup(
            part["componentName"],
            _scale(workload.top, karta, part["componentName"]),
            topology=_topology(part.get("topology"), part["componentName"]),
        )
        for part in listed
    )
    return replace(
        group,
        min_member=None,
        min_sub_group=len(leaves),
        sub_groups=leaves,
        pod_sub_group=_component_of(workload.pod, karta, [leaf.name for leaf in leaves]),
    )


def _flat(
    workload: Workload, karta: Object, group: Group, described: Sequence[Mapping[str, Any]]
) -> Group:
    """The older form: one group, sized by its first component that this pod matches."""
    for entry in described:
        names = [part["componentName"] for part in entry.get("members") or []]
        if not names or _component_of(workload.pod, karta, names):
            minimum = sum(_scale(workload.top, karta, name) for name in names) or 1
            return replace(group, name=f"pg-{fields.uid_of(workload.top)}", min_member=minimum)
    return group


def _instructions(karta: Object) -> Mapping[str, Any]:
    found = fields.mapping(karta, "spec", "optimizationInstructions", "gangScheduling") or {}
    return found if found.get("podGroup") or found.get("podGroups") else {}


def _root_kind(karta: Object) -> tuple[str, str, str]:
    kind = fields.mapping(karta, "spec", "structureDefinition", "rootComponent", "kind") or {}
    return str(kind.get("group", "")), str(kind.get("version", "")), str(kind.get("kind", ""))


def _root_name(karta: Object) -> str:
    return str(_components(karta)[0].get("name", ""))


def _components(karta: Object) -> list[Mapping[str, Any]]:
    """Root first."""
    structure = fields.mapping(karta, "spec", "structureDefinition") or {}
    return [structure.get("rootComponent") or {}, *(structure.get("childComponents") or [])]


def _scale(owner: Object, karta: Object, component: str) -> int:
    """How many pods a component has, those of the components below it included."""
    total = 0
    for one in _components(karta):
        if one.get("name") == component:
            total += _own_scale(owner, one)
        elif one.get("ownerRef") == component:
            total += _scale(owner, karta, str(one.get("name")))
    if total <= 0:
        raise GroupingError(
            f"component {component} of {fields.key_of(owner)} has a scale of {total}; "
            "a gang needs at least one pod"
        )
    return total


def _own_scale(owner: Object, component: Mapping[str, Any]) -> int:
    if not (component.get("specDefinition") or {}).get("podTemplateSpecPath"):
        return 0
    path = (component.get("scaleDefinition") or {}).get("replicasPath")
    value = _at(owner, path) if path else 1
    return value if isinstance(value, int) else 1


def _component_of(pod: Object, karta: Object, names: Sequence[str]) -> str:
    for one in _components(karta):
        selector = (one.get("podSelector") or {}).get("componentTypeSelector") or {}
        if one.get("name") not in names or not selector.get("keyPath"):
            continue
        value = _at(pod, selector["keyPath"])
        if value is not None and ("value" not in selector or value == selector["value"]):
            return str(one["name"])
    return ""


def _topology(wanted: Mapping[str, str] | None, where: str) -> GroupTopology | None:
    if not wanted:
        return None
    found = GroupTopology(
        wanted.get("topologyName", ""),
        wanted.get("requiredTopologyLevel", ""),
        wanted.get("preferredTopologyLevel", ""),
    )
    if not found.name or not (found.required or found.preferred):
        raise GroupingError(f"topology of {where} needs topologyName and at least one level")
    return found


def _at(thing: Any, path: str) -> Any:
    """The value at a JQ path, None when there is none."""
    if not is_path(path):
        raise GroupingError(f"path {path} is more than a chain of fields")
    return value_at(thing, path)
