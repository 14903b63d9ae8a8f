"""Sets of field paths: which fields an object has, and which differ between two objects. Pure.

A path is a tuple of elements as `FieldsV1` spells them: `f:spec`, `k:{"name":"main"}`, `v:"x"`. The
rules of what counts as one field (atomic lists, maps by keys, empty maps) are those of server-side
apply; `empty` structs of typed kinds count as there before anything is set.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from muster.sim.apiserver.kinds import Object
from muster.sim.apiserver.layouts import ANYTHING, Layout

Path = tuple[str, ...]
Paths = set[Path]

_MISSING: Any = object()
_encode = msgspec.json.Encoder(order="sorted").encode
# Fields of metadata that nobody owns.
_UNOWNED = frozenset(
    {
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    }
)


@dataclass(slots=True)
class Difference:
    added: Paths = field(default_factory=set)
    modified: Paths = field(default_factory=set)
    removed: Paths = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.added or self.modified or self.removed)


def difference(layout: Layout, old: Object, new: Object) -> Difference:
    """Which fields were added, changed and removed between two whole objects."""
    found = Difference()
    for name in {**old, **new}:
        if name in ("apiVersion", "kind"):
            continue
        before, after = old.get(name, _MISSING), new.get(name, _MISSING)
        if before is after:
            continue
        if name == "metadata":
            before, after = _owned(before), _owned(after)
        _compare(layout.child(name), before, after, (f"f:{name}",), found)
    found.added.discard(("f:metadata",))
    found.removed.discard(("f:metadata",))
    return found


def field_set(layout: Layout, obj: Object) -> Paths:
    """Every field that an applied configuration claims."""
    found: Paths = set()
    owned = {key: value for key, value in obj.items() if key not in ("apiVersion", "kind")}
    if "metadata" in owned:
        owned["metadata"] = _owned(owned["metadata"])
        if not owned["metadata"]:
            del owned["metadata"]
    _claim_fields(layout, owned, (), found)
    return found


def packed(paths: Iterable[Path]) -> Object:
    """As `FieldsV1` writes it."""
    root: Object = {}
    ends = []
    for path in sorted(paths):
        node = root
        for element in path:
            node = node.setdefault(element, {})
        ends.append(node)
    for node in ends:
        if node:
            node["."] = {}
    return root


def unpacked(fields: Any) -> Paths:
    found: Paths = set()
    if isinstance(fields, dict):
        _unpack(fields, (), found)
    return found


def shown(path: Path) -> str:
    """As messages write it: `.spec.containers[name="main"].image`."""
    text = ""
    for element in path:
        kind, _, value = element.partition(":")
        if kind == "f":
            text += f".{value}"
        elif kind == "k":
            keys = msgspec.json.decode(value)
            inner = ",".join(f"{k}={_encode(v).decode()}" for k, v in sorted(keys.items()))
            text += f"[{inner}]"
        else:
            text += f"[={value}]" if kind == "v" else f"[{value}]"
    return text


def item_element(layout: Layout, item: Any) -> str | None:
    """The path element of a list's item; None when it has no usable identity."""
    if layout.list_type == "set":
        return "v:" + _encode(item).decode()
    if not isinstance(item, dict):
        return None
    keys = {key: item[key] for key in layout.keys if key in item}
    for key, value in layout.key_defaults.items():
        keys.setdefault(key, value)
    return "k:" + _encode(keys).decode() if keys else None


def is_leaf(layout: Layout, value: Any) -> bool:
    """Whether a value is one field, rather than a holder of fields."""
    if isinstance(value, dict):
        return layout.atomic or layout.kind not in ("object", "map", "any")
    if isinstance(value, list):
        return layout.kind != "list" or layout.list_type == "atomic"
    return True


def _owned(metadata: Any) -> Any:
    if metadata is _MISSING or metadata is None:
        return {}
    return {key: value for key, value in metadata.items() if key not in _UNOWNED}


def _compare(layout: Layout, old: Any, new: Any, path: Path, found: Difference) -> None:
    value = new if new is not _MISSING and new is not None else old
    if value is _MISSING or value is None:
        value = new
    if old is not _MISSING and new is not _MISSING and old == new:
        return
    if is_leaf(layout, value) or (_is_empty(old) and _is_empty(new)):
        _compare_leaf(old, new, path, found)
        return
    if isinstance(value, dict):
        _compare_maps(layout, old, new, path, found)
    else:
        _compare_lists(layout, old, new, path, found)
    if old is _MISSING:
        found.added.add(path)
    elif new is _MISSING:
        found.removed.add(path)


def _is_empty(value: Any) -> bool:
    return value is _MISSING or value is None or value == {} or value == []


def _compare_leaf(old: Any, new: Any, path: Path, found: Difference) -> None:
    if old is _MISSING:
        found.added.add(path)
    elif new is _MISSING:
        found.removed.add(path)
    elif old != new:
        found.modified.add(path)


def _compare_maps(layout: Layout, old: Any, new: Any, path: Path, found: Difference) -> None:
    before = old if isinstance(old, dict) else {}
    after = new if isinstance(new, dict) else {}
    for name in {**before, **after}:
        left, right = before.get(name, _MISSING), after.get(name, _MISSING)
        if left is not right:
            _compare(layout.child(name), left, right, (*path, f"f:{name}"), found)


def _compare_lists(layout: Layout, old: Any, new: Any, path: Path, found: Difference) -> None:
    before, after = _indexed(layout, old), _indexed(layout, new)
    item = layout.values or ANYTHING
    for element in {**before, **after}:
        left, right = before.get(element, _MISSING), after.get(element, _MISSING)
        if left is not right:
            _compare(item, left, right, (*path, element), found)


def _indexed(layout: Layout, items: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for item in items if isinstance(items, list) else ():
        element = item_element(layout, item)
        if element is not None:
            found[element] = item
    return found


def _claim(layout: Layout, value: Any, path: Path, found: Paths) -> None:
    if is_leaf(layout, value):
        found.add(path)
    elif isinstance(value, dict):
        if not value:
            found.add(path)
        _claim_fields(layout, value, path, found)
    else:
        item_layout = layout.values or ANYTHING
        for item in value:
            element = item_element(layout, item)
            if element is not None:
                found.add((*path, element))
                _claim(item_layout, item, (*path, element), found)


def _claim_fields(layout: Layout, value: Object, path: Path, found: Paths) -> None:
    for name, entry in value.items():
        here = (*path, f"f:{name}")
        _claim(layout.child(name), entry, here, found)
        if entry is None or name not in layout.fields:
            found.add(here)


def _unpack(fields: Object, path: Path, found: Paths) -> None:
    for element, inner in fields.items():
        if element == ".":
            found.add(path)
        elif not inner:
            found.add((*path, element))
        else:
            _unpack(inner, (*path, element), found)
