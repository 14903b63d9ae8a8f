"""Sub-group trees that make sense: leaves count pods, inner groups count their parts."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from muster.services.admission.review import ALLOWED, Answer, Problem, Review, unreadable

_EXCLUSIVE = "minMember and minSubGroup are mutually exclusive"
_INT32 = range(-(2**31), 2**31)


def validate_pod_group(review: Review) -> Answer:
    """A broken tree hides everything else; then all problems of leaves and inner groups."""
    if review.operation not in ("CREATE", "UPDATE"):
        return ALLOWED
    spec = (review.thing or {}).get("spec") or {}
    malformed = _malformed(spec)
    if malformed:
        return malformed
    parts = spec.get("subGroups") or []
    broken = next(_broken(spec, parts), None)
    if broken:
        return Answer((broken,))
    return _judged(spec, parts, is_update=review.operation == "UPDATE")


def _judged(spec: Mapping[str, Any], parts: Sequence[Mapping[str, Any]], is_update: bool) -> Answer:
    problems: list[Problem] = []
    warnings: list[str] = []
    children = _children(parts)
    for index, part in sorted(enumerate(parts), key=lambda pair: str(pair[1].get("name"))):
        path = f"spec.subGroups[{index}]"
        name = str(part.get("name") or "")
        if children.get(name):
            inner = _inner_problem(part, path)
            if inner and is_update:
                warnings.append(inner.message)
            elif inner:
                problems.append(inner)
            warnings += _too_many(part, len(children[name]), f"subgroup {_quoted(name)}: ")
        else:
            problems += _leaf_problems(part, path)
    warnings += _too_many(spec, len(children.get(None, [])), "")
    return Answer(tuple(problems), tuple(warnings))


def _malformed(spec: Mapping[str, Any]) -> Answer | None:
    holders = [("spec", spec)]
    holders += [
        (f"spec.subGroups[{index}]", part) for index, part in enumerate(spec.get("subGroups") or [])
    ]
    for path, holder in holders:
        for field in ("minMember", "minSubGroup"):
            value = holder.get(field)
            is_number = isinstance(value, int) and not isinstance(value, bool)
            if value is not None and not (is_number and value in _INT32):
                where = f"{path}.{field}"
                return unreadable(where, f"{where}: {json.dumps(value)} is not a 32-bit integer")
    return None


def _broken(spec: Mapping[str, Any], parts: Sequence[Mapping[str, Any]]) -> Iterator[Problem]:
    if _has_both(spec):
        yield Problem("spec", f"{_EXCLUSIVE}: set only one of them", "remove one of the two")
    names = [str(part.get("name") or "") for part in parts]
    for index, name in enumerate(names):
        if name in names[:index]:
            path = f"spec.subGroups[{index}].name"
            yield Problem(path, f"duplicate subgroup name {name}", "give it a name of its own")
    for index, part in enumerate(parts):
        parent = part.get("parent")
        if parent is not None and parent not in names:
            yield Problem(
                f"spec.subGroups[{index}].parent",
                f"parent {parent} of {names[index]} was not found",
                "name one of the other sub-groups, or leave it out",
            )
    if _has_cycle(parts):
        yield Problem(
            "spec.subGroups[*].parent", "cycle detected in subgroups", "break the circle of parents"
        )
    for index, part in sorted(enumerate(parts), key=lambda pair: names[pair[0]]):
        if _has_both(part):
            about = f"subgroup {_quoted(names[index])}: {_EXCLUSIVE}"
            yield Problem(f"spec.subGroups[{index}]", about, "remove one of the two")


def _inner_problem(part: Mapping[str, Any], path: str) -> Problem | None:
    if part.get("minMember") is None:
        return None
    return Problem(
        f"{path}.minMember",
        f"subgroup {_quoted(str(part['name']))}: minMember cannot be set on a mid-level SubGroup "
        "(has child SubGroups); use minSubGroup instead",
        "replace it by minSubGroup, the number of parts that must be satisfied",
    )


def _leaf_problems(part: Mapping[str, Any], path: str) -> Iterator[Problem]:
    name = str(part.get("name") or "")
    if part.get("minSubGroup") is not None:
        yield Problem(
            f"{path}.minSubGroup",
            f"subgroup {_quoted(name)}: minSubGroup cannot be set on a leaf SubGroup "
            "(no child SubGroups)",
            "replace it by minMember, the number of pods that must start together",
        )
    if part.get("minMember") is None:
        yield Problem(
            f"{path}.minMember",
            f"subgroup {name}: minMember is required",
            "write how many pods must start together",
        )


def _too_many(holder: Mapping[str, Any], parts: int, prefix: str) -> list[str]:
    asked = holder.get("minSubGroup")
    if asked is None or asked <= parts:
        return []
    return [f"{prefix}minSubGroup ({asked}) exceeds the number of direct child SubGroups ({parts})"]


def _children(parts: Sequence[Mapping[str, Any]]) -> dict[str | None, list[str]]:
    """Names of the parts below each sub-group; None is the root."""
    below: dict[str | None, list[str]] = {}
    for part in parts:
        below.setdefault(part.get("parent"), []).append(str(part.get("name") or ""))
    return below


def _has_cycle(parts: Sequence[Mapping[str, Any]]) -> bool:
    parent_of = {str(part.get("name")): part.get("parent") for part in parts}
    for start in parent_of:
        seen = set()
        here: str | None = start
        while here is not None:
            if here in seen:
                return True
            seen.add(here)
            here = parent_of.get(here)
    return False


def _has_both(holder: Mapping[str, Any]) -> bool:
    return holder.get("minMember") is not None and holder.get("minSubGroup") is not None


def _quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)
