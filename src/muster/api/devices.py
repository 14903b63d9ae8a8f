"""Devices by dynamic resource allocation (resource.k8s.io/v1): claims, slices, classes.

The structs under AllocationResult and DeviceRequest hold every field, because a BindRequest carries
them from the scheduler to the binder and nothing may be lost on the way.
"""

import builtins
from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec

from muster.api.affinity import Taint, Toleration
from muster.api.core import ResourceList
from muster.api.meta import ApiObject, ObjectMeta, OwnerReference, Struct, Time
from muster.api.quantity import Quantity
from muster.api.schema import ATOMIC, INT64, Schema
from muster.api.selectors import NodeSelector

POD_GROUP_API: Final = "scheduling.k8s.io"
"""Kubernetes' own gangs (alpha): a PodGroup of it may hold claims for all its pods."""


class CELDeviceSelector(Struct):
    expression: Annotated[str, Schema("A CEL expression over `device`.")]


class DeviceSelector(Struct):
    cel: CELDeviceSelector | None = None


class DeviceToleration(Toleration):
    operator: Annotated[str, Schema("Exists or Equal.", default="Equal")] = "Equal"


class CapacityRequirements(Struct):
    requests: ResourceList = {}


class DevicesOfClass(Struct):
    allocation_mode: Annotated[str, Schema("ExactCount (the default) or All.")] = ""
    capacity: CapacityRequirements | None = None
    count: Annotated[int, INT64, Schema("How many devices; 1 where it is not given.")] = 0
    device_class_name: str
    selectors: Annotated[tuple[DeviceSelector, ...], ATOMIC] = ()
    tolerations: Annotated[tuple[DeviceToleration, ...], ATOMIC] = ()

    @property
    def least_devices(self) -> int:
        """How many devices it asks for; of all that there are, one at the least."""
        return 1 if self.allocation_mode == "All" else max(1, self.count)


class ExactDeviceRequest(DevicesOfClass):
    admin_access: bool | None = None


class DeviceSubRequest(DevicesOfClass):
    name: str


class DeviceRequest(Struct):
    exactly: ExactDeviceRequest | None = None
    first_available: Annotated[
        tuple[DeviceSubRequest, ...], ATOMIC, Schema("Alternatives, best first.")
    ] = ()
    name: str


class OpaqueDeviceConfiguration(Struct):
    driver: str
    parameters: Annotated[Mapping[str, Any], Schema("What the driver makes of it.")]


class DeviceAllocationConfiguration(Struct):
    opaque: OpaqueDeviceConfiguration | None = None
    requests: Annotated[tuple[str, ...], ATOMIC] = ()
    source: Annotated[str, Schema("FromClass or FromClaim.")]


class DeviceRequestAllocationResult(Struct):
    admin_access: bool | None = None
    binding_conditions: Annotated[tuple[str, ...], ATOMIC] = ()
    binding_failure_conditions: Annotated[tuple[str, ...], ATOMIC] = ()
    consumed_capacity: ResourceList = {}
    device: str
    driver: str
    pool: str
    request: str
    share_id: str | None = msgspec.field(default=None, name="shareID")
    tolerations: Annotated[tuple[DeviceToleration, ...], ATOMIC] = ()


class DeviceAllocationResult(Struct):
    config: Annotated[tuple[DeviceAllocationConfiguration, ...], ATOMIC] = ()
    results: Annotated[tuple[DeviceRequestAllocationResult, ...], ATOMIC] = ()


class AllocationResult(Struct):
    """Which devices a claim got."""

    allocation_timestamp: Time | None = None
    devices: DeviceAllocationResult = DeviceAllocationResult()
    node_selector: NodeSelector | None = None


class DeviceConstraint(Struct):
    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaimConfiguration(Struct):
    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClaim(Struct):
    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceClaimConfiguration, ...] = ()


class ResourceClaimSpec(Struct):
    devices: DeviceClaim = DeviceClaim()


class ResourceClaimConsumer(Struct):
    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""

    @property
    def is_pod_group(self) -> bool:
        return (self.api_group, self.resource) == (POD_GROUP_API, "podgroups")


class ResourceClaimStatus(Struct):
    allocation: AllocationResult | None = None
    reserved_for: tuple[ResourceClaimConsumer, ...] = ()


class ResourceClaim(ApiObject):
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()

    @property
    def pod_group(self) -> OwnerReference | None:
        """The PodGroup (scheduling.k8s.io) that it was made for: all pods of it use the claim."""
        for owner in self.metadata.owner_references:
            is_native = owner.api_version.startswith(f"{POD_GROUP_API}/")
            if owner.controller and owner.kind == "PodGroup" and is_native:
                return owner
        return None


class ResourceClaimTemplateSpec(Struct):
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(ApiObject):
    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


class DeviceAttribute(Struct):
    """Exactly one is set."""

    # Written out, because inside the class these names are its own fields.
    int: builtins.int | None = None
    bool: builtins.bool | None = None
    string: str | None = None
    version: str | None = None


class CapacityRange(Struct):
    min: Quantity | None = None
    max: Quantity | None = None
    step: Quantity | None = None


class CapacityRequestPolicy(Struct):
    default: Quantity | None = None
    valid_values: tuple[Quantity, ...] = ()
    valid_range: CapacityRange | None = None


class DeviceCapacity(Struct):
    value: Quantity = Quantity()
    request_policy: CapacityRequestPolicy | None = None


class Counter(Struct):
    value: Quantity = Quantity()


class DeviceCounterConsumption(Struct):
    counter_set: str = ""
    counters: Mapping[str, Counter] = {}


class CounterSet(Struct):
    name: str = ""
    counters: Mapping[str, Counter] = {}


class DeviceTaint(Taint):
    time_added: Time | None = None


class Device(Struct):
    name: str = ""
    attributes: Mapping[str, DeviceAttribute] = {}
    capacity: Mapping[str, DeviceCapacity] = {}
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    taints: tuple[DeviceTaint, ...] = ()
    binds_to_node: bool = False
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool = False


class ResourcePool(Struct):
    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class ResourceSliceSpec(Struct):
    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    per_device_node_selection: bool = False
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(ApiObject):
    spec: ResourceSliceSpec = ResourceSliceSpec()


class DeviceClassConfiguration(Struct):
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClassSpec(Struct):
    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[DeviceClassConfiguration, ...] = ()
    extended_resource_name: str | None = None


class DeviceClass(ApiObject):
    spec: DeviceClassSpec = DeviceClassSpec()
