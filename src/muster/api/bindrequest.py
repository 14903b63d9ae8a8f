"""BindRequest (scheduling.run.ai/v1alpha2): the scheduler's decision on a pod, for the binder."""

from typing import Annotated, Final

import msgspec

from muster.api.core import ResourceList
from muster.api.devices import AllocationResult, DeviceRequest
from muster.api.meta import ApiObject, Key, Struct
from muster.api.schema import INT32, Schema

PENDING: Final = "Pending"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"

REGULAR: Final = "Regular"
FRACTION: Final = "Fraction"
MIG_INSTANCE: Final = "MigInstance"


class ReceivedGPU(Struct):
    """How many devices, and how much of each."""

    count: Annotated[int, Schema("How many devices.")] = 0
    portion: Annotated[str, Schema("The part of each device, with two decimals.")] = ""


class ResourceClaimAllocation(Struct):
    """The devices for one of the pod's resource claims."""

    name: Annotated[str, Schema("An entry of the pod's resourceClaims.")] = ""
    allocation: AllocationResult | None = None


class ContainerMapping(Struct):
    """Which request serves which extended resource of which container."""

    container_name: Annotated[str, Schema("The container.")]
    request_name: Annotated[str, Schema("The request that serves it.")]
    resource_name: Annotated[str, Schema("The extended resource.")]


class ExtendedResourceClaimAllocation(Struct):
    """Devices for resources that a container asks for by extended resource name."""

    allocation: AllocationResult | None = None
    container_mappings: Annotated[
        tuple[ContainerMapping, ...], Schema("Which request serves which container.")
    ] = ()
    device_requests: Annotated[
        tuple[DeviceRequest, ...], Schema("The requests of the claim that the binder makes.")
    ] = ()


class NUMAZone(Struct):
    """What is expected to be taken from one NUMA zone."""

    zone: Annotated[str, Schema("node-<number>.")]
    amount: Annotated[ResourceList, Schema("How much, by resource.")]


class BindRequestSpec(Struct):
    pod_name: Annotated[str, Schema("The pod, in the request's own namespace.")] = ""
    selected_node: Annotated[str, Schema("Where it shall run.")] = ""
    received_resource_type: Annotated[str, Schema("Regular, Fraction or MigInstance.")] = ""
    received_gpu: Annotated[ReceivedGPU | None, Schema("What it gets of the node's GPUs.")] = (
        msgspec.field(default=None, name="receivedGPU")
    )
    selected_gpu_groups: Annotated[
        tuple[str, ...], Schema("The shared devices, for a Fraction.")
    ] = msgspec.field(default=(), name="selectedGPUGroups")
    resource_claim_allocations: tuple[ResourceClaimAllocation, ...] = ()
    extended_resource_claim_allocation: ExtendedResourceClaimAllocation | None = None
    predicted_numa_zones: Annotated[
        tuple[NUMAZone, ...], Schema("Where the node is expected to place it.")
    ] = msgspec.field(default=(), name="predictedNUMAZones")
    backoff_limit: Annotated[
        int | None, INT32, Schema("Attempts before the request fails for good; absent: one.")
    ] = None


class BindRequestStatus(Struct):
    phase: Annotated[str, Schema("Pending, Succeeded or Failed.")] = ""
    reason: Annotated[str, Schema("Why it failed.")] = ""
    failed_attempts: Annotated[int, INT32, Schema("How often binding failed.")] = 0


class BindRequest(ApiObject):
    """The scheduler's decision to put one pod on one node."""

    spec: BindRequestSpec = BindRequestSpec()
    status: BindRequestStatus = BindRequestStatus()

    @property
    def pod(self) -> Key:
        return Key(self.metadata.namespace, self.spec.pod_name)

    def is_for(self, pod_uid: str) -> bool:
        """Whether it means this very pod, and not an earlier one of the same name."""
        owners = [one.uid for one in self.metadata.owner_references if one.kind == "Pod"]
        return not owners or pod_uid in owners

    def is_live_for(self, pod_uid: str) -> bool:
        """Whether this very pod is, or is being, bound by it."""
        return self.is_for(pod_uid) and not self.has_failed and not self._is_leaving

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to do about it."""
        return self._is_leaving or self.status.phase == SUCCEEDED or self.has_failed

    @property
    def _is_leaving(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def has_failed(self) -> bool:
        """Failed for good: no attempt is left."""
        limit = self.spec.backoff_limit
        return self.status.phase == FAILED and (
            limit is None or self.status.failed_attempts >= limit
        )
