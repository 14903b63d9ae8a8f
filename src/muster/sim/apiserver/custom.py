"""CustomResourceDefinitions: from a stored definition to rows of the kinds table.

`Definitions` follows the stored CRDs: when one appears or changes it decides the names (two kinds
may not claim one), writes the conditions that clients wait for, and adds a row per served version.
When one goes, its objects go first, then its rows. Schemas are `schema.py`'s.
"""

from collections.abc import Callable, Mapping
from typing import Any

from muster.base.clock import Clock
from muster.base.log import Log
from muster.base.timefmt import rfc3339
from muster.sim.apiserver.discovery import sorted_versions
from muster.sim.apiserver.kinds import (
    Cause,
    Object,
    ScalePaths,
    ServedKind,
    ServedKinds,
    TableColumn,
)
from muster.sim.apiserver.pipeline import WriteRequest
from muster.sim.apiserver.schema import definition_causes, structural
from muster.sim.apiserver.store import Store, StoredEntry, VersionChanged

STORAGE = "customresourcedefinitions.apiextensions.k8s.io"
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
# In the order in which the real server lists them for custom kinds.
_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_ANYTHING: Mapping[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


async def check_definition(
    request: WriteRequest, old: Object | None, new: Object | None
) -> list[Cause]:
    """VALIDATE step of CRDs."""
    if new is None or request.kind.storage != STORAGE or request.subresource:
        return []
    return definition_causes(new)


async def prepare_definition(request: WriteRequest, old: Object | None, new: Object | None) -> None:
    """DEFAULT step of CRDs: what a new one starts with."""
    if new is None or request.kind.storage != STORAGE or request.subresource or old is not None:
        return
    stored = [v["name"] for v in new["spec"].get("versions") or () if v.get("storage")]
    new["status"] = {
        "conditions": [],
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": stored,
    }


async def check_schema(
    request: WriteRequest, old: Object | None, new: Object | None
) -> list[Cause]:
    """VALIDATE step of custom resources."""
    schema = request.kind.schema
    if new is None or not request.kind.is_custom or schema is None:
        return []
    whole = {"apiVersion": request.kind.api_version, "kind": request.kind.kind, **new}
    if request.subresource == "status" and old is not None:
        check = getattr(schema, "validate_status", None)
        if check is not None:
            return list(check(whole, old))
    return schema.validate(whole, old)


class Definitions:
    """Keeps the kinds table equal to the stored CRDs."""

    def __init__(self, kinds: ServedKinds, store: Store, clock: Clock, log: Log) -> None:
        self._kinds = kinds
        self._store = store
        self._clock = clock
        self._log = log
        self.on_kind: Callable[[ServedKind], None] = lambda kind: None

    def follow(self, key: tuple[str, str]) -> None:
        """A definition was written or removed."""
        entry = self._store.entry(STORAGE, key)
        if entry is None:
            self._withdraw(key[1])
            return
        conflict = _conflict(self._kinds, entry.obj)
        if conflict:
            self._mark(entry, _refused(entry.obj, conflict, self._now()))
            return
        self._serve(entry.obj)
        self._mark(entry, _established(entry.obj, self._now()))

    def _serve(self, crd: Object) -> None:
        name = crd["metadata"]["name"]
        mine = [row for row in self._kinds if row.definition_of == name]
        rows = rows_of(crd)
        wanted = {row.version for row in rows}
        self._kinds.remove(*(row for row in mine if row.version not in wanted))
        self._kinds.add(*rows)
        for row in rows:
            self.on_kind(row)

    def _withdraw(self, name: str) -> None:
        mine = [row for row in self._kinds if row.definition_of == name]
        if mine:
            self._kinds.remove(*mine)
            self._log.info("kind no longer served", definition=name)

    def _mark(self, entry: StoredEntry, status: Object) -> None:
        if status == entry.obj.get("status"):
            return
        meta = dict(entry.obj["metadata"])
        if CLEANUP not in (meta.get("finalizers") or ()) and not meta.get("deletionTimestamp"):
            meta["finalizers"] = [*(meta.get("finalizers") or ()), CLEANUP]
        try:
            self._store.write(
                STORAGE, entry.key, {**entry.obj, "metadata": meta, "status": status}, entry
            )
        except VersionChanged:
            self.follow(entry.key)

    def _now(self) -> str:
        return rfc3339(self._clock.now_s())


def rows_of(crd: Object) -> list[ServedKind]:
    """One row per served version. Pure."""
    spec = crd["spec"]
    names, order = spec["names"], sorted_versions(v["name"] for v in spec["versions"])
    return [_row(crd, names, version, order) for version in spec["versions"] if version["served"]]


def _row(crd: Object, names: Object, version: Object, order: list[str]) -> ServedKind:
    spec, subresources = crd["spec"], version.get("subresources") or {}
    openapi = (version.get("schema") or {}).get("openAPIV3Schema") or _ANYTHING
    scale = subresources.get("scale")
    return ServedKind(
        spec["group"],
        version["name"],
        names["plural"],
        names["kind"],
        namespaced=spec.get("scope") == "Namespaced",
        singular=names.get("singular", ""),
        list_kind=names.get("listKind", ""),
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=frozenset(subresources),
        scale=_scale_paths(scale) if scale else None,
        columns=tuple(_column(c) for c in version.get("additionalPrinterColumns") or ()),
        schema=structural(openapi),
        selectable=tuple(f["jsonPath"].lstrip(".") for f in version.get("selectableFields") or ()),
        definition_of=crd["metadata"]["name"],
        preference=order.index(version["name"]),
        unconditional_update=False,
        verbs=_VERBS,
    )


def _scale_paths(scale: Object) -> ScalePaths:
    return ScalePaths(
        scale["specReplicasPath"], scale["statusReplicasPath"], scale.get("labelSelectorPath")
    )


def _column(column: Object) -> TableColumn:
    return TableColumn(
        column["name"],
        column.get("type", "string"),
        column.get("format", ""),
        column.get("priority", 0),
        column["jsonPath"],
        column.get("description", ""),
    )


def _conflict(kinds: ServedKinds, crd: Object) -> tuple[str, str] | None:
    """(reason, message) when another kind of the group already has one of the names."""
    spec, names = crd["spec"], crd["spec"]["names"]
    for row in kinds:
        if row.group != spec["group"] or row.definition_of == crd["metadata"]["name"]:
            continue
        if row.plural == names["plural"]:
            return "PluralConflict", f'"{names["plural"]}" is already in use'
        if row.kind == names["kind"]:
            return "KindConflict", f'"{names["kind"]}" is already in use'
        taken = {row.singular, *row.short_names}
        for name in (names.get("singular"), *(names.get("shortNames") or ())):
            if name in taken:
                return "ShortNamesConflict", f'"{name}" is already in use'
    return None


def _established(crd: Object, now: str) -> Object:
    status = dict(crd.get("status") or {})
    status["acceptedNames"] = dict(crd["spec"]["names"])
    stored = list(status.get("storedVersions") or ())
    for version in crd["spec"]["versions"]:
        if version.get("storage") and version["name"] not in stored:
            stored.append(version["name"])
    status["storedVersions"] = stored
    accepted = ("NamesAccepted", "True", "NoConflicts", "no conflicts found")
    ready = (
        "Established",
        "True",
        "InitialNamesAccepted",
        "the initial names have been accepted",
    )
    status["conditions"] = _conditions(status.get("conditions"), now, accepted, ready)
    return status


def _refused(crd: Object, conflict: tuple[str, str], now: str) -> Object:
    reason, message = conflict
    status = dict(crd.get("status") or {})
    refused = ("NamesAccepted", "False", reason, message)
    waiting = ("Established", "False", "NotAccepted", "not all names are accepted")
    status["conditions"] = _conditions(status.get("conditions"), now, refused, waiting)
    return status


def _conditions(current: Any, now: str, *wanted: tuple[str, str, str, str]) -> list[Object]:
    found = {c["type"]: c for c in current or ()}
    for kind, state, reason, message in wanted:
        if kind in found and found[kind]["status"] == state:
            continue
        found[kind] = {
            "type": kind,
            "status": state,
            "lastTransitionTime": now,
            "reason": reason,
            "message": message,
        }
    return list(found.values())
