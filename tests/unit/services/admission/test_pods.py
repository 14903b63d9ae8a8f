"""Admission of pods: what is added to them, and which requests are refused."""

from typing import Any

import pytest

from muster.api.queue import Queue
from muster.services.admission.handler import to_review
from muster.services.admission.mutate import Mutated, json_patch, mutate_pod
from muster.services.admission.review import AdmissionResponse, Review
from muster.services.admission.settings import AdmissionSettings, UnknownQueue
from muster.services.admission.validate_pods import validate_pod

SHARING = AdmissionSettings(gpu_sharing=True)
BLOCKING = AdmissionSettings(gpu_sharing=True, blocks_visible_devices=True)


def pod(limits: dict[str, str] | None = None, env: Any = (), **annotations: str) -> dict[str, Any]:
    notes = {key.replace("_", "-"): value for key, value in annotations.items()}
    container = {"name": "main", "resources": {"limits": limits or {}}, "env": list(env)}
    return {
        "metadata": {"name": "p", "namespace": "team", "annotations": notes},
        "spec": {"schedulerName": "kai-scheduler", "containers": [container]},
    }


def mutated(thing: dict[str, Any], settings: AdmissionSettings = SHARING) -> Any:
    answer = mutate_pod(Review("CREATE", thing, namespace="team"), settings, "abc1234")
    return answer.pod if isinstance(answer, Mutated) else answer


@pytest.mark.row(107)
def test_a_pod_that_shares_a_gpu_gets_the_config_map_references_of_its_device() -> None:
    stored = mutated(pod(gpu_fraction="0.5"))
    base = "p-abc1234-shared-gpu"
    assert stored["metadata"]["annotations"]["runai/shared-gpu-configmap"] == base
    (container,) = stored["spec"]["containers"]
    from_map = {
        one["name"]: one["valueFrom"]["configMapKeyRef"]["name"] for one in container["env"]
    }
    assert from_map == dict.fromkeys(
        ("NVIDIA_VISIBLE_DEVICES", "RUNAI_NUM_OF_GPUS", "GPU_PORTION"), f"{base}-0"
    )
    assert container["envFrom"] == [{"configMapRef": {"name": f"{base}-0-evar", "optional": False}}]
    volume = {"name": f"{base}-0-vol", "configMap": {"name": f"{base}-0"}}
    assert stored["spec"]["volumes"] == [volume]
    assert stored["spec"]["runtimeClassName"] == "nvidia"


def test_mutating_a_pod_twice_changes_nothing_more() -> None:
    once = mutated(pod(gpu_fraction="0.5"))
    assert json_patch(once, mutated(once)) == []


@pytest.mark.parametrize(
    "thing",
    [
        pod(limits={"nvidia.com/gpu": "1"}),
        {**pod(gpu_fraction="0.5"), "spec": {"schedulerName": "default-scheduler"}},
    ],
    ids=["a whole GPU", "another scheduler"],
)
def test_pods_without_a_gpu_share_or_of_other_schedulers_are_not_mutated(
    thing: dict[str, Any],
) -> None:
    assert mutated(thing) == thing


def test_an_existing_runtime_class_stays_and_the_settings_may_add_none() -> None:
    own = pod(gpu_fraction="0.5")
    own["spec"]["runtimeClassName"] = "mine"
    assert mutated(own)["spec"]["runtimeClassName"] == "mine"
    without = mutated(
        pod(gpu_fraction="0.5"), AdmissionSettings(gpu_sharing=True, runtime_class="")
    )
    assert "runtimeClassName" not in without["spec"]


def test_containers_without_a_gpu_see_no_devices_where_the_settings_block_them() -> None:
    stored = mutated(pod(), BLOCKING)
    assert stored["spec"]["containers"][0]["env"] == [
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}
    ]


def test_a_missing_gpu_fraction_container_is_refused_by_name() -> None:
    answer = mutated(pod(gpu_fraction="0.5", gpu_fraction_container_name="none"))
    assert isinstance(answer, AdmissionResponse)
    assert "container with name none not found" in answer.message


_ALL = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
_WHOLE = {"nvidia.com/gpu": "1"}


@pytest.mark.row(107)
@pytest.mark.parametrize(
    ("thing", "settings", "field", "said"),
    [
        (pod(gpu_fraction="0.5"), AdmissionSettings(), "gpu-fraction", "GPU sharing is disabled"),
        (pod(mps="true"), SHARING, "mps", "only supported with GPU fraction"),
        (pod(_WHOLE, gpu_fraction="0.5"), SHARING, "limits", "cannot have both"),
        (pod(_WHOLE, gpu_memory="100"), SHARING, "limits", "cannot request both"),
        (pod(gpu_fraction_num_devices="2"), SHARING, "num-devices", "multiple fractional"),
        (pod(gpu_memory="0"), SHARING, "gpu-memory", "positive integer"),
        (pod(gpu_memory="9" * 5000), SHARING, "gpu-memory", "positive integer"),
        (pod(gpu_fraction="1.0"), SHARING, "gpu-fraction", "smaller than 1.0"),
        (pod(gpu_fraction="1e-12"), SHARING, "gpu-fraction", "positive number"),
        (pod(gpu_fraction="\N{ARABIC-INDIC DIGIT ZERO}.5"), SHARING, "gpu-fraction", "number"),
        (pod(gpu_fraction="0.5" + 64 * "0"), SHARING, "gpu-fraction", "positive number"),
        (pod(gpu_fraction="NaN"), SHARING, "gpu-fraction", "decimal point"),
        (
            pod(gpu_fraction="0.5", gpu_fraction_num_devices="-1"),
            SHARING,
            "num-devices",
            "fraction count",
        ),
        (pod(env=_ALL), BLOCKING, "env[0]", "NVIDIA_VISIBLE_DEVICES"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_invalid_gpu_request_is_refused_at_the_field(
    thing: dict[str, Any], settings: AdmissionSettings, field: str, said: str
) -> None:
    (problem,) = validate_pod(Review("CREATE", thing), settings).problems
    assert field in problem.field
    assert said in problem.message
    assert problem.fix


@pytest.mark.parametrize(
    ("thing", "sentence"),
    [
        (
            pod(gpu_memory="8Gi"),
            "gpu-memory annotation value must be a positive integer greater than 0: "
            "metadata.annotations[gpu-memory]: write the MiB of one device as a number, from 1 to "
            "4194304; 8Gi is 8192",
        ),
        (
            pod(gpu_memory="8000", gpu_fraction="0.5"),
            "cannot request both GPU and GPU memory: metadata.annotations[gpu-memory]: keep either "
            "this or the annotation gpu-fraction",
        ),
        (
            pod(_WHOLE, gpu_memory="8000"),
            "cannot request both GPU and GPU memory: "
            "spec.containers[0].resources.limits[nvidia.com/gpu]: keep either this or the "
            "annotation gpu-memory",
        ),
        (
            pod(gpu_fraction="half"),
            "gpu-fraction annotation value must be a positive number smaller than 1.0: "
            "metadata.annotations[gpu-fraction]: write the part of one device between 0 and 1, "
            'such as "0.5"',
        ),
    ],
    ids=["memory with a unit", "memory and fraction", "memory and a whole GPU", "words"],
)
def test_people_read_the_original_s_words_and_then_field_and_fix(
    thing: dict[str, Any], sentence: str
) -> None:
    response = to_review(validate_pod(Review("CREATE", thing), SHARING))
    assert response["status"]["message"] == sentence


def test_a_container_that_is_not_there_is_refused_wherever_it_is_met() -> None:
    thing = pod(env=_ALL, gpu_fraction="0.5", gpu_fraction_container_name="nope")
    words = "failed to get fraction container ref: container with name nope not found for fraction"
    for answer in (mutated(thing), validate_pod(Review("CREATE", thing), BLOCKING)):
        (problem,) = answer.problems
        assert problem.message == f"{words} request"
        assert problem.fix.startswith("name one of the pod's containers (main)")
    assert validate_pod(Review("CREATE", thing), SHARING).allowed  # as the original


def of_queue(name: str, **annotations: str) -> dict[str, Any]:
    made = pod(None, (), **annotations)
    made["metadata"]["labels"] = {"kai.scheduler/queue": name}
    return made


@pytest.mark.row(107)
def test_a_queue_label_that_names_no_queue_is_warned_of_or_refused_by_the_settings() -> None:
    told = (
        "metadata.labels[kai.scheduler/queue]: there is no queue team-b; "
        "create the queue first, or correct its name"
    )

    def created(thing: dict[str, Any], judges: UnknownQueue) -> AdmissionResponse:
        settings = AdmissionSettings(gpu_sharing=True, unknown_queue=judges)
        return validate_pod(Review("CREATE", thing), settings, {"team-a": Queue()})

    assert created(of_queue("team-b"), UnknownQueue.ALLOW) == AdmissionResponse()
    assert created(of_queue("team-b"), UnknownQueue.WARN) == AdmissionResponse((), (told,))
    refusal = created(of_queue("team-b"), UnknownQueue.REFUSE)
    assert (refusal.allowed, refusal.message) == (False, told)
    for judges in UnknownQueue:
        assert created(of_queue("team-a"), judges) == AdmissionResponse()
        assert created(pod(), judges) == AdmissionResponse(), "the grouper has a default for it"
        wrong = created(of_queue("team-a", gpu_fraction="2"), judges)
        assert not wrong.allowed, "a queue that exists mends no fraction"


@pytest.mark.row(107)
def test_a_pod_whose_queue_has_gone_stays_editable() -> None:
    strict = AdmissionSettings(unknown_queue=UnknownQueue.REFUSE)
    was, moved = of_queue("gone"), of_queue("nowhere")
    touched = {**was, "metadata": {**was["metadata"], "finalizers": []}}
    assert validate_pod(Review("UPDATE", touched, was), strict).allowed
    assert not validate_pod(Review("UPDATE", moved, was), strict).allowed


def test_an_invalid_stored_pod_can_still_be_labelled() -> None:
    was = pod(gpu_fraction="1.5")
    labelled = {**was, "metadata": {**was["metadata"], "labels": {"a": "b"}}}
    assert validate_pod(Review("UPDATE", labelled, was), SHARING).allowed


def test_the_gpu_fraction_of_a_bound_pod_is_immutable() -> None:
    was, wanted = pod(gpu_fraction="0.5"), pod(gpu_fraction="0.7")
    was["spec"]["nodeName"] = "n"
    (problem,) = validate_pod(Review("UPDATE", wanted, was), SHARING).problems
    assert "cannot be changed from 0.5 to 0.7" in problem.message


@pytest.mark.parametrize(("value", "allowed"), [("void", True), ("none", True), ("", False)])
def test_a_reference_for_visible_devices_is_refused_unless_a_harmless_value_stands_beside_it(
    value: str, allowed: bool
) -> None:
    reference = {"configMapKeyRef": {"name": "m", "key": "k"}}
    variable = {"name": "NVIDIA_VISIBLE_DEVICES", "value": value, "valueFrom": reference}
    answer = validate_pod(Review("CREATE", pod(env=[variable]), namespace="team"), BLOCKING)
    assert answer.allowed is allowed
