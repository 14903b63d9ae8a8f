"""Queues that can be served: quotas that are numbers, and parents that form a tree."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from muster.services.admission.review import (
    ALLOWED,
    Answer,
    Object,
    Problem,
    Review,
    refused,
    unreadable,
)
from muster.services.admission.settings import Settings

_RESOURCES = (("cpu", "CPU"), ("gpu", "GPU"), ("memory", "Memory"))
_AMOUNTS = ("quota", "overQuotaWeight", "limit")
_UNLIMITED = -1
Queues = Mapping[str, Object]
"""The queues of the cluster by name."""


def validate_queue(
    review: Review, settings: Settings, queues: Queues, used_by: Sequence[str] = ()
) -> Answer:
    """`used_by` names pod groups in the queue, for a deletion."""
    if review.operation == "DELETE":
        return _deletion(review.old or review.thing or {}, used_by)
    if review.operation not in ("CREATE", "UPDATE"):
        return ALLOWED
    queue = review.thing or {}
    spec = queue.get("spec") or {}
    if spec.get("resources") is None:
        text = "resources must be specified"
        return refused("spec.resources", text, "write quota, limit and weight", (text,))
    malformed = _malformed(spec["resources"])
    if malformed:
        return malformed
    problems = tuple(_problems(queue, queues))
    if problems:
        return Answer(problems)
    return _quota_judgement(review, queues) if settings.validates_quotas else ALLOWED


def _deletion(queue: Object, used_by: Sequence[str]) -> Answer:
    name = (queue.get("metadata") or {}).get("name", "")
    children = (queue.get("status") or {}).get("childQueues") or []
    if children:
        return refused(
            "status.childQueues",
            f"cannot delete queue {name}: it has child queues [{' '.join(children)}]",
            "delete or move the child queues first",
        )
    if used_by:
        shown = " ".join(sorted(used_by)[:5]) + (" ..." if len(used_by) > 5 else "")
        return refused(
            "metadata.name",
            f"cannot delete queue {name}: {len(used_by)} pod groups are in it [{shown}]",
            "delete those workloads or give them another queue first",
        )
    return ALLOWED


def _malformed(resources: Any) -> Answer | None:
    if not isinstance(resources, Mapping):
        return unreadable("spec.resources", "spec.resources: must be an object")
    for key, _ in _RESOURCES:
        amounts = resources.get(key)
        if amounts is None:
            continue
        for field in _AMOUNTS:
            value = amounts.get(field) if isinstance(amounts, Mapping) else amounts
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if value is not None and not is_number:
                path = f"spec.resources.{key}.{field}"
                return unreadable(path, f"{path}: {value!r} is not a number")
    return None


def _problems(queue: Object, queues: Queues) -> Iterator[Problem]:
    spec, name = queue["spec"], (queue.get("metadata") or {}).get("name", "")
    for key, _ in _RESOURCES:
        amounts = spec["resources"].get(key) or {}
        yield from _amount_problems(key, amounts)
    cycle = _cycle(name, spec.get("parentQueue") or "", queues)
    if cycle:
        yield Problem(
            "spec.parentQueue",
            f"queue {name} would be its own ancestor: {' -> '.join(cycle)}",
            "name a parent that is not below this queue, or leave it out for a top queue",
        )


def _amount_problems(key: str, amounts: Mapping[str, Any]) -> Iterator[Problem]:
    for field in ("quota", "limit"):
        value = amounts.get(field, 0)
        if value < 0 and value != _UNLIMITED:
            path = f"spec.resources.{key}.{field}"
            yield Problem(path, f"{path} is {value}", "write 0 or more, or -1 for unlimited")
    weight = amounts.get("overQuotaWeight", 0)
    if weight < 0:
        path = f"spec.resources.{key}.overQuotaWeight"
        yield Problem(path, f"{path} is {weight}", "write 0 for no share over quota, or more")


def _cycle(name: str, parent: str, queues: Queues) -> list[str]:
    path = [name]
    while parent:
        path.append(parent)
        if parent == name:
            return path
        if parent in path[:-1] or parent not in queues:
            return []
        parent = (queues[parent].get("spec") or {}).get("parentQueue") or ""
    return []


def _quota_judgement(review: Review, queues: Queues) -> Answer:
    queue = review.thing or {}
    name, spec = queue["metadata"]["name"], queue["spec"]
    warnings: list[str] = []
    parent_name = spec.get("parentQueue")
    if parent_name:
        parent = queues.get(parent_name)
        if parent is None:
            text = f'Queue.scheduling.run.ai "{parent_name}" not found'
            fix = "create the parent first, or correct its name"
            problem = Problem("spec.parentQueue", text, fix)
            return Answer((problem,), code=404, reason="NotFound")
        if (parent.get("spec") or {}).get("resources") is None:
            text = f"parent queue {parent_name} has no resources defined"
            return refused("spec.parentQueue", text, "give the parent its resources first")
        warnings += _child_warnings(queue, parent, queues)
    if review.old is not None and (review.old.get("status") or {}).get("childQueues"):
        warnings += _parent_warnings(name, spec, queues)
    return Answer((), tuple(warnings))


def _child_warnings(queue: Object, parent: Object, queues: Queues) -> Iterator[str]:
    name, parent_name = queue["metadata"]["name"], parent["metadata"]["name"]
    siblings = _children(parent_name, queues, without=name)
    own, its = queue["spec"]["resources"], parent["spec"]["resources"]
    for key, word in _RESOURCES:
        ours, theirs = _quota(own, key), _quota(its, key)
        if _exceeds(ours, theirs):
            yield (
                f"child queue {word} quota ({_shown(key, ours)}) exceeds parent queue "
                f"{parent_name} {word} quota ({_shown(key, theirs)})"
            )
    for key, word in _RESOURCES:
        if key != "cpu" and not siblings:
            continue  # An only child's excess was said above; of CPU, both are customary.
        total = _total(key, [own, *(child["spec"].get("resources") or {} for child in siblings)])
        theirs = _quota(its, key)
        if _exceeds(total, theirs):
            yield (
                f"total children {word} quota ({_shown(key, total)}) exceeds parent queue "
                f"{parent_name} {word} quota ({_shown(key, theirs)})"
            )


def _parent_warnings(name: str, spec: Mapping[str, Any], queues: Queues) -> Iterator[str]:
    children = _children(name, queues)
    own = spec["resources"]
    for child in children:
        for key, word in _RESOURCES[:1]:
            theirs, ours = _quota(child["spec"].get("resources") or {}, key), _quota(own, key)
            if _exceeds(theirs, ours):
                yield (
                    f"child queue {child['metadata']['name']} {word} quota ({_shown(key, theirs)}) "
                    f"exceeds parent {word} quota ({_shown(key, ours)})"
                )
    for key, word in _RESOURCES:
        total = _total(key, [child["spec"].get("resources") or {} for child in children])
        if _exceeds(total, _quota(own, key)):
            yield (
                f"total children {word} quota ({_shown(key, total)}) exceeds parent {word} quota "
                f"({_shown(key, _quota(own, key))})"
            )


def _children(parent: str, queues: Queues, without: str = "") -> list[Object]:
    return [
        queue
        for name, queue in sorted(queues.items())
        if name != without and (queue.get("spec") or {}).get("parentQueue") == parent
    ]


def _quota(resources: Mapping[str, Any], key: str) -> float:
    return float((resources.get(key) or {}).get("quota") or 0)


def _total(key: str, many: Sequence[Mapping[str, Any]]) -> float:
    quotas = [_quota(resources, key) for resources in many]
    return _UNLIMITED if _UNLIMITED in quotas else sum(quotas)


def _exceeds(amount: float, bound: float) -> bool:
    if bound == _UNLIMITED:
        return False
    return amount == _UNLIMITED or amount > bound


def _shown(key: str, amount: float) -> str:
    return f"{amount:.2f}" if key == "gpu" else f"{amount:.0f}"
