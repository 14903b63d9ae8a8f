"""A bind request carries devices and zones to the binder without loss."""

import pytest

from muster.api.bindrequest import BindRequest, NUMAZone, ResourceClaimAllocation
from muster.api.codec import from_builtins
from muster.api.core import Pod
from muster.api.devices import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
)
from muster.api.quantity import Quantity
from muster.engine.plan import Bind
from muster.model.records import GpuKind, GpuRequest
from muster.services.scheduler.manifests import bind_request
from muster.services.scheduler.options import Options


@pytest.mark.row(23)
def test_devices_and_numa_zones_round_trip_through_a_bind_request() -> None:
    device = DeviceRequestAllocationResult(request="r", driver="d", pool="n", device="0")
    allocation = AllocationResult(devices=DeviceAllocationResult(results=(device,)))
    claims = (ResourceClaimAllocation(name="own", allocation=allocation),)
    zones = (NUMAZone(zone="node-1", amount={"cpu": Quantity("2")}),)
    details = {"resourceClaimAllocations": claims, "predictedNUMAZones": zones}
    bind = Bind("u", "x/j", "n", details=details)
    body = bind_request(Pod(), bind, GpuRequest(GpuKind.CLAIM, 1), Options())
    read = from_builtins(BindRequest, body)
    assert read.spec.resource_claim_allocations == claims
    assert read.spec.predicted_numa_zones == zones
