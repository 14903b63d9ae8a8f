"""Lists of type set or map have no duplicates; embedded objects have apiVersion and kind."""

import json
import re
from typing import Any, Final

from muster.sim.apiserver.structural import faults
from muster.sim.apiserver.structural.faults import Fault, placed
from muster.sim.apiserver.structural.node import SchemaNode

_KIND: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


def list_faults(value: Any, node: SchemaNode | None, path: str = "") -> list[Fault]:
    """Duplicates in the lists below (and at) this value."""
    if node is None:
        return []
    found: list[Fault] = []
    if isinstance(value, list):
        if node.list_type == "set":
            found += [faults.duplicate(f"{path}[{at}]", value[at]) for at in _repeated(value)]
        elif node.list_type == "map":
            found += _map_faults(value, node, path)
        for at, item in enumerate(value):
            found += list_faults(item, node.items, f"{path}[{at}]")
    elif isinstance(value, dict):
        for key, child in value.items():
            found += list_faults(child, node.child(key), _place(path, key, node))
    return found


def embedded_faults(value: Any, node: SchemaNode | None, path: str = "") -> list[Fault]:
    """What is wrong with objects inside the object (`x-kubernetes-embedded-resource`)."""
    if node is None:
        return []
    found: list[Fault] = []
    if isinstance(value, dict):
        if node.embedded:
            found += _type_faults(value, path)
        for key, child in value.items():
            found += embedded_faults(child, node.child(key), _place(path, key, node))
    elif isinstance(value, list):
        for at, item in enumerate(value):
            found += embedded_faults(item, node.items, f"{path}[{at}]")
    return found


def _place(path: str, key: str, node: SchemaNode) -> str:
    return placed(path, key) if key in node.properties else f"{path}[{key}]"


def _repeated(items: list[Any]) -> list[int]:
    """Where each repeated item occurs for the second time."""
    seen: dict[str, int] = {}
    second: list[int] = []
    for at, item in enumerate(items):
        key = json.dumps(item, sort_keys=True)
        seen[key] = seen.get(key, 0) + 1
        if seen[key] == 2:
            second.append(at)
    return second


def _map_faults(value: list[Any], node: SchemaNode, path: str) -> list[Fault]:
    for at, item in enumerate(value):
        if item is not None and not isinstance(item, dict):
            text = "must be an object for an array of list-type map"
            return [faults.invalid(f"{path}[{at}]", text, item)]
    keys = [
        {name: item[name] for name in node.map_keys if item is not None and name in item}
        for item in value
    ]
    return [faults.duplicate(f"{path}[{at}]", keys[at]) for at in _repeated(keys)]


def _type_faults(value: dict[str, Any], path: str) -> list[Fault]:
    found = [
        faults.required(f"{path}.{name}") for name in ("apiVersion", "kind") if name not in value
    ]
    for name in ("apiVersion", "kind"):
        text = value.get(name)
        if name not in value:
            continue
        if not isinstance(text, str):
            found.append(faults.invalid(f"{path}.{name}", "must be a string", text))
        elif not text:
            found.append(faults.invalid(f"{path}.{name}", "must not be empty", text))
        elif name == "apiVersion" and text.count("/") > 1:
            words = f"unexpected GroupVersion string: {text}"
            found.append(faults.invalid(f"{path}.{name}", words, text))
        elif name == "kind" and not _KIND.fullmatch(text.lower()):
            words = "may have mixed case, but should otherwise match: a DNS-1035 label"
            found.append(faults.invalid(f"{path}.{name}", words, text))
    return found
