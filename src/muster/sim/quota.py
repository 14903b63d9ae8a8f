"""What counts against a ResourceQuota. Pure; used by admission and by the quota controller."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from muster.api.core import ENDED_PHASES
from muster.api.quantity import Quantity
from muster.sim.amounts import Amounts, added, amounts, pod_amounts

_ONE: Final = Quantity(1)
# Kinds that have had a name of their own in quotas since before `count/...`.
_COUNTED: Final = frozenset(
    {
        "configmaps",
        "persistentvolumeclaims",
        "pods",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "services",
    }
)


def usage_of(resource: str, obj: Mapping[str, Any]) -> Amounts:
    """What one object uses. `resource` is `pods`, `jobs.batch`, ..."""
    used: Amounts = {f"count/{resource}": _ONE}
    if resource == "pods":
        return used | _pod_usage(obj) if is_counted_pod(obj) else used
    if resource in _COUNTED:
        used[resource] = _ONE
    if resource == "persistentvolumeclaims":
        used |= _claim_usage(obj)
    elif resource == "services":
        used |= _service_usage(obj)
    return used


def covers(quota: Mapping[str, Any], resource: str, obj: Mapping[str, Any]) -> bool:
    """Whether the quota is about this object at all: scopes select pods only."""
    spec = quota.get("spec") or {}
    scopes = [(scope, "Exists", ()) for scope in spec.get("scopes") or ()]
    for term in (spec.get("scopeSelector") or {}).get("matchExpressions") or ():
        scopes.append((term["scopeName"], term["operator"], tuple(term.get("values") or ())))
    if not scopes:
        return True
    return resource == "pods" and all(_in_scope(obj, *scope) for scope in scopes)


def tracked(quota: Mapping[str, Any], used: Mapping[str, Quantity]) -> Amounts:
    """The part of a usage that the quota limits."""
    hard = hard_of(quota)
    return {name: amount for name, amount in used.items() if name in hard}


def hard_of(quota: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the quota limits, as it is written."""
    hard: Mapping[str, Any] = (quota.get("spec") or {}).get("hard") or {}
    return hard


def used_by(quota: Mapping[str, Any], objects: Iterable[tuple[str, Mapping[str, Any]]]) -> Amounts:
    """What all these objects (with their resources) use of the quota; zeros included."""
    nothing = {name: Quantity(0) for name in hard_of(quota)}
    each = [
        tracked(quota, usage_of(resource, obj))
        for resource, obj in objects
        if covers(quota, resource, obj)
    ]
    return added(nothing, *each)


def exceeded(
    quota: Mapping[str, Any], used: Mapping[str, Quantity], asked: Mapping[str, Quantity]
) -> Sequence[str]:
    """The names of what would be more than the quota allows."""
    hard = amounts(hard_of(quota))
    return [
        name
        for name in sorted(asked)
        if asked[name] and name in hard and hard[name] < used.get(name, Quantity(0)) + asked[name]
    ]


def is_counted_pod(pod: Mapping[str, Any]) -> bool:
    """Pods that ended hold nothing."""
    return (pod.get("status") or {}).get("phase") not in ENDED_PHASES


def _pod_usage(pod: Mapping[str, Any]) -> Amounts:
    used: Amounts = {"pods": _ONE}
    requests = pod_amounts(pod["spec"], "requests")
    for name, amount in requests.items():
        used[f"requests.{name}"] = amount
        if name in ("cpu", "memory", "ephemeral-storage"):
            used[name] = amount
    for name, amount in pod_amounts(pod["spec"], "limits").items():
        used[f"limits.{name}"] = amount
    return used


def _claim_usage(claim: Mapping[str, Any]) -> Amounts:
    spec = claim.get("spec") or {}
    asked = amounts((spec.get("resources") or {}).get("requests")).get("storage", Quantity(0))
    used: Amounts = {"requests.storage": asked}
    if storage_class := spec.get("storageClassName"):
        prefix = f"{storage_class}.storageclass.storage.k8s.io"
        used[f"{prefix}/persistentvolumeclaims"] = _ONE
        used[f"{prefix}/requests.storage"] = asked
    return used


def _service_usage(service: Mapping[str, Any]) -> Amounts:
    match (service.get("spec") or {}).get("type"):
        case "NodePort":
            return {"services.nodeports": _ONE}
        case "LoadBalancer":
            return {"services.loadbalancers": _ONE, "services.nodeports": _ONE}
    return {}


def _in_scope(pod: Mapping[str, Any], scope: str, operator: str, values: Sequence[str]) -> bool:
    spec = pod.get("spec") or {}
    match scope:
        case "Terminating":
            return spec.get("activeDeadlineSeconds") is not None
        case "NotTerminating":
            return spec.get("activeDeadlineSeconds") is None
        case "BestEffort":
            return not _has_resources(spec)
        case "NotBestEffort":
            return _has_resources(spec)
        case "PriorityClass":
            return _is_value(spec.get("priorityClassName") or "", operator, values)
        case "CrossNamespacePodAffinity":
            return False
    return False


def _has_resources(spec: Mapping[str, Any]) -> bool:
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    found = [each.get("resources") or {} for each in containers]
    return any(
        name in (each.get(which) or {})
        for each in found
        for which in ("requests", "limits")
        for name in ("cpu", "memory")
    )


def _is_value(value: str, operator: str, values: Sequence[str]) -> bool:
    match operator:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return bool(value)
    return not value
