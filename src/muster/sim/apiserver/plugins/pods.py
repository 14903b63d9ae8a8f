"""What a new pod gets from other objects: priority, tolerations, overhead, service account."""

from collections.abc import Sequence
from typing import Any, Final

from muster.sim.apiserver.kinds import Object
from muster.sim.apiserver.pipeline import WriteRequest
from muster.sim.apiserver.refusal import ApiRefusal, forbidden

PRIORITY_CLASSES: Final = "priorityclasses.scheduling.k8s.io"
_RUNTIME_CLASSES: Final = "runtimeclasses.node.k8s.io"
_GRACE_S: Final = 300
_UNUSABLE: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


async def set_priority(
    request: WriteRequest, old: Object | None, new: Object | None
) -> Object | None:
    """The number behind `priorityClassName`, or that of the default class."""
    if new is None or old is not None or request.subresource:
        return None
    spec = new["spec"]
    chosen = _priority_class(request, str(spec.get("priorityClassName") or ""))
    value = int(chosen.get("value", 0)) if chosen else 0
    policy = (chosen or {}).get("preemptionPolicy") or "PreemptLowerPriority"
    for name, given, computed, noun in (
        ("priority", spec.get("priority"), value, "integer value of priority"),
        (
            "preemptionPolicy",
            spec.get("preemptionPolicy"),
            policy,
            "string value of PreemptionPolicy",
        ),
    ):
        if given is not None and given != computed:
            why = (
                f"the {noun} ({given}) must not be provided in pod spec; priority admission "
                f"controller computed {computed} from the given PriorityClass name"
            )
            raise forbidden(request.kind, request.name, why)
        spec[name] = computed
    if chosen:
        spec["priorityClassName"] = chosen["metadata"]["name"]
    return new


async def set_tolerations(
    request: WriteRequest, old: Object | None, new: Object | None
) -> Object | None:
    """Tolerations of not-ready and unreachable for five minutes, unless the pod has its own."""
    if new is None or old is not None or request.subresource:
        return None
    tolerations = list(new["spec"].get("tolerations") or ())
    for key in _UNUSABLE:
        if not any(_tolerates(each, key) for each in tolerations):
            tolerations.append(
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": _GRACE_S,
                }
            )
    new["spec"]["tolerations"] = tolerations
    return new


async def set_runtime(
    request: WriteRequest, old: Object | None, new: Object | None
) -> Object | None:
    """Overhead, node selector and tolerations of the runtime class."""
    name = (new or {}).get("spec", {}).get("runtimeClassName")
    if new is None or old is not None or request.subresource or not name:
        return None
    runtime = request.reader.get(_RUNTIME_CLASSES, "", name)
    if runtime is None:
        why = f'pod rejected: RuntimeClass "{name}" not found'
        raise forbidden(request.kind, request.name, why)
    spec = new["spec"]
    overhead = (runtime.get("overhead") or {}).get("podFixed")
    if spec.get("overhead") and spec["overhead"] != overhead:
        why = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
        raise forbidden(request.kind, request.name, why)
    if overhead:
        spec["overhead"] = dict(overhead)
    scheduling = runtime.get("scheduling") or {}
    _merge_selector(request, spec, scheduling.get("nodeSelector") or {})
    more = [each for each in scheduling.get("tolerations") or () if each not in _tolerations(spec)]
    if more:
        spec["tolerations"] = [*_tolerations(spec), *more]
    return new


async def set_account(
    request: WriteRequest, old: Object | None, new: Object | None
) -> Object | None:
    """The service account, which must exist; `default` unless the pod names another."""
    if new is None or old is not None or request.subresource:
        return None
    spec = new["spec"]
    name = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
    account = request.reader.get("serviceaccounts", request.namespace, name)
    if account is None:
        why = (
            f"error looking up service account {request.namespace}/{name}: "
            f'serviceaccount "{name}" not found'
        )
        raise forbidden(request.kind, request.name, why)
    spec["serviceAccountName"] = spec["serviceAccount"] = name
    if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
        spec["imagePullSecrets"] = [dict(each) for each in account["imagePullSecrets"]]
    return new


async def check_default_class(
    request: WriteRequest, old: Object | None, new: Object | None
) -> None:
    """There is at most one default priority class."""
    if new is None or not new.get("globalDefault"):
        return
    for other in request.reader.list(PRIORITY_CLASSES):
        if other.get("globalDefault") and other["metadata"]["name"] != new["metadata"]["name"]:
            why = (
                f"PriorityClass {other['metadata']['name']} is already marked as default. "
                "Only one default can exist"
            )
            raise forbidden(request.kind, request.name, why)


def system_priority_classes() -> list[Object]:
    """The two classes that every cluster has."""
    return [
        _system_class(
            "system-cluster-critical",
            2_000_000_000,
            "Used for system critical pods that must run in the cluster, but can be moved to "
            "another node if necessary.",
        ),
        _system_class(
            "system-node-critical",
            2_000_001_000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
    ]


def _priority_class(request: WriteRequest, name: str) -> Object | None:
    if name:
        found = request.reader.get(PRIORITY_CLASSES, "", name)
        if found is None:
            raise _no_such_class(request, name)
        return found
    defaults = [each for each in request.reader.list(PRIORITY_CLASSES) if each.get("globalDefault")]
    return min(defaults, key=lambda each: int(each["value"])) if defaults else None


def _no_such_class(request: WriteRequest, name: str) -> ApiRefusal:
    return forbidden(request.kind, request.name, f"no PriorityClass with name {name} was found")


def _tolerates(toleration: dict[str, Any], key: str) -> bool:
    effect = toleration.get("effect") or "NoExecute"
    return effect == "NoExecute" and toleration.get("key") in (key, None, "")


def _tolerations(spec: dict[str, Any]) -> Sequence[Any]:
    return spec.get("tolerations") or []


def _merge_selector(request: WriteRequest, spec: dict[str, Any], wanted: dict[str, str]) -> None:
    own = spec.get("nodeSelector") or {}
    for key, value in wanted.items():
        if own.get(key, value) != value:
            why = (
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {own[key]}"
            )
            raise forbidden(request.kind, request.name, why)
    if wanted:
        spec["nodeSelector"] = own | wanted


def _system_class(name: str, value: int, description: str) -> Object:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "description": description,
        "preemptionPolicy": "PreemptLowerPriority",
    }
