"""LimitRange: default requests and limits of containers, and their minimum and maximum."""

from collections.abc import Iterator, Mapping
from typing import Any

from muster.api.quantity import Quantity
from muster.sim.amounts import Amounts, amounts, pod_amounts
from muster.sim.apiserver.kinds import Object
from muster.sim.apiserver.pipeline import WriteRequest
from muster.sim.apiserver.refusal import forbidden

_ANNOTATION = "kubernetes.io/limit-ranger"


async def set_container_defaults(
    request: WriteRequest, old: Object | None, new: Object | None
) -> Object | None:
    """Fills in the requests and limits that the namespace's limit ranges give by default."""
    if new is None or old is not None or request.subresource:
        return None
    notes: list[str] = []
    for limit_range in request.reader.list("limitranges", request.namespace):
        requests, limits = _defaults(limit_range)
        for noun, containers in (("container", "containers"), ("init container", "initContainers")):
            for container in new["spec"].get(containers) or ():
                notes += _filled(container, requests, limits, noun)
    if notes:
        annotations = new["metadata"].setdefault("annotations", {})
        annotations[_ANNOTATION] = "LimitRanger plugin set: " + "; ".join(notes)
    return new


async def enforce_limits(request: WriteRequest, old: Object | None, new: Object | None) -> None:
    """Refuses pods and claims outside of what the namespace's limit ranges allow."""
    if new is None or old is not None or request.subresource:
        return
    for limit_range in request.reader.list("limitranges", request.namespace):
        faults = list(_faults(limit_range, request.kind.resource, new))
        if faults:
            why = faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]"
            raise forbidden(request.kind, request.name, why)


def concerns_limits(request: WriteRequest) -> bool:
    limited = ("pods", "persistentvolumeclaims")
    return request.kind.resource in limited and request.verb == "create"


def _defaults(limit_range: Object) -> tuple[dict[str, Any], dict[str, Any]]:
    requests: dict[str, Any] = {}
    limits: dict[str, Any] = {}
    for limit in _limits(limit_range):
        if limit.get("type") == "Container":
            requests |= limit.get("defaultRequest") or {}
            limits |= limit.get("default") or {}
    return requests, limits


def _filled(
    container: dict[str, Any], requests: Mapping[str, Any], limits: Mapping[str, Any], noun: str
) -> list[str]:
    notes = []
    for which, defaults, word in (("requests", requests, "request"), ("limits", limits, "limit")):
        own = (container.get("resources") or {}).get(which) or {}
        absent = {name: value for name, value in defaults.items() if name not in own}
        if absent:
            container.setdefault("resources", {})[which] = own | absent
            notes.append(f"{', '.join(sorted(absent))} {word} for {noun} {container['name']}")
    return notes


def _faults(limit_range: Object, resource: str, obj: Object) -> Iterator[str]:
    for limit in _limits(limit_range):
        kind = limit.get("type")
        if kind == "PersistentVolumeClaim" and resource == "persistentvolumeclaims":
            requests = amounts((obj["spec"].get("resources") or {}).get("requests"))
            yield from _violations(limit, kind, requests, {}, is_claim=True)
        if resource != "pods":
            continue
        if kind == "Container":
            for container in _containers(obj):
                own = container.get("resources") or {}
                asked, most = amounts(own.get("requests")), amounts(own.get("limits"))
                yield from _violations(limit, kind, most | asked, most)
        elif kind == "Pod":
            requests = pod_amounts(obj["spec"], "requests")
            yield from _violations(limit, kind, requests, pod_amounts(obj["spec"], "limits"))


def _violations(
    limit: Mapping[str, Any],
    kind: str,
    requests: Amounts,
    limits: Amounts,
    *,
    is_claim: bool = False,
) -> Iterator[str]:
    for name, least in sorted(amounts(limit.get("min")).items()):
        words = f"minimum {name} usage per {kind} is {least}"
        if name not in requests:
            yield f"{words}.  No request is specified"
        elif requests[name] < least:
            yield f"{words}, but request is {requests[name]}"
        elif name in limits and limits[name] < least:
            yield f"{words}, but limit is {limits[name]}"
    for name, most in sorted(amounts(limit.get("max")).items()):
        words = f"maximum {name} usage per {kind} is {most}"
        held = requests if is_claim else limits
        noun = "request" if is_claim else "limit"
        if name not in held:
            yield f"{words}.  No {noun} is specified"
        elif most < held[name]:
            yield f"{words}, but {noun} is {held[name]}"
        elif name in requests and most < requests[name]:
            yield f"{words}, but request is {requests[name]}"
    for name, ratio in sorted(amounts(limit.get("maxLimitRequestRatio")).items()):
        yield from _ratio_fault(name, ratio, kind, requests, limits)


def _ratio_fault(
    name: str, ratio: Quantity, kind: str, requests: Amounts, limits: Amounts
) -> Iterator[str]:
    words = f"{name} max limit to request ratio per {kind} is {ratio}"
    if not requests.get(name):
        yield f"{words}, but no request is specified or request is 0"
    elif not limits.get(name):
        yield f"{words}, but no limit is specified or limit is 0"
    elif limits[name].nano * 10**9 > ratio.nano * requests[name].nano:
        shown = limits[name].nano / requests[name].nano
        yield f"{words}, but provided ratio is {shown:f}"


def _limits(limit_range: Object) -> list[Mapping[str, Any]]:
    return list((limit_range.get("spec") or {}).get("limits") or ())


def _containers(pod: Object) -> list[Mapping[str, Any]]:
    spec = pod["spec"]
    return [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
