"""Every refusal of the server, with the code, reason, message and details of Kubernetes.

An `ApiRefusal` is raised where the fact is known and becomes a `Status` body in `app.py`, nowhere
else.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from muster.sim.apiserver.kinds import Cause, ServedKind


class ApiRefusal(Exception):
    """The request is answered with a failed Status."""

    def __init__(
        self, code: int, reason: str, message: str, details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = dict(details or {})

    @property
    def status(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.details:
            # Some answers carry empty details.
            body["details"] = {key: value for key, value in self.details.items() if key}
        return body | {"code": self.code}


def bad_request(message: str) -> ApiRefusal:
    return ApiRefusal(400, "BadRequest", message)


def unauthorized() -> ApiRefusal:
    return ApiRefusal(401, "Unauthorized", "Unauthorized")


def forbidden(kind: ServedKind, name: str, why: str) -> ApiRefusal:
    named = (
        f'{kind.resource} "{name}" is forbidden: ' if name else f"{kind.resource} is forbidden: "
    )
    return ApiRefusal(403, "Forbidden", named + why, _details(kind, name))


def not_found(kind: ServedKind, name: str) -> ApiRefusal:
    text = f'{kind.resource} "{name}" not found'
    return ApiRefusal(404, "NotFound", text, _details(kind, name))


def no_such_path() -> ApiRefusal:
    """A resource that its group and version do not have."""
    text = "the server could not find the requested resource"
    return ApiRefusal(404, "NotFound", text, {"": ""})


def method_not_allowed(kind: ServedKind | None, verb: str) -> ApiRefusal:
    text = "the server does not allow this method on the requested resource"
    return ApiRefusal(405, "MethodNotAllowed", text, {"": ""})


def not_acceptable(offered: Sequence[str]) -> ApiRefusal:
    text = "406: Not Acceptable\n\nAvailable representations: " + ", ".join(offered)
    return ApiRefusal(406, "NotAcceptable", text, {"": ""})


def already_exists(kind: ServedKind, name: str) -> ApiRefusal:
    text = f'{kind.resource} "{name}" already exists'
    return ApiRefusal(409, "AlreadyExists", text, _details(kind, name))


def conflict(kind: ServedKind, name: str, why: str = "") -> ApiRefusal:
    why = why or (
        "the object has been modified; "
        "please apply your changes to the latest version and try again"
    )
    text = f'Operation cannot be fulfilled on {kind.resource} "{name}": {why}'
    return ApiRefusal(409, "Conflict", text, _details(kind, name))


def gone(message: str) -> ApiRefusal:
    return ApiRefusal(410, "Expired", message)


def unsupported_media_type(sent: str, accepted: Sequence[str]) -> ApiRefusal:
    text = (
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted)
    )
    return ApiRefusal(415, "UnsupportedMediaType", text, {"": ""})


def invalid(kind: ServedKind, name: str, causes: Sequence[Cause]) -> ApiRefusal:
    """422 with one cause per fault; the message joins them as Kubernetes does."""
    lines = list(dict.fromkeys(f"{cause.field}: {cause.message}" for cause in causes))
    joined = lines[0] if len(lines) == 1 else f"[{', '.join(lines)}]"
    listed = [{"reason": c.reason, "message": c.message, "field": c.field} for c in causes]
    details = {"name": name, "group": kind.group, "kind": kind.kind, "causes": listed}
    subject = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    text = f'{subject} "{name}" is invalid: {joined}'
    return ApiRefusal(422, "Invalid", text, {k: v for k, v in details.items() if v})


def invalid_options(options: str, cause: Cause) -> ApiRefusal:
    """422 for query parameters: CreateOptions, ListOptions and the like."""
    listed = {"reason": cause.reason, "message": cause.message, "field": cause.field}
    details = {"group": "meta.k8s.io", "kind": options, "causes": [listed]}
    text = f'{options}.meta.k8s.io "" is invalid: {cause.field}: {cause.message}'
    return ApiRefusal(422, "Invalid", text, details)


def too_many_requests(message: str, causes: Sequence[Mapping[str, Any]] = ()) -> ApiRefusal:
    details = {"causes": list(causes)} if causes else None
    return ApiRefusal(429, "TooManyRequests", message, details)


def internal(message: str) -> ApiRefusal:
    text = f"Internal error occurred: {message}"
    return ApiRefusal(500, "InternalError", text, {"causes": [{"message": message}]})


def _details(kind: ServedKind, name: str) -> dict[str, Any]:
    details = {"name": name, "group": kind.group, "kind": kind.plural}
    return {key: value for key, value in details.items() if value}
