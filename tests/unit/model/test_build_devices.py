"""Pods and nodes read with their claims, devices, containers and NUMA zones."""

from typing import Any

from muster.api.bindrequest import BindRequest
from muster.api.codec import from_builtins
from muster.api.core import Node, Pod
from muster.api.devices import DeviceClass, ResourceClaim, ResourceSlice
from muster.api.noderesourcetopology import NodeResourceTopology
from muster.model.build import Identity, node_record, task_record
from muster.model.constraint_terms import ClaimReference
from muster.model.records import NumaShare

CLAIMS = [
    {"name": "own", "resourceClaimTemplateName": "gpus"},
    {"name": "ours", "resourceClaimName": "pool"},
]


def pod(**status: Any) -> Pod:
    containers = [{"name": "main", "resources": {"requests": {"example.com/nic": "1"}}}]
    return from_builtins(
        Pod,
        {
            "metadata": {"name": "p", "namespace": "team", "uid": "u"},
            "spec": {"containers": containers, "resourceClaims": CLAIMS},
            "status": {
                "phase": "Pending",
                "resourceClaimStatuses": [{"name": "own", "resourceClaimName": "p-own-1"}],
                **status,
            },
        },
    )


def claim(name: str, allocated: bool = False, **metadata: Any) -> ResourceClaim:
    status: dict[str, Any] = {}
    if allocated:
        status = {"allocation": {"devices": {"results": []}}}
    exactly = {"deviceClassName": "gpu.example.com"}
    return from_builtins(
        ResourceClaim,
        {
            "metadata": {"name": name, "namespace": "team", **metadata},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
            "status": status,
        },
    )


def test_a_pods_generated_claims_are_on_its_record_and_not_in_its_constraints() -> None:
    found = task_record(pod(), Identity(), 0.0, None, {"own": claim("p-own-1")})
    assert found.claims == {"own": "p-own-1"}
    assert found.constraints.claims == (
        ClaimReference("own", template="gpus"),
        ClaimReference("ours", "pool"),
    )
    assert found.request["gpu"] == 1000


def test_a_claim_generated_for_a_native_pod_group_is_shared_by_its_pods() -> None:
    owner = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "controller": True}
    made = claim("p-own-1", ownerReferences=[{**owner, "name": "g", "uid": "g"}])
    found = task_record(pod(), Identity(), 0.0, None, {"own": made})
    assert found.claims == {}
    assert found.constraints.claims[0] == ClaimReference("own", "p-own-1")
    assert "gpu" not in found.request
    assert found.gpu.claimed == ("claim team/p-own-1 0",)


def test_an_allocated_generated_claim_is_a_constraint_of_its_pod() -> None:
    found = task_record(pod(), Identity(), 0.0, None, {"own": claim("p-own-1", allocated=True)})
    assert found.constraints.claims[0] == ClaimReference("own", "p-own-1", "gpus")


def test_containers_are_recorded_only_on_request() -> None:
    plain = task_record(pod(), Identity(), 0.0)
    kept = task_record(pod(qosClass="Guaranteed"), Identity(), 0.0, keeps_containers=True)
    assert plain.constraints.containers == ()
    assert [c.name for c in kept.constraints.containers] == ["main"]
    assert kept.constraints.is_guaranteed


def test_devices_and_numa_zones_of_a_bind_request_are_on_the_record() -> None:
    device = {"request": "r", "driver": "d", "pool": "n", "device": "0"}
    request = from_builtins(
        BindRequest,
        {
            "spec": {
                "podName": "p",
                "selectedNode": "n",
                "predictedNUMAZones": [{"zone": "node-1", "amount": {"cpu": "2"}}],
                "resourceClaimAllocations": [
                    {"name": "own", "allocation": {"devices": {"results": [device]}}}
                ],
            }
        },
    )
    found = task_record(pod(), Identity(), 0.0, request)
    assert found.claim_allocations["own"].devices.results[0].device == "0"
    assert found.numa == (NumaShare("node-1", {"cpu": 2000}),)


def node() -> Node:
    ready = {"type": "Ready", "status": "True"}
    amounts = {"cpu": "8", "example.com/nic": "0"}
    status = {"allocatable": amounts, "conditions": [ready]}
    return from_builtins(Node, {"metadata": {"name": "n"}, "status": status})


def test_devices_of_resource_slices_are_offered_as_the_extended_resource_of_their_class() -> None:
    part = from_builtins(
        ResourceSlice,
        {
            "metadata": {"name": "s"},
            "spec": {
                "driver": "nic.example.com",
                "nodeName": "n",
                "pool": {"name": "n"},
                "devices": [{"name": "0"}, {"name": "1"}],
            },
        },
    )
    expression = 'device.driver == "nic.example.com"'
    found = from_builtins(
        DeviceClass,
        {
            "metadata": {"name": "nic"},
            "spec": {
                "extendedResourceName": "example.com/nic",
                "selectors": [{"cel": {"expression": expression}}],
            },
        },
    )
    record = node_record(node(), [part], {"nic": found})
    assert record.allocatable["example.com/nic"] == 2
    assert "example.com/nic" in record.claimable
    assert node_record(node(), [part]).claimable == frozenset()


def test_numa_zones_are_those_that_the_node_publishes() -> None:
    resources = [{"name": "cpu", "allocatable": "4", "available": "4"}]
    zones = from_builtins(
        NodeResourceTopology,
        {
            "metadata": {"name": "n"},
            "topologyPolicies": ["Restricted"],
            "zones": [{"name": "node-0", "type": "Node", "resources": resources}],
        },
    )
    record = node_record(node(), zones=zones)
    assert record.numa is not None
    assert (record.numa.policy, len(record.numa.zones)) == ("restricted", 1)
    assert node_record(node()).numa is None
