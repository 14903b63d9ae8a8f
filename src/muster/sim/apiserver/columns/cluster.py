"""Cells of everything else."""

from collections.abc import Callable
from typing import Any

from muster.sim.apiserver.columns.times import age
from muster.sim.apiserver.kinds import Object

Cells = Callable[[Object, float], list[Any]]


def simple_cells(*paths: str) -> Cells:
    """Name, the values at these paths, age."""

    def cells(item: Object, now_s: float) -> list[Any]:
        found = [_at(item, path) for path in paths]
        made = age(item["metadata"].get("creationTimestamp"), now_s)
        return [item["metadata"]["name"], *found, made]

    return cells


def _at(item: Object, path: str) -> Any:
    value: Any = item
    for part in path.split("."):
        if part == "#":
            return len(value or ())
        value = (value or {}).get(part)
    return "" if value is None else value


def secret_cells(item: Object, now_s: float) -> list[Any]:
    return simple_cells("type", "data.#")(item, now_s)


def config_map_cells(item: Object, now_s: float) -> list[Any]:
    count = len(item.get("data") or ()) + len(item.get("binaryData") or ())
    made = age(item["metadata"].get("creationTimestamp"), now_s)
    return [item["metadata"]["name"], count, made]


def namespace_cells(item: Object, now_s: float) -> list[Any]:
    return simple_cells("status.phase")(item, now_s)


def event_cells(item: Object, now_s: float) -> list[Any]:
    first = item.get("firstTimestamp") or item.get("eventTime")
    series = item.get("series") or {}
    last = series.get("lastObservedTime") or item.get("lastTimestamp") or first
    source, involved = item.get("source") or {}, item.get("involvedObject") or {}
    component = source.get("component") or item.get("reportingComponent") or ""
    parts = [component, source.get("host") or item.get("reportingInstance") or ""]
    return [
        age(last, now_s),
        item.get("type", ""),
        item.get("reason", ""),
        f"{involved.get('kind', '').lower()}/{involved.get('name', '')}",
        involved.get("fieldPath", ""),
        ", ".join(part for part in parts if part),
        str(item.get("message", "")).strip(),
        age(first, now_s),
        series.get("count") or item.get("count") or 1,
        item["metadata"]["name"],
    ]


def role_binding_cells(item: Object, now_s: float) -> list[Any]:
    role, subjects = item.get("roleRef") or {}, item.get("subjects") or ()

    def named(kind: str) -> str:
        return ", ".join(s.get("name", "") for s in subjects if s.get("kind") == kind)

    accounts = ", ".join(
        f"{s.get('namespace', '')}/{s.get('name', '')}"
        for s in subjects
        if s.get("kind") == "ServiceAccount"
    )
    return [
        item["metadata"]["name"],
        f"{role.get('kind', '')}/{role.get('name', '')}",
        age(item["metadata"].get("creationTimestamp"), now_s),
        named("User"),
        named("Group"),
        accounts,
    ]


def quota_cells(item: Object, now_s: float) -> list[Any]:
    status = item.get("status") or {}
    hard, used = status.get("hard") or {}, status.get("used") or {}
    requests: list[str] = []
    limits: list[str] = []
    for name in sorted(hard):
        text = f"{name}: {used.get(name, '0')}/{hard[name]}"
        (limits if name.startswith("limits.") else requests).append(text)
    return [
        item["metadata"]["name"],
        ", ".join(requests),
        ", ".join(limits),
        age(item["metadata"].get("creationTimestamp"), now_s),
    ]
