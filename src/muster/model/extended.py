"""Extended resources that device classes stand for: which names, and how much of them slices
offer.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from muster.api.devices import DeviceClass, ResourceClaim, ResourceSlice
from muster.api.names import ANNOTATION_EXTENDED_RESOURCE_CLAIM
from muster.model.claim_needs import DeviceNeed
from muster.model.device_pool import DevicePool
from muster.model.node_index import NodeIndex
from muster.model.records import NodeRecord
from muster.model.requests import resource_column
from muster.numerics.axis import GPU_UNIT

_BY_CLASS = "deviceclass.resource.kubernetes.io/"
_OLDEST = datetime.min.replace(tzinfo=UTC)


def classes_by_resource(classes: Mapping[str, DeviceClass]) -> dict[str, DeviceClass]:
    """The class behind each resource name of the axis: of two with one name the newer counts."""
    found: dict[str, DeviceClass] = {}
    for each in sorted(classes.values(), key=_age):
        found[_BY_CLASS + each.metadata.name] = each
        if each.spec.extended_resource_name:
            found[resource_column(each.spec.extended_resource_name)] = each
    return found


def made_for_pods(claims: Mapping[str, ResourceClaim]) -> dict[str, str]:
    """The claim that was made for what a pod asks for by name, by the uid of the pod."""
    return {
        owner.uid: key
        for key, claim in claims.items()
        if claim.metadata.annotations.get(ANNOTATION_EXTENDED_RESOURCE_CLAIM) == "true"
        for owner in claim.metadata.owner_references
        if owner.kind == "Pod"
    }


def class_need(request: str, found: DeviceClass, count: int) -> DeviceNeed:
    """A request for so many devices of a class."""
    selectors = tuple(s.cel.expression for s in found.spec.selectors if s.cel is not None)
    return DeviceNeed(request, found.metadata.name, selectors, count)


def claimable_amounts(
    slices: Sequence[ResourceSlice], classes: Mapping[str, DeviceClass], offered: Mapping[str, int]
) -> dict[str, int]:
    """What a node's slices offer under resource names that no device plugin offers there."""
    node = next((part.spec.node_name for part in slices if part.spec.node_name), "")
    named = {name: c for name, c in classes_by_resource(classes).items() if not offered.get(name)}
    if not named or not node:
        return {}
    pool = DevicePool(slices, {node: 0}, NodeIndex([NodeRecord(node)]))
    amounts = {name: int(pool.accepted(class_need("", c, 1)).sum()) for name, c in named.items()}
    return {
        name: count * GPU_UNIT if name == "gpu" else count
        for name, count in amounts.items()
        if count
    }


def _age(found: DeviceClass) -> tuple[datetime, str]:
    return (found.metadata.creation_timestamp or _OLDEST, found.metadata.name)
