"""OpenAPI v3 documents, one per group and version: enough for kubectl apply and explain. Pure.

kubectl reads three things: the paths (which kind is at which path, and that writes take
`fieldValidation`), the schemas (merge keys, fields for explain), and the group-version-kind marks.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from muster.sim.apiserver.descriptions import described
from muster.sim.apiserver.kinds import Object, ServedKind, ServedKinds
from muster.sim.apiserver.types import LIST_META, OBJECT_META, REFERENCE, definitions

_WRITE_PARAMETERS = [
    {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
    for name in ("dryRun", "fieldManager", "fieldValidation")
]
_FORCE = {"name": "force", "in": "query", "schema": {"type": "boolean", "uniqueItems": True}}
_ACTIONS = {"get": "get", "put": "update", "patch": "patch", "delete": "delete", "post": "post"}


def index(kinds: ServedKinds) -> Object:
    """Where the documents are; the hash changes when a document does."""
    paths = {}
    for group, version in sorted({(row.group, row.version) for row in kinds}):
        path = f"apis/{group}/{version}" if group else f"api/{version}"
        digest = hashlib.sha512(msgspec.json.encode(document(kinds, group, version)))
        paths[path] = {
            "serverRelativeURL": f"/openapi/v3/{path}?hash={digest.hexdigest()[:32].upper()}"
        }
    return {"paths": paths}


def document(kinds: ServedKinds, group: str, version: str) -> Object | None:
    rows = sorted(
        (row for row in kinds if (row.group, row.version) == (group, version)),
        key=lambda row: row.plural,
    )
    if not rows:
        return None
    paths: Object = {}
    for row in rows:
        paths |= _paths(row)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.36.0"},
        "paths": paths,
        "components": {"schemas": _schemas(rows)},
    }


def definition_name(row: ServedKind) -> str:
    if row.definition:
        return row.definition
    reversed_group = ".".join(reversed(row.group.split(".")))
    return f"{reversed_group}.{row.version}.{row.kind}"


def _paths(row: ServedKind) -> Object:
    prefix = f"/apis/{row.group}/{row.version}" if row.group else f"/api/{row.version}"
    base = f"{prefix}/namespaces/{{namespace}}" if row.namespaced else prefix
    found: Object = {}
    collection = {"list": "get", "create": "post", "deletecollection": "delete"}
    found[f"{base}/{row.plural}"] = _operations(
        row, [method for verb, method in collection.items() if verb in row.verbs], many=True
    )
    single = {"get": "get", "update": "put", "patch": "patch", "delete": "delete"}
    methods = [method for verb, method in single.items() if verb in row.verbs]
    if methods:
        found[f"{base}/{row.plural}/{{name}}"] = _operations(row, methods)
    if "status" in row.subresources:
        methods = ["get", "put", "patch"]
        found[f"{base}/{row.plural}/{{name}}/status"] = _operations(row, methods)
    if row.namespaced and "list" in row.verbs:
        found[f"{prefix}/{row.plural}"] = _operations(row, ["get"], many=True)
    return found


def _operations(row: ServedKind, methods: Iterable[str], many: bool = False) -> Object:
    mark = {"group": row.group, "version": row.version, "kind": row.kind}
    found: Object = {}
    for method in methods:
        action = "list" if many and method == "get" else _ACTIONS[method]
        name = definition_name(row) + ("List" if action == "list" else "")
        content = {"application/json": {"schema": {"$ref": REFERENCE + name}}}
        operation: Object = {
            "operationId": f"{action}{row.kind}",
            "responses": {"200": {"description": "OK", "content": content}},
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": mark,
        }
        if method in ("post", "put", "patch"):
            operation["parameters"] = [*_WRITE_PARAMETERS, *([_FORCE] if method == "patch" else [])]
        found[method] = operation
    return found


def _schemas(rows: Iterable[ServedKind]) -> Object:
    found: Object = {}
    for row in rows:
        name = definition_name(row)
        found[name] = _marked(row, _schema_of(row))
        if "list" in row.verbs:
            found[name + "List"] = _list_schema(row, name)
    pending = [*found.values()]
    known = definitions()
    while pending:
        for reference in _references(pending.pop()):
            if reference not in found and reference in known:
                found[reference] = known[reference]
                pending.append(known[reference])
    return {name: described(name, schema) for name, schema in sorted(found.items())}


def _schema_of(row: ServedKind) -> Mapping[str, Any]:
    if row.definition:
        return definitions()[row.definition]
    return row.schema.openapi if row.schema else {"type": "object"}


def _marked(row: ServedKind, schema: Mapping[str, Any]) -> Object:
    properties = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        **schema.get("properties", {}),
    }
    properties["metadata"] = {"allOf": [{"$ref": REFERENCE + OBJECT_META}]}
    mark = [{"group": row.group, "version": row.version, "kind": row.kind}]
    return {
        **schema,
        "type": "object",
        "properties": properties,
        "x-kubernetes-group-version-kind": mark,
    }


def _list_schema(row: ServedKind, name: str) -> Object:
    return {
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"allOf": [{"$ref": REFERENCE + LIST_META}]},
            "items": {"type": "array", "items": {"$ref": REFERENCE + name}},
        },
        "x-kubernetes-group-version-kind": [
            {"group": row.group, "version": row.version, "kind": row.list_kind}
        ],
    }


def _references(value: Any) -> Iterable[str]:
    if isinstance(value, dict):
        for key, entry in value.items():
            if key == "$ref" and isinstance(entry, str):
                yield entry.removeprefix(REFERENCE)
            else:
                yield from _references(entry)
    elif isinstance(value, list):
        for entry in value:
            yield from _references(entry)
