"""Descriptions for `kubectl explain` of built-in types and their most used fields."""

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

_META = "io.k8s.apimachinery.pkg.apis."
_API = "io.k8s.api."


def described(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """A type with its texts; the schema itself is left as it is."""
    known = texts()
    found = dict(schema)
    if (name, "") in known:
        found["description"] = known[name, ""]
    fields = {field: text for (owner, field), text in known.items() if owner == name and field}
    if fields and "properties" in found:
        found["properties"] = {
            field: {**inner, "description": fields[field]} if field in fields else inner
            for field, inner in found["properties"].items()
        }
    return found


@cache
def texts() -> dict[tuple[str, str], str]:
    """By type and field; the field is empty for the type itself."""
    found = {}
    lines = (resources.files("muster.sim.apiserver") / "descriptions.txt").read_text().splitlines()
    for line in lines:
        if line.startswith("#"):
            continue
        what, _, text = line.partition(": ")
        group, version, kind, *field = what.split(".")
        prefix = _META if group == "meta" else _API
        found[f"{prefix}{group}.{version}.{kind}", field[0] if field else ""] = text
    return found
