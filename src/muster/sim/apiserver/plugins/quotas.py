"""ResourceQuota: a namespace does not use more than it was given.

Usage is counted from the stored objects at the moment of the write, and the step is the last one
before the store, so two writes cannot both take the last place.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from muster.sim.amounts import Amounts, amounts, joined
from muster.sim.apiserver.kinds import Object
from muster.sim.apiserver.pipeline import WriteRequest
from muster.sim.apiserver.refusal import forbidden
from muster.sim.quota import covers, exceeded, hard_of, tracked, usage_of, used_by


async def enforce_quota(request: WriteRequest, old: Object | None, new: Object | None) -> None:
    """Refuses a write that would use more than a quota of its namespace allows."""
    resource = request.kind.resource
    if new is None or request.subresource:
        return
    for quota in request.reader.list("resourcequotas", request.namespace):
        if not covers(quota, resource, new):
            continue
        if old is None:
            _check_specified(request, quota, new)
        asked = _more(quota, resource, old, new)
        if not any(asked.values()):
            continue
        used = used_by(quota, _objects(request, quota))
        over = exceeded(quota, used, asked)
        if over:
            hard = amounts(hard_of(quota))
            why = (
                f"exceeded quota: {quota['metadata']['name']}, requested: {joined(asked, over)}, "
                f"used: {joined(used, over)}, limited: {joined(hard, over)}"
            )
            raise forbidden(request.kind, request.name, why)


def limits_namespace(request: WriteRequest) -> bool:
    return bool(request.namespace) and request.verb in ("create", "update")


def _more(quota: Object, resource: str, old: Object | None, new: Object) -> Amounts:
    """How much more of the quota the write uses than before."""
    asked = tracked(quota, usage_of(resource, new))
    if old is None or not covers(quota, resource, old):
        return asked
    before = tracked(quota, usage_of(resource, old))
    grown = {
        name: amount - before[name] if name in before else amount for name, amount in asked.items()
    }
    return {name: amount for name, amount in grown.items() if amount.nano > 0}


def _check_specified(request: WriteRequest, quota: Object, new: Object) -> None:
    """A quota on compute resources requires every container to set them."""
    if request.kind.resource != "pods":
        return
    hard = hard_of(quota)
    missing: list[str] = []
    for name in sorted(hard):
        which, resource = _compute(name)
        if not resource:
            continue
        lacking = [
            each["name"]
            for each in new["spec"].get("containers") or ()
            if resource not in ((each.get("resources") or {}).get(which) or {})
        ]
        if lacking:
            missing.append(f"{name} for: {','.join(lacking)}")
    if missing:
        name = quota["metadata"]["name"]
        why = f"failed quota: {name}: must specify {'; '.join(missing)}"
        raise forbidden(request.kind, request.name, why)


def _compute(name: str) -> tuple[str, str]:
    """(requests or limits, resource) of the quota names that concern every container."""
    if name in ("cpu", "memory"):
        return "requests", name
    which, _, resource = name.partition(".")
    if which in ("requests", "limits") and resource in ("cpu", "memory"):
        return which, resource
    return "", ""


def _objects(request: WriteRequest, quota: Object) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The stored objects of the resource that is being written; no other can be exceeded by it."""
    resource = request.kind.resource
    for obj in request.reader.list(request.kind.storage, request.namespace):
        yield resource, obj
