"""When a bind request has come to its end."""

import pytest

from muster.api.bindrequest import BindRequest
from muster.api.codec import from_builtins

_LEAVING = {"deletionTimestamp": "2023-11-14T22:13:20Z"}
_PLAIN = {"podName": "p", "selectedNode": "n"}


@pytest.mark.row(87)
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
def test_a_bind_request_has_failed_when_no_attempt_is_left(
    phase: str, attempts: int, limit: int | None, failed: bool
) -> None:
    spec = {**_PLAIN, **({} if limit is None else {"backoffLimit": limit})}
    status = {"phase": phase, "failedAttempts": attempts}
    request = from_builtins(BindRequest, {"spec": spec, "status": status})
    assert request.has_failed is failed


def bind_request(phase: str = "", failed: int = 0, is_leaving: bool = False) -> BindRequest:
    owner = {"kind": "Pod", "name": "p", "uid": "p-1", "apiVersion": "v1"}
    body = {
        "metadata": {
            "name": "p",
            "namespace": "team",
            "ownerReferences": [owner],
            **(_LEAVING if is_leaving else {}),
        },
        "spec": {"podName": "p", "selectedNode": "n1", "backoffLimit": 3},
        "status": {"phase": phase, "failedAttempts": failed},
    }
    return from_builtins(BindRequest, body)


@pytest.mark.parametrize(
    ("request_", "is_live", "is_over"),
    [
        (bind_request(), True, False),
        (bind_request("Pending", failed=2), True, False),
        (bind_request("Failed", failed=2), True, False),  # it is tried again
        (bind_request("Failed", failed=3), False, True),
        (bind_request("Succeeded"), True, True),
        (bind_request(is_leaving=True), False, True),
    ],
    ids=["new", "pending", "failed once", "failed", "succeeded", "leaving"],
)
def test_a_request_lives_until_it_failed_for_good_or_leaves(
    request_: BindRequest, is_live: bool, is_over: bool
) -> None:
    assert (request_.is_live_for("p-1"), request_.is_over) == (is_live, is_over)
    assert not request_.is_live_for("p-2"), "another pod of that name"
