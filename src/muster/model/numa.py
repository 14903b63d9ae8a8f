"""NUMA zones of nodes, and the places of pods in them, read from API objects.

What cannot be read counts as not there: a node without zones has no topology, a malformed note
about a pod's place gives way to the next source.
"""

import re
from collections.abc import Iterable, Mapping

import msgspec

from muster.api.bindrequest import NUMAZone
from muster.api.names import ANNOTATION_NUMA_OBSERVED, ANNOTATION_NUMA_PREDICTED
from muster.api.noderesourcetopology import NodeResourceTopology, Zone
from muster.api.numatopology import Numatopology
from muster.api.quantity import BadQuantity, Quantity
from muster.base.json_text import NotJson, parse_json
from muster.model.numatopology import POLICIES, topology_of_volcano
from muster.model.records import NumaShare, NumaTopology, NumaZone
from muster.model.requests import resource_amounts

_SCOPES = ("container", "pod")
_LEGACY = {
    "None": ("none", "container"),
    "BestEffort": ("best-effort", "container"),
    "BestEffortContainerLevel": ("best-effort", "container"),
    "BestEffortPodLevel": ("best-effort", "pod"),
    "Restricted": ("restricted", "container"),
    "RestrictedContainerLevel": ("restricted", "container"),
    "RestrictedPodLevel": ("restricted", "pod"),
    "SingleNUMANodeContainerLevel": ("single-numa-node", "container"),
    "SingleNUMANodePodLevel": ("single-numa-node", "pod"),
}
_NUMBER = re.compile(r"(?<!\d)\d{1,18}$", re.ASCII)


def numa_topology(found: NodeResourceTopology | Numatopology) -> NumaTopology | None:
    """The zones of a node; None if it reports none."""
    if isinstance(found, Numatopology):
        return topology_of_volcano(found)
    zones = sorted((zone for zone in found.zones if zone.type == "Node"), key=_place)
    if not zones:
        return None
    policy, scope = _LEGACY.get(next(iter(found.topology_policies), ""), ("none", "container"))
    attributes = {attribute.name: attribute.value for attribute in found.attributes}
    told_policy = attributes.get("topologyManagerPolicy", "")
    told_scope = attributes.get("topologyManagerScope", "")
    return NumaTopology(
        zones=tuple(_zone(zone) for zone in zones),
        policy=told_policy if told_policy in POLICIES else policy,
        scope=told_scope if told_scope in _SCOPES else scope,
    )


def numa_place(
    annotations: Mapping[str, str], predicted: Iterable[NUMAZone] = ()
) -> tuple[NumaShare, ...]:
    """Where a pod is: as observed, else as its bind request says, else as predicted."""
    observed = _noted(annotations.get(ANNOTATION_NUMA_OBSERVED, ""))
    if observed:
        return observed
    asked = tuple(NumaShare(each.zone, resource_amounts(each.amount)) for each in predicted)
    return asked or _noted(annotations.get(ANNOTATION_NUMA_PREDICTED, ""))


def _place(zone: Zone) -> tuple[bool, int, str]:
    """Numbered zones first, by their number; then the others by name."""
    number = _NUMBER.search(zone.name)
    return (number is None, int(number.group()) if number else 0, zone.name)


def _zone(zone: Zone) -> NumaZone:
    return NumaZone(
        name=zone.name,
        allocatable=resource_amounts({r.name: r.allocatable for r in zone.resources}),
        available=resource_amounts({r.name: r.available for r in zone.resources}),
    )


class _Note(msgspec.Struct):
    zone: str
    amount: dict[str, str | int]


def _noted(text: str) -> tuple[NumaShare, ...]:
    if not text:
        return ()
    try:
        notes = parse_json(text, list[_Note])
        return tuple(
            NumaShare(note.zone, resource_amounts({n: Quantity(a) for n, a in note.amount.items()}))
            for note in notes
        )
    except (NotJson, BadQuantity):
        return ()
