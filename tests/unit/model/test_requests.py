"""Requests of pods: sizes, and the ways to ask for GPUs."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.codec import decode
from muster.api.core import Pod
from muster.api.devices import ResourceClaim
from muster.model.constraint_terms import ContainerKind, ContainerRequest
from muster.model.gpu_request import claimed_gpus, gpu_request, shared_request
from muster.model.records import NO_GPU, GpuKind, GpuRequest
from muster.model.requests import pod_amounts, request_of


def container(kind: ContainerKind = ContainerKind.APP, **amounts: int) -> ContainerRequest:
    return ContainerRequest(tuple(sorted(amounts.items())), kind)


def test_containers_add_up_and_an_init_container_counts_alone() -> None:
    pod = [container(ContainerKind.INIT, cpu=5, memory=1), container(cpu=2), container(cpu=2)]
    assert pod_amounts(pod) == {"cpu": 5, "memory": 1, "pods": 1}


def test_a_sidecar_runs_beside_the_init_containers_after_it_and_beside_the_pod() -> None:
    pod = [
        container(ContainerKind.INIT, cpu=6),
        container(ContainerKind.SIDECAR, cpu=1),
        container(ContainerKind.INIT, cpu=6),
        container(cpu=3),
    ]
    assert pod_amounts(pod) == {"cpu": 7, "pods": 1}
    assert pod_amounts([pod[1], container(cpu=9)]) == {"cpu": 10, "pods": 1}


def test_requests_of_the_pod_replace_those_of_its_containers_before_overhead() -> None:
    pod = [container(cpu=2, memory=8, gadget=1)]
    amounts = pod_amounts(pod, overhead={"cpu": 1}, pod_level={"cpu": 4, "gadget": 9})
    assert amounts == {"cpu": 5, "memory": 8, "gadget": 1, "pods": 1}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.5", 500),
        ("1", 1000),
        ("1.0", 1000),
        (".25", 250),
        ("0.3339", 333),
        ("0.0001", 1),
        ("0", 0),
        ("1.01", 0),
        ("-0.5", 0),
        ("half", 0),
        ("", 0),
        (".", 0),
        ("1e-1", 100),
        ("+0.5", 500),
        ("0_5", 0),
        ("nan", 0),
        ("1e-99999", 0),
    ],
)
def test_a_fraction_is_a_decimal_above_zero_and_at_most_one(text: str, expected: int) -> None:
    assert shared_request({"gpu-fraction": text}).portion == expected


@pytest.mark.parametrize(
    ("annotations", "amounts", "claimed", "expected"),
    [
        ({}, {}, 0, NO_GPU),
        ({}, {"gpu": 2000}, 0, GpuRequest(GpuKind.WHOLE, 2)),
        ({}, {}, 3, GpuRequest(GpuKind.CLAIM, 3)),
        ({"gpu-fraction": "0.5"}, {}, 0, GpuRequest(GpuKind.FRACTION, 1, portion=500)),
        (
            {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "3"},
            {"gpu": 1000},
            0,
            GpuRequest(GpuKind.FRACTION, 3, portion=500),
        ),
        ({"gpu-memory": "4096"}, {}, 0, GpuRequest(GpuKind.MEMORY, 1, memory_mib=4096)),
        ({"gpu-memory": "lots"}, {"gpu": 1000}, 0, GpuRequest(GpuKind.WHOLE, 1)),
        ({}, {"nvidia.com/mig-3g.20gb": 2}, 0, GpuRequest(GpuKind.MIG, mig_slices=6)),
        ({}, {"nvidia.com/mig-odd": 2}, 0, GpuRequest(GpuKind.MIG, mig_slices=0)),
        ({"nvidia.com/mig-1g.5gb": "1"}, {}, 0, GpuRequest(GpuKind.LEGACY_MIG)),
    ],
)
def test_the_gpu_request_follows_from_annotations_resources_and_claims(
    annotations: dict[str, str], amounts: dict[str, int], claimed: int, expected: GpuRequest
) -> None:
    assert gpu_request(amounts, annotations, claimed) == expected


def test_a_pod_is_read_with_its_sidecars_overhead_and_gpus() -> None:
    pod = decode(
        Pod,
        b"""{"spec": {
        "overhead": {"cpu": "250m"},
        "initContainers": [{"restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}],
        "containers": [{"resources": {"requests":
            {"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": "2", "example.com/nic": "1"}}}]}}""",
    )
    amounts, gpu = request_of(pod)
    assert amounts == {
        "cpu": 1750, "memory": 2**30, "gpu": 2000, "example.com/nic": 1, "pods": 1
    }  # fmt: skip
    assert gpu == GpuRequest(GpuKind.WHOLE, 2)


def test_a_gpu_fraction_overrides_the_gpu_request_of_a_container() -> None:
    pod = decode(
        Pod,
        b"""{"metadata": {"annotations": {"gpu-fraction": "0.25"}},
        "spec": {"containers": [{"resources": {"requests": {"nvidia.com/gpu": "1"}}}]}}""",
    )
    assert request_of(pod) == ({"pods": 1}, GpuRequest(GpuKind.FRACTION, 1, portion=250))


@pytest.mark.parametrize(
    ("request_", "gpus"),
    [
        ({"exactly": {"deviceClassName": "gpu.example.com", "count": 3}}, 3),
        ({"exactly": {"deviceClassName": "gpu.example.com"}}, 1),
        ({"exactly": {"deviceClassName": "gpu.example.com", "allocationMode": "All"}}, 1),
        ({"exactly": {"deviceClassName": "nic.example.com", "count": 3}}, 0),
        ({"firstAvailable": [{"name": "a", "deviceClassName": "gpu.example.com"}]}, 0),
    ],
)
def test_claims_count_gpus_by_their_device_class(request_: dict[str, object], gpus: int) -> None:
    devices = {"requests": [{"name": "r", **request_}]}
    claim = decode(ResourceClaim, json.dumps({"spec": {"devices": devices}}))
    assert claimed_gpus(claim) == gpus


amounts = st.dictionaries(st.sampled_from(["cpu", "memory"]), st.integers(0, 9))
containers = st.lists(
    st.builds(lambda kind, a: container(kind, **a), st.sampled_from(list(ContainerKind)), amounts),
    max_size=5,
)


@given(containers)
def test_the_request_of_a_pod_is_its_maximum_over_init_and_run(pod: list[ContainerRequest]) -> None:
    pod.sort(key=lambda c: c.kind is ContainerKind.APP)
    occupied = pod_amounts(pod)
    for name in ("cpu", "memory"):
        moments, beside = [0], 0
        for one in pod:
            amount = dict(one.amounts).get(name, 0)
            if one.kind is ContainerKind.INIT:
                moments.append(beside + amount)
            else:
                beside += amount
                moments.append(beside)
        assert occupied.get(name, 0) == max(moments)


def test_gpus_of_a_named_claim_are_counted_per_device() -> None:
    spec = {
        "containers": [{"name": "c"}],
        "resourceClaims": [
            {"name": "ours", "resourceClaimName": "pool"},
            {"name": "own", "resourceClaimTemplateName": "t"},
        ],
    }
    pod = decode(Pod, json.dumps({"spec": spec}))

    def claim(name: str, count: int) -> ResourceClaim:
        exactly = {"deviceClassName": "gpu", "count": count}
        body = {"requests": [{"name": "r", "exactly": exactly}]}
        meta = {"name": name, "namespace": "x"}
        return decode(ResourceClaim, json.dumps({"metadata": meta, "spec": {"devices": body}}))

    amounts, gpu = request_of(pod, {"ours": claim("pool", 2), "own": claim("p-own", 1)})
    assert amounts["gpu"] == 1000
    assert (gpu.kind, gpu.devices) == (GpuKind.CLAIM, 3)
    assert gpu.claimed == ("claim x/pool 0", "claim x/pool 1")
