"""Each rule about bind requests takes and refuses."""

from typing import Any

import pytest

from muster.api.bindrequest import BindRequest
from muster.api.codec import from_builtins
from muster.api.validation.bind_requests import bind_request_problems

pytestmark = pytest.mark.row(87)

Json = dict[str, Any]
_PLAIN: Json = {"podName": "p", "selectedNode": "n"}
_SHARED: Json = {
    "receivedResourceType": "Fraction",
    "receivedGPU": {"count": 1, "portion": "0.50"},
    "selectedGPUGroups": ["g"],
}


def _request(**spec: Any) -> BindRequest:
    return from_builtins(BindRequest, {"spec": {**_PLAIN, **spec}})


_WRONG: list[tuple[Json, str, str]] = [
    ({"podName": ""}, "spec.podName", "there is no pod"),
    ({"selectedNode": ""}, "spec.selectedNode", "there is no node"),
    ({"receivedResourceType": "Half"}, "spec.receivedResourceType", "unknown value 'Half'"),
    ({"receivedGPU": {"count": -1}}, "spec.receivedGPU.count", "-1 is negative"),
    ({"receivedGPU": {"portion": "half"}}, "spec.receivedGPU.portion", "no part of a device"),
    ({"receivedGPU": {"portion": "1.5"}}, "spec.receivedGPU.portion", "no part of a device"),
    ({"receivedGPU": {"portion": "nan"}}, "spec.receivedGPU.portion", "no part of a device"),
    ({**_SHARED, "selectedGPUGroups": []}, "spec.selectedGPUGroups", "without a device"),
    ({**_SHARED, "selectedGPUGroups": ["g", "h"]}, "spec.selectedGPUGroups", "2 devices"),
    ({"backoffLimit": -1}, "spec.backoffLimit", "-1 is negative"),
]


@pytest.mark.parametrize(("spec", "path", "text"), _WRONG)
def test_a_request_against_a_rule_has_one_problem_at_the_field(
    spec: Json, path: str, text: str
) -> None:
    (problem,) = bind_request_problems(_request(**spec))
    assert problem.path == path
    assert text in problem.message


def test_a_claim_is_allocated_once() -> None:
    found = bind_request_problems(_request(resourceClaimAllocations=[{"name": "c"}] * 2))
    assert [problem.path for problem in found] == [
        "spec.resourceClaimAllocations[0].name",
        "spec.resourceClaimAllocations[1].name",
    ]


def test_a_decision_is_not_changed() -> None:
    found = bind_request_problems(_request(podName="q", selectedNode="m"), _request())
    assert [problem.path for problem in found] == ["spec.podName", "spec.selectedNode"]


@pytest.mark.parametrize(
    "spec",
    [{}, _SHARED, {"backoffLimit": 0}, {"resourceClaimAllocations": [{"name": "c"}]}],
)
def test_a_request_within_the_rules_has_no_problem(spec: Json) -> None:
    assert list(bind_request_problems(_request(**spec), _request(**spec))) == []


@pytest.mark.parametrize(
    ("phase", "attempts", "limit", "failed"),
    [
        ("Failed", 1, None, True),
        ("Failed", 1, 3, False),
        ("Failed", 3, 3, True),
        ("Pending", 9, 3, False),
        ("Succeeded", 0, None, False),
    ],
)
def test_a_request_has_failed_when_no_attempt_is_left(
    phase: str, attempts: int, limit: int | None, failed: bool
) -> None:
    spec = _PLAIN | ({} if limit is None else {"backoffLimit": limit})
    status = {"phase": phase, "failedAttempts": attempts}
    request = from_builtins(BindRequest, {"spec": spec, "status": status})
    assert request.has_failed is failed
