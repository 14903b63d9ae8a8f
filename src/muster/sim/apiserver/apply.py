"""Who owns which field: tracking on every write, merging and conflicts on server-side apply. Pure.

`tracked` is called for create, update and patch; `applied` for an apply patch. Both return the new
object with its `managedFields` brought up to date and never change what they are given.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from muster.base.timefmt import rfc3339
from muster.sim.apiserver.fieldsets import (
    Path,
    Paths,
    difference,
    field_set,
    is_leaf,
    item_element,
    packed,
    shown,
    unpacked,
)
from muster.sim.apiserver.kinds import Object
from muster.sim.apiserver.layouts import ANYTHING, Layout
from muster.sim.apiserver.refusal import ApiRefusal, bad_request

Identity = tuple[str, str, str, str]  # manager, operation, apiVersion, subresource


@dataclass(frozen=True, slots=True)
class FieldWriter:
    """Who writes, through which version and subresource, and when."""

    manager: str
    api_version: str
    subresource: str
    now_s: float
    # Top fields that this subresource ignores, and that its writers do not come to own.
    ignored: frozenset[str] = frozenset()

    def identity(self, operation: str) -> Identity:
        return (self.manager, operation, self.api_version, self.subresource)


@dataclass(frozen=True, slots=True)
class _Claim:
    paths: frozenset[Path]
    time: str


_Claims = dict[Identity, _Claim]


def tracked(
    layout: Layout, old: Object | None, base: Object, new: Object, writer: FieldWriter
) -> Object:
    """`new` after a create (old None, `base` the empty object), update or patch by `writer`."""
    previous = old["metadata"].get("managedFields") if old else None
    sent = new["metadata"].get("managedFields")
    if sent == [{}]:
        return _with_entries(new, [])
    if old is not None and not previous and not sent:
        return _with_entries(new, [])  # nobody tracks this object until somebody applies it
    entries = sent if sent and not writer.subresource else previous
    claims = _read(entries or ())
    changes = difference(layout, base, new)
    mine = writer.identity("Update")
    taken = {p for p in changes.modified | changes.added if p[0] not in writer.ignored}
    now: _Claims = {}
    for identity, claim in claims.items():
        kept = claim.paths - changes.removed
        if identity != mine:
            kept -= taken
        now[identity] = replace(claim, paths=frozenset(kept))
    held = now[mine].paths if mine in now else frozenset()
    last = now[mine].time if mine in now else ""
    now[mine] = _Claim(frozenset(held | taken), rfc3339(writer.now_s) if taken else last)
    return _with_entries(new, _written(now))


def applied(
    layout: Layout, live: Object, config: Object, writer: FieldWriter, force: bool
) -> Object:
    """What the object becomes when `config` is applied over `live`; raises a 409 on conflicts."""
    if config.get("metadata", {}).get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")
    claims = _read(live["metadata"].get("managedFields") or ())
    if not claims and live["metadata"].get("uid"):
        claims = _before_first_apply(layout, live, writer)
    mine = writer.identity("Apply")
    last = claims[mine].paths if mine in claims else frozenset()
    wanted = field_set(layout, config)
    now = claims | {mine: _Claim(frozenset(wanted), claims[mine].time if mine in claims else "")}
    merged = _merged(layout, live, config)
    merged = _pruned(layout, merged, last, now)
    changes = difference(layout, live, merged)
    taken = changes.modified | changes.added
    conflicts = {
        identity: claim.paths & taken
        for identity, claim in now.items()
        if identity != mine and claim.paths & taken
    }
    if conflicts and not force:
        raise _conflict(conflicts)
    for identity, claim in now.items():
        if identity != mine:
            left = claim.paths - conflicts.get(identity, frozenset()) - changes.removed
            now[identity] = replace(claim, paths=frozenset(left))
    # An apply that changes nothing leaves no time.
    fresh = rfc3339(writer.now_s) if changes else claims[mine].time if mine in claims else ""
    now[mine] = replace(now[mine], time=fresh)
    return _with_entries(merged, _written(now))


def _read(entries: Iterable[Object]) -> _Claims:
    return {
        (
            entry.get("manager", ""),
            entry.get("operation", ""),
            entry.get("apiVersion", ""),
            entry.get("subresource", ""),
        ): _Claim(frozenset(unpacked(entry.get("fieldsV1"))), entry.get("time", ""))
        for entry in entries
    }


def _written(now: _Claims) -> list[Object]:
    entries = [
        _entry(identity, claim.paths, claim.time) for identity, claim in now.items() if claim.paths
    ]

    def order(entry: Object) -> tuple[bool, str, str]:
        return (entry["operation"] != "Apply", entry.get("time", ""), entry["manager"])

    return sorted(entries, key=order)


def _entry(identity: Identity, paths: Iterable[Path], time: str) -> Object:
    manager, operation, api_version, subresource = identity
    entry: Object = {
        "manager": manager,
        "operation": operation,
        "apiVersion": api_version,
        "fieldsType": "FieldsV1",
        "fieldsV1": packed(paths),
    }
    if time:
        entry["time"] = time
    if subresource:
        entry["subresource"] = subresource
    return entry


def _with_entries(obj: Object, entries: list[Object]) -> Object:
    meta = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    if entries:
        meta["managedFields"] = entries
    return {**obj, "metadata": meta}


def _before_first_apply(layout: Layout, live: Object, writer: FieldWriter) -> _Claims:
    """An object that nobody tracked: what it holds belongs to those who wrote it before."""
    found = difference(layout, {"metadata": {}}, live)
    identity = ("before-first-apply", "Update", writer.api_version, "")
    made = live["metadata"].get("creationTimestamp", rfc3339(writer.now_s))
    return {identity: _Claim(frozenset(found.added), made)}


# --- Merging ------------------------------------------------------------------------------------


def _merged(layout: Layout, live: Any, config: Any) -> Any:
    if is_leaf(layout, config) or live is None:
        return config
    if isinstance(config, dict):
        if not isinstance(live, dict):
            return config
        result = dict(live)
        for name, value in config.items():
            if name in live:
                result[name] = _merged(layout.child(name), live[name], value)
            else:
                result[name] = value
        return result
    if not isinstance(live, list):
        return config
    return _merged_lists(layout, live, config)


def _merged_lists(layout: Layout, live: list[Any], config: list[Any]) -> list[Any]:
    """The applied order leads; what only the live list has keeps its place among the others."""
    item_layout = layout.values or ANYTHING
    current = {item_element(layout, item): item for item in live}
    wanted = {item_element(layout, item): item for item in config}
    result: list[Any] = []
    pending = list(config)
    for item in live:
        element = item_element(layout, item)
        if element not in wanted:
            result.append(item)
            continue
        while pending:
            ahead = pending.pop(0)
            key = item_element(layout, ahead)
            result.append(_merged(item_layout, current[key], ahead) if key in current else ahead)
            if key == element:
                break
    for ahead in pending:
        key = item_element(layout, ahead)
        result.append(_merged(item_layout, current[key], ahead) if key in current else ahead)
    return _unique(layout, result)


def _unique(layout: Layout, items: list[Any]) -> list[Any]:
    found: dict[Any, Any] = {}
    for item in items:
        element = item_element(layout, item)
        found.setdefault(element if element is not None else id(item), item)
    return list(found.values())


# --- Pruning ------------------------------------------------------------------------------------


def _pruned(layout: Layout, merged: Object, last: frozenset[Path], now: _Claims) -> Object:
    """Without what this manager applied before, no longer applies, and nobody else owns."""
    if not last:
        return merged
    owned = _with_parents(path for claim in now.values() for path in claim.paths)
    dropped = {path for path in _with_parents(last) if path not in owned}
    if not dropped:
        return merged
    result = _without(layout, merged, (), dropped, last)
    return result if isinstance(result, dict) else merged


def _with_parents(paths: Iterable[Path]) -> Paths:
    found: Paths = set()
    for path in paths:
        while path and path not in found:
            found.add(path)
            path = path[:-1]
    return found


_GONE: Any = object()


def _without(layout: Layout, value: Any, path: Path, dropped: Paths, last: frozenset[Path]) -> Any:
    if isinstance(value, dict) and not is_leaf(layout, value):
        result = {}
        for name, entry in value.items():
            kept = _kept(layout.child(name), entry, (*path, f"f:{name}"), dropped, last)
            if kept is not _GONE:
                result[name] = kept
        return result
    if isinstance(value, list) and not is_leaf(layout, value):
        items = []
        for item in value:
            element = item_element(layout, item)
            inner = layout.values or ANYTHING
            kept = item if element is None else _kept(inner, item, (*path, element), dropped, last)
            if kept is not _GONE:
                items.append(kept)
        return items
    return value


def _kept(layout: Layout, value: Any, path: Path, dropped: Paths, last: frozenset[Path]) -> Any:
    if path not in dropped:
        return _without(layout, value, path, dropped, last)
    if is_leaf(layout, value) or not value:
        return _GONE
    if path[-1].startswith(("k:", "v:")) and path in last:
        # A list item that was ours and that nobody owns a part of goes as a whole.
        return _GONE
    rest = _without(layout, value, path, dropped, last)
    return rest if rest else _GONE


# --- Conflicts ----------------------------------------------------------------------------------


def _conflict(conflicts: dict[Identity, frozenset[Path]]) -> ApiRefusal:
    found = [
        (_named(identity), shown(path))
        for identity in sorted(conflicts)
        for path in sorted(conflicts[identity])
    ]
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {name}", "field": path}
        for name, path in found
    ]
    if len(found) == 1:
        name, path = found[0]
        text = f"Apply failed with 1 conflict: conflict with {name}: {path}"
    else:
        lines: list[str] = []
        for name in dict.fromkeys(name for name, _ in found):
            lines.append(f"conflicts with {name}:")
            lines += [f"- {path}" for other, path in found if other == name]
        text = f"Apply failed with {len(found)} conflicts: " + "\n".join(lines)
    return ApiRefusal(409, "Conflict", text, {"causes": causes})


def _named(identity: Identity) -> str:
    manager, operation, api_version, subresource = identity
    text = f'"{manager}"'
    if subresource:
        text += f' with subresource "{subresource}"'
    return f"{text} using {api_version}" if operation == "Update" else text
