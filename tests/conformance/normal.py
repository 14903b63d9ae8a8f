"""Answers of two servers made comparable: what differs by nature becomes a placeholder. Pure."""

import re
from typing import Any

_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_GENERATED = re.compile(r"(?<=-generated-)[a-z0-9]{5}\b")
_ADDRESS = re.compile(r"\b10\.\d+\.\d+\.\d+\b")
_VERSIONS = frozenset({"resourceVersion", "continue"})
_AGE = re.compile(r"^(\d+[smh])+$")


def normalised(value: Any, namespace: str, key: str = "") -> Any:
    """Uids, times, versions, namespaces and generated suffixes replaced."""
    if isinstance(value, dict):
        return {
            _UID.sub("<uid>", k): normalised(v, namespace, k)
            for k, v in sorted(value.items())
            if k not in ("selfLink", "serverAddressByClientCIDRs")
        }
    if isinstance(value, list):
        if key == "managedFields":
            return sorted(
                (normalised(v, namespace) for v in value),
                key=lambda e: (
                    e.get("operation", ""),
                    e.get("manager", ""),
                    e.get("subresource", ""),
                ),
            )
        return [normalised(v, namespace) for v in value]
    if isinstance(value, str):
        if key in _VERSIONS and value:
            return "<version>"
        text = value.replace(namespace, "<namespace>")
        text = _UID.sub("<uid>", text)
        text = _TIME.sub("<time>", text)
        text = _GENERATED.sub("<suffix>", text)
        text = _ADDRESS.sub("<address>", text)
        return "<age>" if _AGE.match(text) else text
    return value


def differing(left: Any, right: Any, path: str = "") -> list[tuple[str, Any, Any]]:
    """(path, left, right) wherever two normalised values differ."""
    if isinstance(left, dict) and isinstance(right, dict):
        found = []
        for key in sorted({*left, *right}):
            missing = "<absent>"
            inner = f"{path}.{key}" if path else key
            found += differing(left.get(key, missing), right.get(key, missing), inner)
        return found
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        found = []
        for index, (one, other) in enumerate(zip(left, right, strict=True)):
            found += differing(one, other, f"{path}[{index}]")
        return found
    return [] if left == right else [(path, left, right)]
