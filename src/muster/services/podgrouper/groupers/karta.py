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
        and _is_sound(karta)
    ]
    return fitting[0] if len(fitting) == 1 else None


def group_by_karta(workload: Workload, karta: Object) -> Group:
    """A leaf per listed component; without a list, a gang of the root's scale."""
    instructions = _instructions(karta)
    group = base_group(workload, workload.top)
    described = instructions.get("podGroup")
    if not described:
        return _flat(workload, karta, group, instructions["podGroups"])
    name = f"pg-{fields.uid_of(workload.top)}-{described.get('name', '')}"
    group = replace(group, name=name)
    wanted = _topology(described.get("topology"))
    if wanted:
        group = replace(group, topology=wanted)
    listed = described.get("subGroups") or []
    if not listed:
        return replace(group, min_member=_scale(workload.top, karta, _root_name(karta)))
    leaves = tuple(_leaf(workload, karta, part) for part in listed)
    names = (leaf.name for leaf in leaves if _is_of(workload.pod, karta, leaf.name))
    return replace(
        group,
        min_member=None,
        min_sub_group=len(leaves),
        sub_groups=leaves,
        pod_sub_group=next(names, ""),
    )


def _leaf(workload: Workload, karta: Object, part: Mapping[str, Any]) -> SubGroup:
    name = str(part.get("componentName") or "")
    if not any(one.get("name") == name for one in _components(karta)):
        raise GroupingError(f"component {name} not found", _karta_fix(karta))
    scale = _scale(workload.top, karta, name)
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
    workload: Workload, karta: Object, group: Group, described: Sequence[Mapping[str, Any]]
) -> Group:
    """The older form: one group, sized by its first component that this pod matches."""
    for entry in described:
        names = [part["componentName"] for part in entry.get("members") or []]
        if not names or any(_is_of(workload.pod, karta, name) for name in names):
            minimum = sum(_scale(workload.top, karta, name) for name in names) or 1
            return replace(group, name=f"pg-{fields.uid_of(workload.top)}", min_member=minimum)
    return group


def _instructions(karta: Object) -> Mapping[str, Any]:
    found = fields.mapping(karta, "spec", "optimizationInstructions", "gangScheduling") or {}
    return found if found.get("podGroup") or found.get("podGroups") else {}


def _root_kind(karta: Object) -> tuple[str, str, str]:
    kind = fields.mapping(karta, "spec", "structureDefinition", "rootComponent", "kind") or {}
    return str(kind.get("group", "")), str(kind.get("version", "")), str(kind.get("kind", ""))


def _is_sound(karta: Object) -> bool:
    """Whether its components are a tree below the root: the original passes over any other."""
    root, *children = _components(karta)
    names = [str(one.get("name") or "") for one in (root, *children)]
    reached = [one.get("name") for one in _subtree(karta, names[0])]
    is_tree = all(names) and len(set(names)) == len(names) == len(reached)
    return is_tree and not root.get("ownerRef") and root.get("statusDefinition") is not None


def _root_name(karta: Object) -> str:
    return str(_components(karta)[0].get("name", ""))


def _components(karta: Object) -> list[Mapping[str, Any]]:
    """Root first."""
    structure = fields.mapping(karta, "spec", "structureDefinition") or {}
    return [structure.get("rootComponent") or {}, *(structure.get("childComponents") or [])]


def _scale(owner: Object, karta: Object, component: str) -> int:
    """The pods of a component and of those below it: what both say is multiplied, and who says
    nothing leaves it to the other. Where no component of a Karta has a scale, its leaves count.
    """
    listed = _components(karta)
    if not any(one.get("scaleDefinition") for one in listed):
        return sum(_has_pods(one) for one in _subtree(karta, component))
    this = next(one for one in listed if one.get("name") == component)
    own = _own_scale(owner, this.get("scaleDefinition") or {})
    below = [str(one.get("name")) for one in listed if one.get("ownerRef") == component]
    total = sum(_scale(owner, karta, name) for name in below)
    return own * total if own and total else own or total


def _own_scale(owner: Object, definition: Mapping[str, Any]) -> int:
    for key in ("minReplicasPath", "replicasPath"):
        value = _at(owner, definition[key]) if definition.get(key) else None
        if isinstance(value, int) and value > 0:
            return value
    return 0


def _has_pods(component: Mapping[str, Any]) -> bool:
    paths = ("podTemplateSpecPath", "podSpecPath", "fragmentedPodSpecDefinition")
    return any((component.get("specDefinition") or {}).get(path) for path in paths)


def _subtree(karta: Object, root: str) -> list[Mapping[str, Any]]:
    """A component and all below it; a description may go in a circle."""
    listed, names = _components(karta), [root]
    for name in names:
        below = (str(one.get("name")) for one in listed if one.get("ownerRef") == name)
        names += [one for one in below if one not in names]
    return [one for one in listed if one.get("name") in names]


def _is_of(pod: Object, karta: Object, component: str) -> bool:
    """Whether the pod is of the component, or of one below it."""
    return any(_is_selected(pod, one) for one in _subtree(karta, component))


def _is_selected(pod: Object, component: Mapping[str, Any]) -> bool:
    selector = (component.get("podSelector") or {}).get("componentTypeSelector") or {}
    if not selector.get("keyPath"):
        return False
    value = _at(pod, selector["keyPath"])
    return value is not None and ("value" not in selector or value == selector["value"])


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


def _at(thing: Any, path: str) -> Any:
    """The value at a JQ path, None when there is none."""
    if not is_path(path):
        raise GroupingError(f"path {path} is more than a chain of fields")
    return value_at(thing, path)
