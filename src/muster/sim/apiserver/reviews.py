"""Questions that are posted as objects and answered in their status: access and token reviews."""

from collections.abc import Callable
from typing import Any

from muster.sim.apiserver import bodies
from muster.sim.apiserver.answers import ApiResponse, json_answer
from muster.sim.apiserver.app import ApiServer
from muster.sim.apiserver.auth import user_info
from muster.sim.apiserver.kinds import Cause, Object
from muster.sim.apiserver.pipeline import Attributes, UserInfo
from muster.sim.apiserver.refusal import invalid
from muster.sim.apiserver.routes import ApiCall

TokenReview = Callable[[Object], Object]


def register(server: ApiServer, token_review: TokenReview | None = None) -> None:
    """`token_review` makes the status of a TokenReview of its spec; without it no token is good."""
    reviews = Reviews(server, token_review)
    access, identity = "authorization.k8s.io", "authentication.k8s.io"
    server.special |= {
        (f"selfsubjectaccessreviews.{access}", "", "create"): reviews.self_access,
        (f"subjectaccessreviews.{access}", "", "create"): reviews.access,
        (f"localsubjectaccessreviews.{access}", "", "create"): reviews.access,
        (f"selfsubjectrulesreviews.{access}", "", "create"): reviews.rules,
        (f"selfsubjectreviews.{identity}", "", "create"): reviews.self_review,
        (f"tokenreviews.{identity}", "", "create"): reviews.token,
    }


class Reviews:
    def __init__(self, server: ApiServer, token_review: TokenReview | None) -> None:
        self._server = server
        self._token_review = token_review

    async def self_access(self, call: ApiCall) -> ApiResponse:
        obj = bodies.read_typed(call, call.kind.definition)
        return self._decided(call, obj, call.user)

    async def access(self, call: ApiCall) -> ApiResponse:
        obj = bodies.read_typed(call, call.kind.definition)
        spec = obj.get("spec") or {}
        if not spec.get("user") and not spec.get("groups"):
            cause = Cause.invalid(
                "spec.user", "", "at least one of user or group must be specified"
            )
            raise invalid(call.kind, "", [cause])
        user = UserInfo(spec.get("user", ""), tuple(spec.get("groups") or ()), spec.get("uid", ""))
        return self._decided(call, obj, user)

    async def rules(self, call: ApiCall) -> ApiResponse:
        obj = bodies.read_typed(call, call.kind.definition)
        namespace = (obj.get("spec") or {}).get("namespace", "")
        resources, paths = self._server.parts.authorizer.rules_of(call.user, namespace)
        status = {"resourceRules": resources, "nonResourceRules": paths, "incomplete": False}
        return _answered(call, obj, status)

    async def self_review(self, call: ApiCall) -> ApiResponse:
        obj = bodies.read_typed(call, call.kind.definition)
        return _answered(call, obj, {"userInfo": user_info(call.user)})

    async def token(self, call: ApiCall) -> ApiResponse:
        obj = bodies.read_typed(call, call.kind.definition)
        spec = obj.get("spec") or {}
        if self._token_review is None:
            return _answered(call, obj, {"user": {}, "error": "this server checks no tokens"})
        return _answered(call, obj, self._token_review(spec))

    def _decided(self, call: ApiCall, obj: Object, user: UserInfo) -> ApiResponse:
        spec = obj.get("spec") or {}
        resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
        if bool(resource) == bool(path):
            text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
            cause = Cause.invalid("spec.resourceAttributes", resource, text)
            raise invalid(call.kind, "", [cause])
        asked = _resource(user, resource) if resource else _path(user, path)
        decision = self._server.parts.authorizer.decide(asked)
        status: Object = {"allowed": decision.allowed}
        if decision.denied:
            status["denied"] = True
        if decision.reason:
            status["reason"] = decision.reason
        return _answered(call, obj, status)


def _resource(user: UserInfo, asked: Any) -> Attributes:
    return Attributes(
        user,
        asked.get("verb", ""),
        asked.get("group", ""),
        asked.get("version", ""),
        asked.get("resource", ""),
        asked.get("subresource", ""),
        asked.get("namespace", ""),
        asked.get("name", ""),
    )


def _path(user: UserInfo, asked: Any) -> Attributes:
    return Attributes(user, asked.get("verb", ""), path=asked.get("path", ""))


def _answered(call: ApiCall, obj: Object, status: Object) -> ApiResponse:
    head = {"kind": call.kind.kind, "apiVersion": call.kind.api_version}
    return json_answer({**head, **obj, "status": status}, 201)
