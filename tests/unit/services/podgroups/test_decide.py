from typing import Any

import pytest

from muster.api.codec import from_builtins
from muster.api.core import Node, Pod
from muster.api.devices import ResourceClaim
from muster.api.podgroup import PodGroup
from muster.services.podgroups.decide import PodGroupView, gang_of, phase_of, status_patch

NOW = "2026-01-01T00:00:00Z"
CLASSES = {"train": 50, "inference": 125}
NODES = {"n1": {"metadata": {"name": "n1", "labels": {"nvidia.com/gpu.memory": "40000"}}}}
CLAIM = {
    "metadata": {"name": "two-gpus", "namespace": "team"},
    "spec": {
        "devices": {
            "requests": [
                {"name": "gpus", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 2}},
                {"name": "nic", "exactly": {"deviceClassName": "rdma.example.com"}},
            ]
        }
    },
}


def _node(name: str) -> Node | None:
    return from_builtins(Node, NODES[name]) if name in NODES else None


def _claim(namespace: str, name: str) -> ResourceClaim | None:
    return from_builtins(ResourceClaim, CLAIM) if name == "two-gpus" else None


CLUSTER = PodGroupView(node_of=_node, claim_of=_claim, priority_of=CLASSES.get)


def pod(phase: str = "Running", part: str = "", **more: Any) -> Pod:
    labels = {"kai.scheduler/subgroup-name": part} if part else {}
    metadata = {"name": "p", "namespace": "team", "labels": labels, **more.pop("metadata", {})}
    requests = more.pop("requests", {"cpu": "500m", "nvidia.com/gpu": "1"})
    spec = {
        "nodeName": "n1",
        "containers": [{"name": "main", "resources": {"requests": requests}}],
        **more.pop("spec", {}),
    }
    return from_builtins(
        Pod, {"metadata": metadata, "spec": spec, "status": {"phase": phase, **more}}
    )


def group(status: Any = None, **spec: Any) -> PodGroup:
    plain = {"metadata": {"name": "g", "namespace": "team"}, "spec": spec, "status": status or {}}
    return from_builtins(PodGroup, plain)


def patched(group_: PodGroup, pods: list[Pod]) -> dict[str, Any]:
    patch = status_patch(group_, pods, CLUSTER, NOW)
    assert patch is not None
    found: dict[str, Any] = patch["status"]
    return found


@pytest.mark.row(89)
@pytest.mark.row(92)
def test_running_pods_are_requested_and_allocated_waiting_pods_only_requested() -> None:
    resources = patched(group(), [pod(), pod("Pending")])["resourcesStatus"]
    assert resources == {
        "requested": {"cpu": "1", "nvidia.com/gpu": "2"},
        "allocated": {"cpu": "500m", "nvidia.com/gpu": "1"},
    }


def test_a_bound_pod_that_has_not_started_holds_its_resources() -> None:
    bound = pod("Pending", conditions=[{"type": "PodScheduled", "status": "True"}])
    assert patched(group(), [bound])["resourcesStatus"]["allocated"]["cpu"] == "500m"


@pytest.mark.row(89, 92)
def test_finished_pods_request_nothing() -> None:
    assert "resourcesStatus" not in patched(group(), [pod("Succeeded"), pod("Failed")])


@pytest.mark.row(89, 92)
def test_allocated_resources_of_a_non_preemptible_group_are_counted_as_such() -> None:
    firm = patched(group(priorityClassName="inference"), [pod()])["resourcesStatus"]
    assert firm["allocatedNonPreemptible"] == firm["allocated"]


def test_a_group_that_becomes_preemptible_has_no_allocated_non_preemptible() -> None:
    held = {"cpu": "500m", "nvidia.com/gpu": "1"}
    status = {"resourcesStatus": {"allocated": held, "allocatedNonPreemptible": held}}
    resources = patched(group(status, priorityClassName="train"), [pod()])["resourcesStatus"]
    assert resources["allocatedNonPreemptible"] == {"cpu": None, "nvidia.com/gpu": None}


@pytest.mark.parametrize(
    ("annotations", "requested", "allocated"),
    [
        ({"gpu-fraction": "0.5"}, {"nvidia.com/gpu": "500m"}, {"nvidia.com/gpu": "500m"}),
        (
            {"gpu-fraction": "0.25", "gpu-fraction-num-devices": "3"},
            {"nvidia.com/gpu": "750m"},
            {"nvidia.com/gpu": "750m"},
        ),
        ({"gpu-memory": "10000"}, {"run.ai/gpu.memory": "10k"}, {"nvidia.com/gpu": "250m"}),
        ({"gpu-memory": "10100"}, {"run.ai/gpu.memory": "10100"}, {"nvidia.com/gpu": "253m"}),
        ({"gpu-fraction": "half"}, {}, {}),
    ],
    ids=[
        "a fraction",
        "a fraction of three devices",
        "memory of a device",
        "memory to the nearest thousandth",
        "unreadable",
    ],
)
def test_a_shared_gpu_counts_as_its_fraction(
    annotations: dict[str, str], requested: dict[str, str], allocated: dict[str, str]
) -> None:
    notes = {**annotations, "received-resource-type": "Fraction"}
    sharing = pod(requests={"cpu": "1"}, metadata={"annotations": notes})
    resources = patched(group(), [sharing])["resourcesStatus"]
    assert resources["requested"] == {"cpu": "1", **requested}
    assert resources["allocated"] == {"cpu": "1", **allocated}


def test_gpus_of_a_claim_count_under_their_class_and_a_missing_claim_is_ignored() -> None:
    claims = [
        {"name": "a", "resourceClaimName": "two-gpus"},
        {"name": "b", "resourceClaimName": "gone"},
    ]
    claiming = pod(requests={"cpu": "1"}, spec={"resourceClaims": claims})
    assert patched(group(), [claiming])["resourcesStatus"]["requested"] == {
        "cpu": "1",
        "gpu.nvidia.com": "2",
    }


@pytest.mark.parametrize(
    ("spec", "parts", "satisfied"),
    [
        ({"minMember": 2}, ["", ""], True),
        ({"minMember": 2}, [""], False),
        ({"minMember": 0}, [], True),
        ({}, [], False),
        (
            {"subGroups": [{"name": "a", "minMember": 1}, {"name": "b", "minMember": 1}]},
            ["a"],
            False,
        ),
        (
            {
                "minSubGroup": 1,
                "subGroups": [{"name": "a", "minMember": 1}, {"name": "b", "minMember": 1}],
            },
            ["a"],
            True,
        ),
        (
            {
                "subGroups": [
                    {"name": "top", "minSubGroup": 1},
                    {"name": "a", "minMember": 2, "parent": "top"},
                    {"name": "b", "minMember": 1, "parent": "top"},
                ]
            },
            ["a", "b"],
            True,
        ),
    ],
)
def test_a_gang_is_satisfied_when_every_minimum_is_met(
    spec: dict[str, Any], parts: list[str], satisfied: bool
) -> None:
    pods = [pod(part=part) for part in parts]
    assert gang_of(group(**spec), pods).is_satisfied is satisfied


def test_the_phase_follows_from_the_pods_and_the_minimum() -> None:
    gang = group(minMember=2)
    for pods, phase in [
        ([pod("Pending"), pod("Pending")], "Pending"),
        ([pod(), pod("Pending")], "Starting"),
        ([pod(), pod()], "Running"),
        ([pod(), pod("Succeeded")], "Running"),
        ([pod("Succeeded"), pod("Succeeded")], "Completed"),
        ([pod("Succeeded"), pod("Failed")], "Failed"),
    ]:
        assert phase_of(pods, gang_of(gang, pods)) == phase


def test_the_status_counts_pods_that_wait_also_those_of_a_gang_that_runs() -> None:
    bound = pod("Pending", conditions=[{"type": "PodScheduled", "status": "True"}])
    status = patched(group(minMember=2), [pod(), bound, pod("Pending"), pod("Pending")])
    assert (status["phase"], status["pending"]) == ("Running", 2)
    settled = group(status, minMember=2)
    assert patched(settled, [pod(), pod(), pod("Pending")])["pending"] == 1


def test_an_unchanged_pod_group_status_is_not_written() -> None:
    first = patched(group(minMember=1), [pod()])
    settled = group(first, minMember=1)
    assert status_patch(settled, [pod()], CLUSTER, "2026-02-02T00:00:00Z") is None


@pytest.mark.row(89, 92)
def test_a_condition_has_the_time_of_its_last_transition() -> None:
    first = patched(group(minMember=3), [pod()])
    second = patched(group(first, minMember=3), [pod(), pod()])
    assert second["conditions"][0]["message"] == "2 pods hold a node, 3 needed"
    assert second["conditions"][0]["lastTransitionTime"] == NOW
