"""Requests of pods: sizes, and the ways to ask for GPUs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.model.requests import (
    NO_GPU,
    ContainerKind,
    ContainerRequest,
    GpuKind,
    GpuRequest,
    gpu_request,
    pod_amounts,
    portion_millionths,
)


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
        ("0.5", 500_000),
        ("1", 1_000_000),
        ("1.0", 1_000_000),
        (".25", 250_000),
        ("0.3333333", 333_333),
        ("0", 0),
        ("1.01", 0),
        ("-0.5", 0),
        ("half", 0),
        ("", 0),
        (".", 0),
        ("1e-1", 0),
    ],
)
def test_a_fraction_is_a_decimal_above_zero_and_at_most_one(text: str, expected: int) -> None:
    assert portion_millionths(text) == expected


@pytest.mark.parametrize(
    ("annotations", "amounts", "whole", "expected"),
    [
        ({}, {}, 0, NO_GPU),
        ({}, {}, 2, GpuRequest(GpuKind.WHOLE, 2, 1_000_000)),
        ({"gpu-fraction": "0.5"}, {}, 0, GpuRequest(GpuKind.FRACTION, 1, 500_000)),
        (
            {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "3"},
            {},
            0,
            GpuRequest(GpuKind.FRACTION, 3, 500_000),
        ),
        ({"gpu-memory": "4096"}, {}, 0, GpuRequest(GpuKind.MEMORY, 1, 0, 4096)),
        ({"gpu-memory": "lots"}, {}, 1, GpuRequest(GpuKind.WHOLE, 1, 1_000_000)),
        (
            {},
            {"nvidia.com/mig-1g.5gb": 2},
            0,
            GpuRequest(GpuKind.MIG, mig=(("nvidia.com/mig-1g.5gb", 2),)),
        ),
        ({"nvidia.com/mig-1g.5gb": "1"}, {}, 0, GpuRequest(GpuKind.LEGACY_MIG)),
    ],
)
def test_gpus_are_asked_for_in_one_of_several_ways(
    annotations: dict[str, str], amounts: dict[str, int], whole: int, expected: GpuRequest
) -> None:
    assert gpu_request(amounts, annotations, whole) == expected


@pytest.mark.parametrize(
    ("request_", "quota"),
    [
        (GpuRequest(GpuKind.WHOLE, 4, 1_000_000), 400),
        (GpuRequest(GpuKind.FRACTION, 2, 333_000), 66),
        (GpuRequest(GpuKind.FRACTION, 1, 5_000), 1),
        (GpuRequest(GpuKind.MEMORY, 1, 0, 4096), 0),
        (GpuRequest(GpuKind.MIG, mig=(("nvidia.com/mig-3g.20gb", 2),)), 600),
        (GpuRequest(GpuKind.MIG, mig=(("nvidia.com/mig-odd", 2),)), 0),
        (GpuRequest(claimed=(("gpu.example.com", 3),)), 300),
    ],
)
def test_a_queue_is_charged_in_hundredths_of_a_gpu(request_: GpuRequest, quota: int) -> None:
    assert request_.quota_units == quota


def test_a_memory_request_counts_rounded_up_on_the_node_it_got() -> None:
    request = GpuRequest(GpuKind.MEMORY, 2, 0, 334)
    assert request.accepted_units(1000) == 2 * 34
    assert request.device_memory_mib(1000) == 334
    assert GpuRequest(GpuKind.FRACTION, 1, 250_000).device_memory_mib(40_000) == 10_000


amounts = st.dictionaries(st.sampled_from(["cpu", "memory"]), st.integers(0, 9))
containers = st.lists(
    st.builds(lambda kind, a: container(kind, **a), st.sampled_from(list(ContainerKind)), amounts),
    max_size=5,
)


@given(containers)
def test_a_pod_occupies_its_greatest_moment(pod: list[ContainerRequest]) -> None:
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
