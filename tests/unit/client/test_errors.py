"""Every refusal of the server becomes the exception type that callers catch."""

import json

import pytest

from muster.client import errors

_REASONS = [
    (400, "BadRequest", errors.BadRequest),
    (401, "Unauthorized", errors.Unauthorized),
    (403, "Forbidden", errors.Forbidden),
    (404, "NotFound", errors.NotFound),
    (405, "MethodNotAllowed", errors.NotAllowed),
    (409, "Conflict", errors.Conflict),
    (409, "AlreadyExists", errors.AlreadyExists),
    (410, "Expired", errors.Gone),
    (410, "Gone", errors.Gone),
    (413, "RequestEntityTooLarge", errors.TooLarge),
    (415, "UnsupportedMediaType", errors.Unsupported),
    (422, "Invalid", errors.Invalid),
    (429, "TooManyRequests", errors.Throttled),
    (500, "InternalError", errors.ServerError),
    (503, "ServiceUnavailable", errors.Unavailable),
    (504, "Timeout", errors.Timeout),
    (504, "ServerTimeout", errors.Timeout),
    (418, "", errors.BadRequest),
    (507, "", errors.ServerError),
]


@pytest.mark.parametrize(("code", "reason", "wanted"), _REASONS)
def test_a_status_becomes_the_error_of_its_reason(
    code: int, reason: str, wanted: type[errors.ApiError]
) -> None:
    body = json.dumps({"code": code, "reason": reason, "message": "because"}).encode()
    error = errors.api_error(code, {}, body, "GET /x")
    assert type(error) is wanted
    said = f"GET /x: {code} {reason}: because" if reason else f"GET /x: {code}: because"
    assert str(error) == said


def test_a_refused_object_names_every_bad_field() -> None:
    causes = [{"reason": "FieldValueInvalid", "field": "spec.quota", "message": "must not be -1"}]
    body = json.dumps({"code": 422, "reason": "Invalid", "details": {"causes": causes}}).encode()
    error = errors.api_error(422, {}, body)
    assert [(cause.field, cause.message) for cause in error.causes] == [
        ("spec.quota", "must not be -1")
    ]


@pytest.mark.parametrize(
    ("headers", "details", "wanted_s"),
    [
        ({"retry-after": "7"}, {}, 7.0),
        ({}, {"retryAfterSeconds": 3}, 3.0),
        ({"retry-after": "soon"}, {}, 0.0),
        ({"retry-after": "\u00b2"}, {}, 0.0),
    ],
)
def test_a_throttled_error_carries_retry_after(
    headers: dict[str, str], details: dict[str, int], wanted_s: float
) -> None:
    body = json.dumps({"code": 429, "details": details}).encode()
    error = errors.api_error(429, headers, body)
    assert isinstance(error, errors.Throttled)
    assert error.retry_after_s == wanted_s


def test_a_body_that_is_no_status_is_the_error_message() -> None:
    error = errors.api_error(502, {}, b"<html>bad gateway</html>")
    assert isinstance(error, errors.Unavailable)
    assert "bad gateway" in str(error)


@pytest.mark.parametrize(
    ("code", "is_passing"),
    [
        *((code, False) for code in (400, 401, 403, 404, 405, 413, 415, 422)),
        *((code, True) for code in (409, 410, 429, 500, 502, 503, 504)),
    ],
)
def test_what_the_server_may_answer_otherwise_in_a_while_passes(
    code: int, is_passing: bool
) -> None:
    assert errors.api_error(code, {}, b"").is_passing is is_passing


class Library(Exception):
    """As some are: its repr shows the headers of the request."""

    def __repr__(self) -> str:
        return "Library(headers={'authorization': 'Bearer hidden'})"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (errors.Unreachable("server: refused"), "server: refused"),
        (errors.Interrupted(), "Interrupted"),
        (errors.api_error(404, {}, b"gone", "get pods"), "get pods: 404: gone"),
        (KeyError("spec"), "KeyError: 'spec'"),
        (TimeoutError(), "TimeoutError"),
        (Library("broke off"), "Library: broke off"),
        (Library(), "Library"),
    ],
)
def test_errors_of_ours_say_all_and_of_others_the_type_is_said(error: Exception, text: str) -> None:
    assert errors.described(error) == text
