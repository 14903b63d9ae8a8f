"""When a bind request has come to its end."""

import pytest

from muster.api.bindrequest import BindRequest
from muster.api.codec import from_builtins

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
