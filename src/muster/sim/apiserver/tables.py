"""Objects as rows of a meta.k8s.io Table, for built-in kinds and for kinds of a CRD. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from muster.sim.apiserver.columns.table import AGE, CELLS, NAME
from muster.sim.apiserver.columns.times import age
from muster.sim.apiserver.jsonpath import BadPath, values
from muster.sim.apiserver.kinds import Object, ServedKind, TableColumn

_TABLE = {"kind": "Table", "apiVersion": "meta.k8s.io/v1"}


def table(
    kind: ServedKind,
    objects: Sequence[Object],
    list_meta: Mapping[str, Any],
    include: str,
    now_s: float,
) -> Object:
    """A whole Table. `include` is Metadata, Object or None."""
    columns = _columns(kind)
    rows = [_row(kind, columns, obj, include, now_s) for obj in objects]
    head = [_definition(column) for column in columns]
    return {**_TABLE, "metadata": dict(list_meta), "columnDefinitions": head, "rows": rows}


def partial(obj: Object) -> Object:
    """The PartialObjectMetadata of an object."""
    meta = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
    return meta | {"metadata": obj["metadata"]}


def _columns(kind: ServedKind) -> tuple[TableColumn, ...]:
    if kind.is_custom:
        return (NAME, *(kind.columns or (TableColumn("Age", "date"),)))
    return kind.columns or (NAME, AGE)


def _definition(column: TableColumn) -> Object:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }


def _row(
    kind: ServedKind, columns: Sequence[TableColumn], obj: Object, include: str, now_s: float
) -> Object:
    row: Object = {"cells": _cells(kind, columns, obj, now_s), "object": None}
    if include == "Object":
        row["object"] = {"kind": kind.kind, "apiVersion": kind.api_version, **obj}
    elif include != "None":
        row["object"] = partial(obj)
    return row


def _cells(
    kind: ServedKind, columns: Sequence[TableColumn], obj: Object, now_s: float
) -> list[Any]:
    if kind.is_custom:
        rest = [_custom_cell(column, obj, now_s) for column in columns[1:]]
        return [obj["metadata"]["name"], *rest]
    cells = CELLS.get(kind.storage)
    if cells is not None:
        return cells(obj, now_s)
    meta = obj["metadata"]
    return [meta["name"], age(meta.get("creationTimestamp"), now_s)]


def _custom_cell(column: TableColumn, obj: Object, now_s: float) -> Any:
    path = column.path or ".metadata.creationTimestamp"
    try:
        found = values(obj, path)
    except BadPath:
        return None
    if not found:
        return None
    value = found[0]
    match column.type:
        case "date":
            return _date(value, now_s)
        case "string":
            return _text(found)
        case "integer":
            return int(value) if isinstance(value, int | float) else None
        case "number":
            return float(value) if isinstance(value, int | float) else None
        case "boolean":
            return value if isinstance(value, bool) else None
        case _:
            return None


def _date(value: Any, now_s: float) -> str:
    try:
        return age(str(value), now_s)
    except ValueError:
        return "<invalid>"


def _text(found: Sequence[Any]) -> str:
    return ",".join(
        value if isinstance(value, str) else msgspec.json.encode(value).decode() for value in found
    )
