"""Devices that were given, in the words of the API: what a bind request carries to the binder."""

from collections.abc import Iterable, Mapping, Sequence

from muster.api.bindrequest import (
    ContainerMapping,
    ExtendedResourceClaimAllocation,
    ResourceClaimAllocation,
)
from muster.api.devices import (
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceRequest,
    DeviceRequestAllocationResult,
    ExactDeviceRequest,
    ResourceClaim,
)
from muster.api.selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from muster.model.claim_book import ClaimBook
from muster.model.claim_needs import DeviceNeed
from muster.model.cluster_objects import ClusterObjects
from muster.model.device_allocator import Allocation
from muster.model.device_pool import DevicePool


def claim_allocations(
    book: ClaimBook, keys: Mapping[str, str], objects: ClusterObjects, node: str
) -> tuple[ResourceClaimAllocation, ...]:
    """The allocation of each claim by the pod's entry for it: the recorded one, where there is
    one.
    """
    return tuple(
        ResourceClaimAllocation(name=entry, allocation=_claim_allocation(book, key, objects, node))
        for entry, key in keys.items()
    )


def extended_allocation(
    pool: DevicePool,
    given: Allocation,
    asks: Sequence[tuple[DeviceNeed, ContainerMapping | None]],
    objects: ClusterObjects,
    node: str,
) -> ExtendedResourceClaimAllocation:
    """The claim that stands for resources which the pod asks for by name."""
    classes = [ask.device_class for ask, _ in asks]
    return ExtendedResourceClaimAllocation(
        allocation=_result(pool, given, _class_configuration(classes, objects), node),
        container_mappings=tuple(mapping for _, mapping in asks if mapping is not None),
        device_requests=tuple(
            DeviceRequest(
                name=ask.request,
                exactly=ExactDeviceRequest(
                    device_class_name=ask.device_class,
                    allocation_mode="ExactCount",
                    count=ask.count,
                ),
            )
            for ask, _ in asks
        ),
    )


def _claim_allocation(
    book: ClaimBook, key: str, objects: ClusterObjects, node: str
) -> AllocationResult:
    claim = objects.device_claims.get(key, ResourceClaim())
    if claim.status.allocation is not None:
        return claim.status.allocation
    requests = claim.spec.devices.requests
    classes = [r.exactly.device_class_name for r in requests if r.exactly is not None]
    classes += [sub.device_class_name for r in requests for sub in r.first_available]
    own = tuple(
        DeviceAllocationConfiguration(
            opaque=part.opaque, requests=part.requests, source="FromClaim"
        )
        for part in claim.spec.devices.config
    )
    configuration = (*_class_configuration(classes, objects), *own)
    return _result(book.pool, book.allocation(key), configuration, node)


def _result(
    pool: DevicePool,
    given: Allocation,
    configuration: tuple[DeviceAllocationConfiguration, ...],
    node: str,
) -> AllocationResult:
    results = tuple(
        DeviceRequestAllocationResult(
            request=part.request,
            driver=pool.ids[part.device].driver,
            pool=pool.ids[part.device].pool,
            device=pool.ids[part.device].device,
            admin_access=True if part.is_admin else None,
        )
        for part in given
    )
    is_local = any(part.device not in pool.roaming for part in given)
    return AllocationResult(
        devices=DeviceAllocationResult(config=configuration, results=results),
        node_selector=_only(node) if is_local else None,
    )


def _class_configuration(
    classes: Iterable[str], objects: ClusterObjects
) -> tuple[DeviceAllocationConfiguration, ...]:
    return tuple(
        DeviceAllocationConfiguration(opaque=part.opaque, source="FromClass")
        for name in dict.fromkeys(classes)
        if name in objects.device_classes
        for part in objects.device_classes[name].spec.config
    )


def _only(node: str) -> NodeSelector:
    field = NodeSelectorRequirement(key="metadata.name", operator="In", values=(node,))
    return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(field,)),))
