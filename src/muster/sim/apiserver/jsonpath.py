"""The JSONPath of printer columns and scale paths: fields, indexes, slices, wildcards, filters."""

import re
from functools import lru_cache
from typing import Any

_STEP = re.compile(
    r"\.(?P<field>(?:\\.|[^.\[\\])+)"
    r"|\[\s*(?:'(?P<quoted>[^']*)'|\"(?P<double>[^\"]*)\"|(?P<index>-?\d+)"
    r"|(?P<slice>-?\d*:-?\d*)|(?P<all>\*)"
    r"|\?\(\s*@\.(?P<key>[\w./-]+)\s*==\s*['\"](?P<value>[^'\"]*)['\"]\s*\))\s*\]"
)


class BadPath(ValueError):
    pass


@lru_cache(maxsize=1024)
def parse(path: str) -> tuple[tuple[str, Any], ...]:
    """Steps of a path such as `.status.conditions[?(@.type=="Ready")].status`."""
    steps: list[tuple[str, Any]] = []
    at = 0
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None:
            raise BadPath(f"cannot read {path!r} at position {at}")
        steps.append(_step(found))
        at = found.end()
    return tuple(steps)


def values(obj: Any, path: str) -> list[Any]:
    """All values that the path reaches."""
    found = [obj]
    for kind, wanted in parse(path):
        found = [value for item in found for value in _next(item, kind, wanted)]
    return [value for value in found if value is not None]


def _step(found: re.Match[str]) -> tuple[str, Any]:
    if found["field"] is not None:
        return ("field", re.sub(r"\\(.)", r"\1", found["field"]))
    if found["quoted"] is not None or found["double"] is not None:
        return ("field", found["quoted"] if found["quoted"] is not None else found["double"])
    if found["index"] is not None:
        return ("index", int(found["index"]))
    if found["slice"] is not None:
        start, _, end = found["slice"].partition(":")
        return ("slice", slice(int(start) if start else None, int(end) if end else None))
    if found["all"]:
        return ("all", None)
    return ("filter", (found["key"], found["value"]))


def _next(item: Any, kind: str, wanted: Any) -> list[Any]:
    if kind == "field":
        if wanted == "*":
            return list(item.values()) if isinstance(item, dict) else []
        return [item[wanted]] if isinstance(item, dict) and wanted in item else []
    if kind == "all" and isinstance(item, dict):
        return list(item.values())
    if not isinstance(item, list):
        return []
    if kind == "index":
        return [item[wanted]] if -len(item) <= wanted < len(item) else []
    if kind == "slice":
        return list(item[wanted])
    if kind == "all":
        return list(item)
    key, value = wanted
    return [entry for entry in item if isinstance(entry, dict) and str(entry.get(key)) == value]
