"""Whatever is posted to a webhook gets an answer, and a refusal names the field."""

import json
from typing import Any

import pytest

from muster.base.rand import Rand
from muster.services.admission import handler
from muster.services.admission.settings import AdmissionSettings

_OURS = {"spec": {"schedulerName": "kai-scheduler"}}


def _with_containers(listed: Any) -> dict[str, Any]:
    metadata = {"annotations": {"gpu-fraction": "0.5"}}
    return {"metadata": metadata, "spec": {**_OURS["spec"], "containers": listed}}


def _answered(path: str, request: Any) -> Any:
    asked = handler.AdmissionHandler(
        AdmissionSettings(gpu_sharing=True), Rand(0), queues=dict, groups_in=lambda _: []
    )
    answer = asked.answer(path, {"request": request})
    assert answer is not None
    return json.loads(json.dumps(answer))["response"]


def test_a_request_that_is_no_object_is_answered() -> None:
    assert _answered(handler.MUTATE_POD, "odd") == {"uid": "", "allowed": True}


@pytest.mark.parametrize(
    ("path", "operation", "thing", "field"),
    [
        (handler.VALIDATE_POD, "CREATE", {"spec": [{}]}, "spec"),
        (handler.MUTATE_POD, "CREATE", {**_OURS, "metadata": "true"}, "metadata"),
        (handler.MUTATE_POD, "CREATE", _with_containers([None, 3]), "spec.containers[0]"),
        (handler.VALIDATE_POD, "CREATE", _with_containers(["c"]), "spec.containers[0]"),
        (handler.VALIDATE_POD, "CREATE", _with_containers({"name": "c"}), "spec.containers"),
        (handler.VALIDATE_QUEUE, "CREATE", {"metadata": -1}, "metadata"),
        (handler.VALIDATE_POD_GROUP, "UPDATE", [[]], "object"),
    ],
)
def test_an_object_of_the_wrong_type_is_refused_by_its_field(
    path: str, operation: str, thing: Any, field: str
) -> None:
    response = _answered(path, {"operation": operation, "object": thing})
    assert not response["allowed"]
    (cause,) = response["status"]["details"]["causes"]
    assert cause["field"] == field
    assert response["status"]["message"].startswith(f"{field}: ")


def test_a_pod_with_more_wishes_than_are_weighed_is_refused_by_its_field() -> None:
    spread = [{"topologyKey": f"k{at}", "maxSkew": 1} for at in range(500)]
    thing = {"spec": {"schedulerName": "kai-scheduler", "topologySpreadConstraints": spread}}
    response = _answered(handler.VALIDATE_POD, {"operation": "CREATE", "object": thing})
    (cause,) = response["status"]["details"]["causes"]
    assert cause["field"] == "spec.topologySpreadConstraints"
    assert cause["message"] == "500 constraints are more than 64; write at most 64"
    # What is stored already can still be edited.
    again = {"operation": "UPDATE", "object": thing, "oldObject": thing}
    assert _answered(handler.VALIDATE_POD, again)["allowed"]


def test_whoever_writes_a_queue_hears_what_will_surprise() -> None:
    """Beside the answer that KAI gives, not in it."""
    amounts = {"quota": 4, "limit": 2, "overQuotaWeight": 1}
    resources = {"gpu": amounts, "cpu": amounts, "memory": amounts}
    thing = {"metadata": {"name": "q"}, "spec": {"resources": resources}}
    response = _answered(handler.VALIDATE_QUEUE, {"operation": "CREATE", "object": thing})
    assert response["allowed"]
    assert len(response["warnings"]) == 3


def test_whoever_writes_a_job_with_an_odd_minimum_is_let_in_and_told() -> None:
    annotations = {"kai.scheduler/batch-min-member": "four"}
    thing = {"kind": "Job", "metadata": {"name": "j", "annotations": annotations}}
    response = _answered(handler.VALIDATE_WORKLOAD, {"operation": "CREATE", "object": thing})
    assert response["allowed"]
    assert "no whole number" in response["warnings"][0]
