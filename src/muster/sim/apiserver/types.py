"""The built-in types as OpenAPI v3 schemas, read from the table `types.txt`.

The table holds one type per block:

    io.k8s.api.core.v1.ServicePort
      port: int32 !
      protocol: string default="TCP"

A type is a scalar (`string`, `int32`, `quantity`, ...), the name of another type, `[type]` for a
list or `{type}` for a map with string keys. Marks after it: `!` required, `default=JSON`; `atomic`,
`set` and `map=KEYS` for how server-side apply merges it; `merge=KEY` and `strategy=...` for
strategic merge.
A default that is a zero (`default={}`, `default=""`) says that the field is always written, even
when nobody set it; `null` that it is then written as null.
"""

import json
from functools import cache
from importlib import resources
from typing import Any

_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_SCALARS: dict[str, dict[str, Any]] = {
    "string": {"type": "string"},
    "bytes": {"type": "string", "format": "byte"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "number": {"type": "number", "format": "double"},
    "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}
# Scalars that are types of their own in the published documents.
_NAMED = {
    "intorstring": "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
    "quantity": "io.k8s.apimachinery.pkg.api.resource.Quantity",
    "time": _META + "Time",
    "microtime": _META + "MicroTime",
}
_NAMED_SCHEMAS: dict[str, dict[str, Any]] = {
    "intorstring": {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    "quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "time": {"type": "string", "format": "date-time"},
    "microtime": {"type": "string", "format": "date-time"},
}
REFERENCE = "#/components/schemas/"
OBJECT_META = _META + "ObjectMeta"
LIST_META = _META + "ListMeta"


@cache
def definitions() -> dict[str, dict[str, Any]]:
    """Every built-in type by name."""
    found: dict[str, dict[str, Any]] = {
        name: dict(_NAMED_SCHEMAS[scalar]) for scalar, name in _NAMED.items()
    }
    current: dict[str, Any] = {}
    text = (resources.files("muster.sim.apiserver") / "types.txt").read_text()
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        if line.startswith("  "):
            _add_field(current, line.strip())
        else:
            name, _, atomic = line.partition(" ")
            current = found[name] = {"type": "object"}
            if atomic:
                current["x-kubernetes-map-type"] = "atomic"
    return found


def _add_field(definition: dict[str, Any], line: str) -> None:
    name, _, rest = line.partition(": ")
    expression, *marks = rest.split(" ")
    schema = _schema(expression)
    for mark in marks:
        if mark == "!":
            definition.setdefault("required", []).append(name)
        else:
            _add_mark(schema, mark)
    definition.setdefault("properties", {})[name] = schema


def _schema(expression: str) -> dict[str, Any]:
    if expression.startswith("["):
        return {"type": "array", "items": _schema(expression[1:-1])}
    if expression.startswith("{"):
        return {"type": "object", "additionalProperties": _schema(expression[1:-1])}
    if expression in _SCALARS:
        return dict(_SCALARS[expression])
    name = _NAMED.get(expression, expression)
    # A $ref may not have siblings, so it hides in an allOf, as Kubernetes writes it.
    return {"allOf": [{"$ref": REFERENCE + name}]}


def _add_mark(schema: dict[str, Any], mark: str) -> None:
    key, _, value = mark.partition("=")
    match key:
        case "atomic" | "set" if schema.get("type") == "array":
            schema["x-kubernetes-list-type"] = key
        case "atomic":
            schema["x-kubernetes-map-type"] = "atomic"
        case "map":
            schema["x-kubernetes-list-type"] = "map"
            schema["x-kubernetes-list-map-keys"] = value.split(",")
        case "merge":
            schema["x-kubernetes-patch-merge-key"] = value
        case "strategy":
            schema["x-kubernetes-patch-strategy"] = value
        case "null":
            schema["nullable"] = True
        case "default":
            schema["default"] = json.loads(value)
