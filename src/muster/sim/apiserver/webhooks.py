"""Which admission webhooks a write concerns, what they are sent, and what their answers mean. Pure.

The calls themselves are made by `admission.py`. A `Webhook` is one entry of a Mutating- or
ValidatingWebhookConfiguration with its defaults filled in.
"""

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from muster.api import cel
from muster.sim.apiserver.kinds import Object, ServedKind
from muster.sim.apiserver.pipeline import UserInfo, WriteRequest
from muster.sim.apiserver.refusal import ApiRefusal, bad_request, internal
from muster.sim.selection import labels_of, selects

GROUP: Final = "admissionregistration.k8s.io"
_OPERATIONS: Final = {"create": "CREATE", "update": "UPDATE", "delete": "DELETE"}
_VARIABLES: Final = ("object", "oldObject", "request")
# What is sent to these subresources is an object of another kind.
_BODIES: Final = {
    "binding": ("", "v1", "Binding"),
    "eviction": ("policy", "v1", "Eviction"),
    "scale": ("autoscaling", "v1", "Scale"),
    "token": ("authentication.k8s.io", "v1", "TokenRequest"),
}


@dataclass(frozen=True, slots=True)
class Webhook:
    """One webhook. `client` and the selectors are as the API has them."""

    name: str
    client: Mapping[str, Any]
    rules: Sequence[Mapping[str, Any]]
    fails_closed: bool = True
    is_exact: bool = False
    timeout_s: float = 10.0
    side_effects: str = ""
    reinvoked: bool = False
    namespaces: Mapping[str, Any] = field(default_factory=dict)
    objects: Mapping[str, Any] = field(default_factory=dict)
    conditions: Sequence[tuple[str, str]] = ()

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> "Webhook":
        conditions = entry.get("matchConditions") or ()
        return cls(
            name=str(entry.get("name", "")),
            client=entry.get("clientConfig") or {},
            rules=entry.get("rules") or (),
            fails_closed=(entry.get("failurePolicy") or "Fail") != "Ignore",
            is_exact=entry.get("matchPolicy") == "Exact",
            timeout_s=float(entry.get("timeoutSeconds") or 10),
            side_effects=str(entry.get("sideEffects") or ""),
            reinvoked=entry.get("reinvocationPolicy") == "IfNeeded",
            namespaces=entry.get("namespaceSelector") or {},
            objects=entry.get("objectSelector") or {},
            conditions=tuple((each["name"], each["expression"]) for each in conditions),
        )

    @property
    def ca_bundle(self) -> bytes:
        """The certificates to trust; empty: those of the system."""
        try:
            return base64.b64decode(self.client.get("caBundle") or "", validate=True)
        except (binascii.Error, ValueError):
            return b""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The response of a webhook that allowed the write: its patch and warnings."""

    patch: Sequence[Mapping[str, Any]] | None = None
    warnings: Sequence[str] = ()


class CallFailed(Exception):
    """No usable answer came: what `failurePolicy` is about."""


def webhooks_in(configurations: Iterable[Object]) -> list[Webhook]:
    """All webhooks in the order in which they are called."""
    ordered = sorted(configurations, key=lambda each: str(each["metadata"]["name"]))
    return [Webhook.of(entry) for each in ordered for entry in each.get("webhooks") or ()]


def matched_kind(
    hook: Webhook, request: WriteRequest, versions: Sequence[ServedKind]
) -> ServedKind | None:
    """The kind as which a write concerns the hook: the one written, or an equal other version."""
    candidates = [request.kind] if hook.is_exact else [request.kind, *versions]
    for kind in candidates:
        if any(_rule_matches(rule, kind, request) for rule in hook.rules):
            return kind
    return None


def is_selected(
    hook: Webhook, request: WriteRequest, old: Object | None, new: Object | None
) -> bool:
    """Whether the selectors of namespaces and objects let the write through to the hook."""
    if hook.namespaces and not selects(hook.namespaces, _namespace_labels(request, old, new)):
        return False
    if not hook.objects:
        return True
    return any(selects(hook.objects, labels_of(obj)) for obj in (new, old) if obj is not None)


def conditions_hold(hook: Webhook, review: Mapping[str, Any]) -> bool:
    """Whether every match condition is true of the request. Raises `CallFailed` when one fails."""
    request = review["request"]
    variables = {
        "object": request.get("object"),
        "oldObject": request.get("oldObject"),
        "request": {k: v for k, v in request.items() if k not in ("object", "oldObject")},
    }
    failed: list[str] = []
    for name, expression in hook.conditions:
        try:
            if not cel.compiled(expression, _VARIABLES).is_true(variables):
                return False
        except (cel.BadExpression, cel.EvaluationFailed) as error:
            failed.append(f"{name}: {error}")
    if failed:
        raise CallFailed("; ".join(failed))
    return True


def review_of(
    request: WriteRequest, kind: ServedKind, old: Object | None, new: Object | None
) -> dict[str, Any]:
    """The AdmissionReview that is sent. `kind` is the version of the matching rule."""
    body_kind = _BODIES.get(request.subresource, (kind.group, kind.version, kind.kind))
    written = _BODIES.get(
        request.subresource, (request.kind.group, request.kind.version, request.kind.kind)
    )
    review: dict[str, Any] = {
        "uid": request.uid,
        "kind": _kind(body_kind),
        "resource": _resource(kind),
        "requestKind": _kind(written),
        "requestResource": _resource(request.kind),
        "name": request.name,
        "namespace": request.namespace,
        "operation": _OPERATIONS[request.verb],
        "userInfo": _user(request.user),
        "object": _shown(new, body_kind),
        "oldObject": _shown(old, (kind.group, kind.version, kind.kind)),
        "dryRun": request.dry_run,
        "options": _options(request),
    }
    if request.subresource:
        review["subResource"] = review["requestSubResource"] = request.subresource
    kept = {key: value for key, value in review.items() if value not in ("",)}
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": kept}


def verdict_of(hook: Webhook, uid: str, answer: bytes, *, may_patch: bool) -> Verdict:
    """What the answer means. Raises `ApiRefusal` for a no and `CallFailed` for nonsense."""
    try:
        response = msgspec.json.decode(answer)["response"]
        allowed, answered = bool(response["allowed"]), response.get("uid")
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError):
        raise CallFailed(
            "received invalid webhook response: no AdmissionReview with a response"
        ) from None
    if answered != uid:
        words = f'expected response.uid="{uid}", got "{answered}"'
        raise CallFailed(f"received invalid webhook response: {words}")
    if not allowed:
        raise denial(hook, response.get("status") or {})
    warnings = [str(text) for text in response.get("warnings") or ()]
    if response.get("patch") is None or not may_patch:
        return Verdict(warnings=warnings)
    if response.get("patchType") != "JSONPatch":
        raise CallFailed(f'unsupported patch type "{response.get("patchType", "")}"')
    try:
        patch = msgspec.json.decode(base64.b64decode(response["patch"], validate=True))
    except (msgspec.DecodeError, binascii.Error, ValueError, TypeError) as error:
        raise CallFailed(f"received undecodable patch in webhook response: {error}") from None
    return Verdict(patch, warnings)


def denial(hook: Webhook, status: Mapping[str, Any]) -> ApiRefusal:
    denied = f'admission webhook "{hook.name}" denied the request'
    reason, message = str(status.get("reason") or ""), str(status.get("message") or "")
    said = message or reason
    text = f"{denied}: {said}" if said else f"{denied} without explanation"
    code = int(status.get("code") or 0)
    return ApiRefusal(max(code, 400), reason, text, status.get("details"))


def no_dry_run(hook: Webhook) -> ApiRefusal:
    return bad_request(f'admission webhook "{hook.name}" does not support dry run')


def failed_call(hook: Webhook, why: object) -> ApiRefusal:
    return internal(f'failed calling webhook "{hook.name}": {why}')


def _rule_matches(rule: Mapping[str, Any], kind: ServedKind, request: WriteRequest) -> bool:
    scope = rule.get("scope") or "*"
    in_scope = scope == "*" or (scope == "Namespaced") == _is_in_namespace(kind)
    return (
        in_scope
        and _listed(rule, "operations", _OPERATIONS[request.verb])
        and _listed(rule, "apiGroups", kind.group)
        and _listed(rule, "apiVersions", kind.version)
        and _resource_listed(rule.get("resources") or (), kind.plural, request.subresource)
    )


def _is_in_namespace(kind: ServedKind) -> bool:
    return kind.namespaced and not (kind.group == "" and kind.plural == "namespaces")


def _listed(rule: Mapping[str, Any], key: str, value: str) -> bool:
    values = rule.get(key) or ()
    return "*" in values or value in values


def _resource_listed(resources: Sequence[str], plural: str, subresource: str) -> bool:
    for entry in resources:
        resource, _, below = entry.partition("/")
        if resource in ("*", plural) and (below == subresource or (below == "*")):
            return True
    return False


def _namespace_labels(
    request: WriteRequest, old: Object | None, new: Object | None
) -> Mapping[str, str]:
    if request.kind.resource == "namespaces":
        return labels_of(new if new is not None else old)
    space = request.reader.get("namespaces", "", request.namespace) if request.namespace else None
    return labels_of(space)


def _options(request: WriteRequest) -> dict[str, Any]:
    kind = {"kind": f"{request.verb.capitalize()}Options", "apiVersion": "meta.k8s.io/v1"}
    return {**kind, **request.options}


def _kind(named: tuple[str, str, str]) -> dict[str, str]:
    return dict(zip(("group", "version", "kind"), named, strict=True))


def _resource(kind: ServedKind) -> dict[str, str]:
    return {"group": kind.group, "version": kind.version, "resource": kind.plural}


def _shown(obj: Object | None, named: tuple[str, str, str]) -> Object | None:
    if obj is None:
        return None
    group, version, kind = named
    return {"kind": kind, "apiVersion": f"{group}/{version}" if group else version, **obj}


def _user(user: UserInfo) -> dict[str, Any]:
    info: dict[str, Any] = {"username": user.name, "groups": list(user.groups)}
    if user.uid:
        info["uid"] = user.uid
    return info
