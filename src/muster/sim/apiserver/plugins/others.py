"""What nodes, claims and roles get or may not have, because of other objects."""

from typing import Final

from muster.sim.apiserver.kinds import Cause, Object
from muster.sim.apiserver.pipeline import AdmissionPhase, AdmissionStep, Attributes, WriteRequest
from muster.sim.apiserver.rbac import GROUP, PolicyRule, Rbac, escalation
from muster.sim.apiserver.refusal import ApiRefusal, forbidden

_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
_NOT_READY: Final = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


async def taint_new_node(
    request: WriteRequest, old: Object | None, new: Object | None
) -> Object | None:
    """A node takes no pods until somebody has seen it ready."""
    if new is None or old is not None or request.subresource:
        return None
    taints = new.setdefault("spec", {}).get("taints") or []
    if _NOT_READY not in taints:
        new["spec"]["taints"] = [*taints, dict(_NOT_READY)]
    return new


async def set_storage_class(
    request: WriteRequest, old: Object | None, new: Object | None
) -> Object | None:
    """A claim that names no class (not even the empty one) gets the default class."""
    if new is None or old is not None or request.subresource:
        return None
    if new.setdefault("spec", {}).get("storageClassName") is not None:
        return None
    found = [
        each for each in request.reader.list("storageclasses.storage.k8s.io") if _is_default(each)
    ]
    if not found:
        return None
    # The youngest of several, as Kubernetes does.
    found.sort(key=lambda each: str(each["metadata"]["name"]))
    found.sort(key=lambda each: str(each["metadata"].get("creationTimestamp", "")), reverse=True)
    new["spec"]["storageClassName"] = found[0]["metadata"]["name"]
    return new


def role_steps(rbac: Rbac) -> list[AdmissionStep]:
    """Nobody gives away rights that are not theirs."""
    guard = _RoleGuard(rbac)
    return [
        AdmissionStep(
            "role reference stays", AdmissionPhase.VALIDATE, guard.same_reference, _is_binding
        ),
        AdmissionStep("no escalation by roles", AdmissionPhase.ADMIT, guard.check_role, _is_role),
        AdmissionStep(
            "no escalation by bindings", AdmissionPhase.ADMIT, guard.check_binding, _is_binding
        ),
    ]


class _RoleGuard:
    def __init__(self, rbac: Rbac) -> None:
        self._rbac = rbac

    async def same_reference(
        self, request: WriteRequest, old: Object | None, new: Object | None
    ) -> list[Cause]:
        if old is None or new is None or old.get("roleRef") == new.get("roleRef"):
            return []
        # The server prints the reference by the names of its own fields.
        wanted = new.get("roleRef") or {}
        fields = {"APIGroup": "apiGroup", "Kind": "kind", "Name": "name"}
        shown = {name: wanted.get(key, "") for name, key in fields.items()}
        return [Cause.invalid("roleRef", shown, "cannot change roleRef")]

    async def check_role(
        self, request: WriteRequest, old: Object | None, new: Object | None
    ) -> None:
        if new is None or (old is not None and old.get("rules") == new.get("rules")):
            return
        self._check(request, "escalate", [PolicyRule.of(rule) for rule in new.get("rules") or ()])

    async def check_binding(
        self, request: WriteRequest, old: Object | None, new: Object | None
    ) -> None:
        if new is None or (old is not None and old.get("subjects") == new.get("subjects")):
            return
        reference = new.get("roleRef") or {}
        rules = self._rbac.rules_in(reference, request.namespace)
        if self._may(
            request, "bind", str(reference.get("kind", "")), str(reference.get("name", ""))
        ):
            return
        if rules is None:
            plural = "clusterroles" if reference.get("kind") == "ClusterRole" else "roles"
            name = reference.get("name")
            text = f'{plural}.{GROUP} "{name}" not found'
            raise ApiRefusal(404, "NotFound", text, {"name": name, "group": GROUP, "kind": plural})
        self._check(request, "bind", rules)

    def _check(self, request: WriteRequest, verb: str, given: list[PolicyRule]) -> None:
        name = request.name if request.is_named else ""
        if verb == "escalate" and self._may(request, verb, request.kind.kind, name):
            return
        missing = escalation(self._rbac.held(request.user, request.namespace), given)
        if missing:
            groups = " ".join(f'"{group}"' for group in request.user.groups)
            listed = "\n".join(str(rule) for rule in missing)
            why = (
                f'user "{request.user.name}" (groups=[{groups}]) is attempting to grant RBAC '
                f"permissions not currently held:\n{listed}"
            )
            raise forbidden(request.kind, request.name, why)

    def _may(self, request: WriteRequest, verb: str, kind: str, name: str) -> bool:
        resource = "clusterroles" if kind == "ClusterRole" else "roles"
        asked = Attributes(
            request.user, verb, GROUP, "v1", resource, namespace=request.namespace, name=name
        )
        return self._rbac.decide(asked).allowed


def _is_default(storage_class: Object) -> bool:
    annotations = storage_class["metadata"].get("annotations") or {}
    return annotations.get(_DEFAULT_CLASS) == "true"


def _is_role(request: WriteRequest) -> bool:
    return request.kind.group == GROUP and request.kind.plural in ("roles", "clusterroles")


def _is_binding(request: WriteRequest) -> bool:
    bindings = ("rolebindings", "clusterrolebindings")
    return request.kind.group == GROUP and request.kind.plural in bindings
