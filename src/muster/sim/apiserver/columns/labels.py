"""Selectors, labels and containers as one line of text."""

from collections.abc import Mapping
from typing import Any

from muster.sim.apiserver.kinds import Object


def selector_text(selector: Mapping[str, Any] | None) -> str:
    if not selector:
        return "<none>"
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for expression in selector.get("matchExpressions") or ():
        parts.append(_requirement(expression))
    return ",".join(parts) or "<none>"


def _requirement(expression: Mapping[str, Any]) -> str:
    key, values = expression["key"], ",".join(sorted(expression.get("values") or ()))
    match expression["operator"]:
        case "In":
            return f"{key} in ({values})"
        case "NotIn":
            return f"{key} notin ({values})"
        case "Exists":
            return str(key)
        case _:
            return f"!{key}"


def labels_text(labels: Mapping[str, str] | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or "<none>"


def container_cells(template: Object | None) -> list[str]:
    containers = ((template or {}).get("spec") or {}).get("containers") or ()
    names = ",".join(c.get("name", "") for c in containers)
    return [names, ",".join(c.get("image", "") for c in containers)]
