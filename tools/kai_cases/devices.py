"""The DRA objects of a KAI case as the API has them, and back again between rounds."""

import msgspec
from tools.kai_cases import format as kai

from muster.api.devices import (
    Device,
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimStatus,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from muster.api.meta import ObjectMeta, replace
from muster.model.cluster_objects import ClusterObjects

_DRIVER = "nvidia.com/gpu"
_REQUEST = "request"


def surroundings_of(devices: kai.DeviceObjects) -> ClusterObjects:
    """Classes without selectors, slices of numbered devices, claims with one request."""
    return ClusterObjects(
        device_classes={
            name: DeviceClass(metadata=ObjectMeta(name=name)) for name in devices.device_classes
        },
        device_slices={each.name: _slice(each) for each in devices.resource_slices},
        device_claims={
            f"{each.namespace}/{each.name}": _claim(each) for each in devices.resource_claims
        },
    )


def devices_after(devices: kai.DeviceObjects, objects: ClusterObjects) -> kai.DeviceObjects:
    """The objects with what claims hold after a round."""
    claims = []
    for each in devices.resource_claims:
        held = objects.device_claims[f"{each.namespace}/{each.name}"].status
        status = kai.ClaimStatus(allocation=held.allocation, reserved_for=held.reserved_for)
        claims.append(msgspec.structs.replace(each, claim_status=status))
    return msgspec.structs.replace(devices, resource_claims=tuple(claims))


def _slice(each: kai.ResourceSlice) -> ResourceSlice:
    numbered = tuple(Device(name=str(number)) for number in range(each.count))
    return ResourceSlice(
        metadata=ObjectMeta(name=each.name),
        spec=ResourceSliceSpec(
            driver=_DRIVER,
            pool=ResourcePool(name=each.node_name, resource_slice_count=1),
            node_name=each.node_name,
            devices=numbered,
        ),
    )


def _claim(each: kai.ResourceClaim) -> ResourceClaim:
    wanted = ExactDeviceRequest(device_class_name=each.device_class_name, count=each.count)
    request = DeviceRequest(name=_REQUEST, exactly=wanted)
    held = each.claim_status
    return ResourceClaim(
        metadata=ObjectMeta(name=each.name, namespace=each.namespace, labels=each.labels),
        spec=ResourceClaimSpec(devices=DeviceClaim(requests=(request,))),
        status=ResourceClaimStatus(
            allocation=held.allocation,
            reserved_for=tuple(
                replace(user, uid=user.uid or user.name) for user in held.reserved_for
            ),
        ),
    )
