"""Who is asking: static tokens, service account tokens, and acting as somebody else.

`Tokens` is the server's `Authenticator`. A service account token counts only while its account
exists and is the same one (by uid), so deleting an account ends its tokens at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from muster.base.clock import Clock
from muster.base.timefmt import rfc3339
from muster.sim.apiserver.kinds import Cause, Object, ServedKind
from muster.sim.apiserver.pipeline import ANONYMOUS, Attributes, Authorizer, ObjectReader, UserInfo
from muster.sim.apiserver.rbac import account_user
from muster.sim.apiserver.refusal import ApiRefusal, bad_request, invalid
from muster.sim.apiserver.tokens import Account, BadToken, Signer

ADMIN: Final = UserInfo("admin", ("system:masters", "system:authenticated"))
_AUTHENTICATED: Final = "system:authenticated"
_LIFETIME_S: Final = 3600
_LIFETIME_S_MIN: Final = 600
_LIFETIME_S_MAX: Final = 1 << 32


@dataclass(slots=True)
class Tokens:
    """Authenticates by bearer token."""

    reader: ObjectReader
    signer: Signer
    clock: Clock
    static: dict[str, UserInfo] = field(default_factory=dict)

    def user_of(self, headers: Mapping[str, str]) -> UserInfo | None:
        """The user; anonymous without credentials; None when they are no good."""
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if not scheme:
            return ANONYMOUS
        if scheme.lower() != "bearer":
            return None
        return self.user_of_token(token.strip())

    def user_of_token(self, token: str, audiences: tuple[str, ...] = ()) -> UserInfo | None:
        if token in self.static:
            return self.static[token]
        try:
            account = self.signer.read(token, self.clock.now_s(), audiences)
        except BadToken:
            return None
        return self._account_user(account)

    def review(self, spec: Mapping[str, Any]) -> Object:
        """The status of a TokenReview."""
        audiences = tuple(spec.get("audiences") or ())
        user = self.user_of_token(str(spec.get("token") or ""), audiences)
        if user is None:
            return {"user": {}, "error": "[invalid bearer token, unknown token]"}
        status: Object = {"authenticated": True, "user": user_info(user)}
        return status | {"audiences": list(audiences or (self.signer.issuer,))}

    def issue(self, account: Object, now_s: float, lifetime_s: int) -> str:
        """A token for a service account, for those who run with it in this process."""
        meta = account["metadata"]
        holder = Account(meta["namespace"], meta["name"], meta["uid"])
        return self.signer.issue(holder, (), now_s, lifetime_s)

    def _account_user(self, account: Account) -> UserInfo | None:
        stored = self.reader.get("serviceaccounts", account.namespace, account.name)
        if stored is None or stored["metadata"].get("uid") != account.uid:
            return None
        if account.pod_name and not self._pod_lives(account):
            return None
        return account_user(account.namespace, account.name, account.uid)

    def _pod_lives(self, account: Account) -> bool:
        pod = self.reader.get("pods", account.namespace, account.pod_name)
        return pod is not None and pod["metadata"].get("uid") == account.pod_uid


def token_request(
    signer: Signer, clock: Clock, kind: ServedKind, account: Object, request: Mapping[str, Any]
) -> Object:
    """A TokenRequest answered: its spec as granted, and the token in its status."""
    spec = dict(request.get("spec") or {})
    lifetime_s = spec.get("expirationSeconds") or _LIFETIME_S
    if not _LIFETIME_S_MIN <= lifetime_s <= _LIFETIME_S_MAX:
        few = lifetime_s < _LIFETIME_S_MIN
        words = "may not specify a duration less than 10 minutes"
        many = "may not specify a duration larger than 2^32 seconds"
        cause = Cause.invalid("spec.expirationSeconds", lifetime_s, words if few else many)
        raise invalid(kind, str(account["metadata"]["name"]), [cause])
    spec["expirationSeconds"] = lifetime_s
    spec["audiences"] = list(spec.get("audiences") or (signer.issuer,))
    meta, bound = account["metadata"], spec.get("boundObjectRef") or {}
    is_pod = bound.get("kind") == "Pod"
    holder = Account(
        meta["namespace"],
        meta["name"],
        meta.get("uid", ""),
        str(bound.get("name", "")) if is_pod else "",
        str(bound.get("uid", "")) if is_pod else "",
    )
    now_s = clock.now_s()
    token = signer.issue(holder, spec["audiences"], now_s, lifetime_s)
    status = {"token": token, "expirationTimestamp": rfc3339(now_s + lifetime_s)}
    metadata = {"name": meta["name"], "namespace": meta["namespace"]}
    return {"metadata": metadata, "spec": spec, "status": status}


def impersonated(user: UserInfo, headers: Mapping[str, str], authorizer: Authorizer) -> UserInfo:
    """The user that `user` wants to act as (`kubectl --as`), if it may. Header names lower-case."""
    name = headers.get("impersonate-user", "")
    groups = tuple(part for part in headers.get("impersonate-group", "").split(",") if part)
    if not name:
        if groups:
            raise bad_request("requested impersonation of groups without impersonating a user")
        return user
    for resource, wanted in _impersonations(name, groups):
        asked = Attributes(
            user, "impersonate", "", "v1", resource, name=wanted[1], namespace=wanted[0]
        )
        if not authorizer.decide(asked).allowed:
            raise _may_not_impersonate(user, resource, wanted)
    if name.startswith("system:serviceaccount:") and not groups:
        _, _, namespace, account = name.split(":", 3)
        return account_user(namespace, account)
    return UserInfo(name, (*groups, *(() if _AUTHENTICATED in groups else (_AUTHENTICATED,))))


def user_info(user: UserInfo) -> Object:
    """The user as reviews show it."""
    info: Object = {"username": user.name, "groups": list(user.groups)}
    if user.uid:
        info["uid"] = user.uid
    if user.extra:
        info["extra"] = {key: list(values) for key, values in user.extra.items()}
    return info


def _impersonations(name: str, groups: tuple[str, ...]) -> list[tuple[str, tuple[str, str]]]:
    """(resource, (namespace, name)) of everything that must be allowed."""
    if name.startswith("system:serviceaccount:") and name.count(":") == 3:
        _, _, namespace, account = name.split(":")
        first = ("serviceaccounts", (namespace, account))
    else:
        first = ("users", ("", name))
    return [first, *(("groups", ("", group)) for group in groups)]


def _may_not_impersonate(user: UserInfo, resource: str, wanted: tuple[str, str]) -> ApiRefusal:
    namespace, name = wanted
    where = f' in the namespace "{namespace}"' if namespace else " at the cluster scope"
    text = (
        f'{resource} "{name}" is forbidden: User "{user.name}" cannot impersonate resource '
        f'"{resource}" in API group ""{where}'
    )
    return ApiRefusal(403, "Forbidden", text, {"name": name, "kind": resource})
