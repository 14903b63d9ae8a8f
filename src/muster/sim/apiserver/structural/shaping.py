"""What a structural schema does to an object before it is checked: prune, drop nulls, default.

All in place, on JSON values. The rules are those of Kubernetes: unknown fields go unless preserved,
a null that the schema does not allow is as if it was not sent, and then defaults are filled in.
"""

import copy
from typing import Any, Final

from muster.sim.apiserver.structural.node import SchemaNode

_META: Final = ("apiVersion", "kind", "metadata")


def prune(obj: dict[str, Any], root: SchemaNode) -> list[str]:
    """Remove what the schema does not know; the sorted paths of what was removed."""
    unknown: list[str] = []
    _prune(obj, root, "", unknown, is_resource=True)
    return sorted(unknown)


def drop_nulls(value: Any, node: SchemaNode | None) -> None:
    """Remove nulls where they are not allowed and no default stands in."""
    if isinstance(value, dict):
        for key in list(value):
            child = node.child(key) if node else None
            if value[key] is None and child and not child.nullable and not child.has_default:
                del value[key]
            else:
                drop_nulls(value[key], child)
    elif isinstance(value, list):
        for item in value:
            drop_nulls(item, node.items if node else None)


def fill_defaults(value: Any, node: SchemaNode | None) -> None:
    """Fill in defaults for fields that are absent, or null where null is not allowed."""
    if node is None:
        return
    if isinstance(value, dict):
        _default_fields(value, node)
        for key in value:
            fill_defaults(value[key], node.child(key))
    elif isinstance(value, list):
        for at, item in enumerate(value):
            if _stands_for_default(item, node.items):
                value[at] = copy.deepcopy(node.items.default if node.items else None)
            fill_defaults(value[at], node.items)


def plain_numbers(value: Any, node: SchemaNode | None) -> Any:
    """Whole floats become integers in place, which is how the server writes them.

    Only where a number belongs: elsewhere the fault that is about to be found names what was sent.
    """
    if isinstance(value, dict):
        for key, child in value.items():
            value[key] = plain_numbers(child, node.child(key) if node else None)
    elif isinstance(value, list):
        for at, item in enumerate(value):
            value[at] = plain_numbers(item, node.items if node else None)
    elif isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        belongs = node is None or not node.types or {"integer", "number"} & {*node.types}
        return int(value) if belongs else value
    return value


def _default_fields(value: dict[str, Any], node: SchemaNode) -> None:
    for name, child in node.properties.items():
        absent = name not in value or _stands_for_default(value[name], child)
        if child.has_default and absent:
            value[name] = copy.deepcopy(child.default)
    if node.additional is not None:
        for key in value:
            if key not in node.properties and _stands_for_default(value[key], node.additional):
                value[key] = copy.deepcopy(node.additional.default)


def _stands_for_default(value: Any, node: SchemaNode | None) -> bool:
    return value is None and node is not None and not node.nullable


def _prune(
    value: Any, node: SchemaNode | None, path: str, unknown: list[str], *, is_resource: bool = False
) -> None:
    if isinstance(value, dict):
        is_resource = is_resource or (node is not None and node.embedded)
        for key in list(value):
            if is_resource and key in _META:
                continue
            _prune_field(value, key, node, f"{path}.{key}" if path else key, unknown)
    elif isinstance(value, list):
        for at, item in enumerate(value):
            place = f"{path}[{at}]"
            if node is not None and node.preserves and node.items is None:
                continue
            _prune(item, node.items if node else None, place, unknown)


def _prune_field(
    value: dict[str, Any], key: str, node: SchemaNode | None, place: str, unknown: list[str]
) -> None:
    if node is not None and key in node.properties:
        _prune(value[key], node.properties[key], place, unknown)
    elif node is not None and node.allows_additional:
        _prune(value[key], node.additional, place, unknown)
    elif node is None or not node.preserves:
        unknown.append(place)
        del value[key]
