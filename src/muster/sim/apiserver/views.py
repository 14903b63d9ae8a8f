"""How the same object is shown: whole, as a Table row, or as metadata only.

Content negotiation and the bytes of lists and events. Whole objects are never encoded here: the
entry's cached bytes get their `kind` and `apiVersion` in front.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec

from muster.sim.apiserver.kinds import Object, ServedKind
from muster.sim.apiserver.refusal import not_acceptable
from muster.sim.apiserver.store import Change, StoredEntry
from muster.sim.apiserver.tables import partial, table

_ACCEPTED = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class ObjectView:
    """`form` is empty (whole objects), Table or PartialObjectMetadata."""

    form: str = ""
    include: str = "Metadata"
    now_s: float = 0.0


WHOLE = ObjectView()


@lru_cache(maxsize=512)
def form_of(accept: str) -> str:
    """What an Accept header asks for, the first alternative that this server can give."""
    if not accept:
        return ""
    for alternative in accept.split(","):
        media, *parameters = (part.strip() for part in alternative.split(";"))
        wanted = dict(part.partition("=")[::2] for part in parameters)
        if media not in ("application/json", "*/*", "application/*", "application/yaml"):
            continue
        form = wanted.get("as", "")
        if not form:
            return ""
        is_meta = wanted.get("g") == "meta.k8s.io" and wanted.get("v") in ("v1", "v1beta1")
        if is_meta and form in ("Table", "PartialObjectMetadata", "PartialObjectMetadataList"):
            return form.removesuffix("List")
    raise not_acceptable(_ACCEPTED)


def one(kind: ServedKind, entry: StoredEntry, view: ObjectView = WHOLE) -> bytes:
    """A single object."""
    if view.form == "Table":
        meta = {"resourceVersion": entry.obj["metadata"].get("resourceVersion", "")}
        return _encode(table(kind, [entry.obj], meta, view.include, view.now_s))
    if view.form:
        return _encode(partial(entry.obj))
    return _prefix(kind) + _body(kind, entry)[1:]


def many(
    kind: ServedKind, entries: Sequence[StoredEntry], meta: Mapping[str, Any], view: ObjectView
) -> bytes:
    """A list."""
    if view.form == "Table":
        return _encode(table(kind, [e.obj for e in entries], meta, view.include, view.now_s))
    if view.form:
        head: Object = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1"}
        return _encode(head | {"metadata": meta, "items": [partial(e.obj) for e in entries]})
    items = [_body(kind, entry) for entry in entries]
    if kind.is_custom:
        # Custom resources retain apiVersion and kind in lists; typed objects do not.
        prefix = _prefix(kind)
        items = [prefix + item[1:] for item in items]
    opening = _encode({"kind": kind.list_kind, "apiVersion": kind.api_version, "metadata": meta})
    return b"".join((opening[:-1], b',"items":[', b",".join(items), b"]}\n"))


def line(
    kind: ServedKind, event: str, entry: StoredEntry, view: ObjectView, change: Change | None = None
) -> bytes:
    """One watch event; the plain form is made once per change."""
    if view.form or change is None:
        return _line(event, one(kind, entry, view))
    key = (event, kind.api_version, kind.kind)
    made = change.rendered.get(key)
    if made is None:
        made = change.rendered[key] = _line(event, one(kind, entry))
    return made


def bookmark(kind: ServedKind, version: int, last_initial: bool, view: ObjectView) -> bytes:
    meta: Object = {"resourceVersion": str(version)}
    if last_initial:
        meta["annotations"] = {"k8s.io/initial-events-end": "true"}
    if view.form == "Table":
        body: Object = {"kind": "Table", "apiVersion": "meta.k8s.io/v1"}
        body |= {"metadata": meta, "columnDefinitions": [], "rows": []}
        if last_initial:
            body["rows"] = [{"cells": [], "object": partial({"metadata": meta})}]
    elif view.form:
        body = partial({"metadata": meta})
    else:
        body = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": meta}
    return _line("BOOKMARK", _encode(body))


def failure(status: Object) -> bytes:
    return _line("ERROR", _encode(status))


def served(kind: ServedKind, obj: Object) -> Object:
    """A stored object under this row's field names."""
    if not kind.renames:
        return obj
    found = dict(obj)
    for shown, stored in kind.renames:
        if stored in found:
            found[shown] = found.pop(stored)
    return found


def stored(kind: ServedKind, obj: Object) -> Object:
    """A served object under the storage's field names."""
    if not kind.renames:
        return obj
    found = dict(obj)
    for shown, kept in kind.renames:
        if shown in found:
            found[kept] = found.pop(shown)
    return found


def _line(event: str, body: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (event.encode(), body)


def _body(kind: ServedKind, entry: StoredEntry) -> bytes:
    return _encode(served(kind, entry.obj)) if kind.renames else entry.body


@lru_cache(maxsize=4096)
def _prefix_of(kind: str, api_version: str) -> bytes:
    return _encode({"kind": kind, "apiVersion": api_version})[:-1] + b","


def _prefix(kind: ServedKind) -> bytes:
    return _prefix_of(kind.kind, kind.api_version)
