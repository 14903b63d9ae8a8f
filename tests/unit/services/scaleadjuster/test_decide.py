from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from muster.api.codec import from_builtins
from muster.api.core import Pod
from muster.api.meta import Key
from muster.api.meta import replace as struct_replace
from muster.api.names import LABEL_SHARED_GPU_POD_NAMESPACE as NAMESPACE_LABEL
from muster.services.scaleadjuster.decide import (
    COOL_DOWN_S,
    ScaleAdjusterSettings,
    ScalingPast,
    ScalingPod,
    decide,
    gpus_needed,
    scaling_pod,
    scaling_pod_name,
)

SETTINGS = ScaleAdjusterSettings(
    scheduler_name="kai-scheduler",
    namespace="kai-scale-adjust",
    app="scaling-pod",
    service_account="kai-scale-adjust",
    image="scaling",
    gpu_memory_ratio=Decimal("0.1"),
)


def pod(name: str, schedulable: str = "False", **annotations: str) -> Pod:
    notes = {key.replace("_", "-"): value for key, value in annotations.items()}
    plain = {
        "metadata": {"name": name, "namespace": "team", "annotations": notes},
        "spec": {
            "schedulerName": "kai-scheduler",
            "nodeSelector": {"pool": "a100"},
            "containers": [
                {"name": "a", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}},
                {"name": "b", "resources": {"requests": {"cpu": "500m"}}},
            ],
        },
        "status": {
            "phase": "Pending",
            "conditions": [
                {"type": "PodScheduled", "status": schedulable, "reason": "Unschedulable"}
            ],
        },
    }
    return from_builtins(Pod, plain)


def made(for_pod: Pod, phase: str = "Pending", **more: Any) -> Pod:
    plain: dict[str, Any] = {**scaling_pod(for_pod, SETTINGS), "status": {"phase": phase}}
    plain["metadata"] |= {"uid": f"uid-of-{for_pod.metadata.name}"} | more
    return from_builtins(Pod, plain)


@pytest.mark.row(109)
def test_unschedulable_gpu_shares_get_enough_scaling_pods() -> None:
    waiting = [pod(f"p{number}", gpu_fraction="0.4") for number in range(5)]
    decision = decide(waiting, [], 1000.0, ScalingPast(), SETTINGS)
    assert len(decision.create) == gpus_needed(waiting, SETTINGS) == 2


@pytest.mark.parametrize(
    ("annotations", "gpus"),
    [
        ({"gpu_fraction": "0.5"}, 1),
        ({"gpu_fraction": "0.6", "gpu_fraction_num_devices": "2"}, 2),
        ({"gpu_memory": "4000", "gpu_fraction_num_devices": "20"}, 2),
        ({"gpu_fraction": "much"}, 0),
        ({}, 0),
    ],
)
def test_gpu_shares_are_summed_up_to_full_gpus(annotations: dict[str, str], gpus: int) -> None:
    assert gpus_needed([pod("p", **annotations)], SETTINGS) == gpus


def test_a_pod_of_several_devices_gets_a_scaling_pod_with_as_many_gpus() -> None:
    narrow, wide = (
        pod("a", gpu_fraction="0.9"),
        pod("b", gpu_fraction="0.01", gpu_fraction_num_devices="4"),
    )
    decision = decide([narrow, wide], [made(narrow)], 1000.0, ScalingPast(), SETTINGS)
    assert [body["metadata"]["name"] for body in decision.create] == ["team-b"]
    container = decision.create[0]["spec"]["containers"][0]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "4"}


def test_a_scaling_pod_has_the_requests_and_constraints_of_its_pod() -> None:
    body = scaling_pod(pod("p", gpu_fraction="0.5"), SETTINGS)
    requests = body["spec"]["containers"][0]["resources"]["requests"]
    assert requests == {"nvidia.com/gpu": "1", "cpu": "1500m", "memory": "1Gi"}
    assert body["spec"]["nodeSelector"] == {"pool": "a100"}
    assert "schedulerName" not in body["spec"]


@pytest.mark.row(109)
@pytest.mark.parametrize(
    "reason",
    ["it ended", "its pod is gone", "its pod has a node"],
)
def test_a_scaling_pod_is_deleted_when_it_is_no_longer_needed(reason: str) -> None:
    waiting = pod("p", gpu_fraction="0.5")
    placed = pod("p", "True", gpu_fraction="0.5")
    world, scaling = {
        "it ended": ([waiting], made(waiting, "Succeeded")),
        "its pod is gone": ([], made(waiting)),
        "its pod has a node": ([placed], made(waiting)),
    }[reason]
    decision = decide(world, [scaling], 1000.0, ScalingPast(), SETTINGS)
    assert decision.delete == (ScalingPod(Key("kai-scale-adjust", "team-p"), "uid-of-p"),)
    assert decision.create == ()
    assert decision.requeue_after_s == COOL_DOWN_S


@pytest.mark.row(109)
def test_after_a_deletion_new_scaling_pods_wait_for_the_cool_down() -> None:
    decision = decide([pod("p", gpu_fraction="0.5")], [], 1000.0, ScalingPast(990.0), SETTINGS)
    assert decision.create == ()
    assert decision.requeue_after_s == COOL_DOWN_S - 10


def test_the_cool_down_is_over_when_as_much_time_has_passed_as_was_left_of_it() -> None:
    """These moments are 60 s apart as they are written, and a little less as they are stored."""
    waiting, gone_s, now_s = pod("p", gpu_fraction="0.5"), 253.454709, 313.454709
    assert now_s - gone_s < COOL_DOWN_S
    left_s = decide([waiting], [], now_s, ScalingPast(gone_s), SETTINGS).requeue_after_s or 0.0
    assert decide([waiting], [], now_s + left_s, ScalingPast(gone_s), SETTINGS).create


def test_pods_with_full_gpus_or_a_node_get_no_scaling_pod() -> None:
    whole, scheduled = pod("whole"), pod("placed", "True", gpu_fraction="0.5")
    assert not decide([whole, scheduled], [], 1000.0, ScalingPast(), SETTINGS).create


def test_scaling_pod_names_do_not_collide_and_fit_the_length_limit() -> None:
    assert scaling_pod_name(Key("a", "b-c")) != scaling_pod_name(Key("a-b", "c"))
    long = pod("x" * 253, gpu_fraction="0.5")
    body = scaling_pod(long, SETTINGS)
    assert len(body["metadata"]["name"]) <= 253
    assert len(body["metadata"]["labels"]["shared-gpu-pod-name"]) <= 63
    kept = from_builtins(Pod, {**body, "status": {"phase": "Pending"}})
    assert not decide([long], [kept], 1000.0, ScalingPast(), SETTINGS).delete


def test_scaling_pods_are_counted_by_the_hundredths_that_queues_are_charged() -> None:
    """Eight eighths are charged 1.04 GPUs; with two decimals of the API they would be 0.96."""
    eighths = [pod(f"p{number}", gpu_fraction="0.125") for number in range(8)]
    assert gpus_needed(eighths, SETTINGS) == 2


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {"app": "database"},
        {"app": "scaling-pod"},
        {"app": "scaling-pod", "shared-gpu-pod-name": "gone"},
        {"app": "other", "shared-gpu-pod-name": "gone", "shared-gpu-pod-namespace": "team"},
    ],
)
def test_pods_that_no_scale_adjuster_made_are_left_alone(labels: dict[str, str]) -> None:
    stranger = made(pod("gone"), labels=labels)
    waiting = pod("p", gpu_fraction="0.5")
    decision = decide([waiting], [stranger], 1000.0, ScalingPast(), SETTINGS)
    assert decision.delete == ()
    assert [body["metadata"]["name"] for body in decision.create] == ["team-p"]


_ENDS = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def test_a_scaling_pod_that_terminates_on_a_dead_node_holds_up_nothing() -> None:
    """It is not deleted again, asks for nothing, and its name is not waited for."""
    waiting = pod("p", gpu_fraction="0.5")
    stuck = [made(waiting, **_ENDS), made(pod("other"), **_ENDS)]
    decision = decide([waiting], stuck, 1000.0, ScalingPast(), SETTINGS)
    assert decision.delete == ()
    (body,) = decision.create
    name = body["metadata"]["name"]
    assert name.startswith("team-p-")
    again = from_builtins(Pod, {**body, "status": {"phase": "Pending"}})
    assert decide([waiting], [*stuck, again], 1000.0, ScalingPast(), SETTINGS).create == ()


def test_a_stranger_with_the_name_of_a_scaling_pod_keeps_it() -> None:
    waiting = pod("p", gpu_fraction="0.5")
    decision = decide([waiting], [made(waiting, labels={})], 1000.0, ScalingPast(), SETTINGS)
    assert decision.delete == ()
    assert decision.create[0]["metadata"]["name"].startswith("team-p-")


def test_a_scaling_pod_that_may_not_be_deleted_holds_up_others_for_one_cool_down() -> None:
    waiting, needless = pod("p", gpu_fraction="0.5"), made(pod("gone"))
    first = decide([waiting], [needless], 1000.0, ScalingPast(), SETTINGS)
    assert (len(first.delete), first.create) == (1, ())
    told = ScalingPast(1000.0, {"uid-of-gone"})
    assert decide([waiting], [needless], 1030.0, told, SETTINGS).create == ()
    later = decide([waiting], [needless], 1060.0, told, SETTINGS)
    assert (len(later.delete), len(later.create)) == (1, 1)


def test_one_namespace_is_asked_for_so_many_gpus_and_others_are_served() -> None:
    few = replace(SETTINGS, gpus_per_namespace_max=3)
    greedy = [pod(f"p{number:02}", gpu_fraction="0.9") for number in range(40)]
    modest = replace_namespace(pod("q", gpu_fraction="0.9"), "other")
    decision = decide([*greedy, modest], (), 0.0, ScalingPast(), few)
    made_for = [body["metadata"]["labels"][NAMESPACE_LABEL] for body in decision.create]
    assert sorted(made_for) == ["other", "team", "team", "team"]
    assert decision.beyond == (Key("team", "p03"),)
    standing = [made(greedy[at]) for at in range(3)]
    again = decide([*greedy, modest], standing, 0.0, ScalingPast(), few)
    assert [body["metadata"]["labels"][NAMESPACE_LABEL] for body in again.create] == ["other"]


def replace_namespace(of: Pod, namespace: str) -> Pod:
    return struct_replace(of, metadata=struct_replace(of.metadata, namespace=namespace))
