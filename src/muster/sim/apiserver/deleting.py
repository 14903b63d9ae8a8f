"""delete and deletecollection: preconditions, propagation, finalizers, grace."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from muster.api.core import ENDED_PHASES
from muster.base.timefmt import rfc3339
from muster.sim.apiserver import bodies
from muster.sim.apiserver.answers import ApiResponse, json_answer
from muster.sim.apiserver.kinds import Cause, Object, ServedKind
from muster.sim.apiserver.objects import FOREGROUND, ORPHAN
from muster.sim.apiserver.reading import selection
from muster.sim.apiserver.refusal import bad_request, conflict, invalid_options, not_found
from muster.sim.apiserver.routes import ApiCall
from muster.sim.apiserver.store import Store, StoredEntry, VersionChanged
from muster.sim.apiserver.writing import Writes

_POLICIES = ("Foreground", "Background", "Orphan")
_TRIES = 16


class Deletes:
    def __init__(self, writes: Writes) -> None:
        self._writes = writes
        self._store: Store = writes.store

    async def delete(self, call: ApiCall) -> ApiResponse:
        options = _checked(bodies.options_of(call))
        entry, removed = await self.remove(call, options)
        await self._store.sync()
        if removed and not call.kind.returns_deleted:
            return json_answer(_success(call.kind, entry))
        return await self._writes.answer(call, entry, 200)

    async def delete_collection(self, call: ApiCall) -> ApiResponse:
        options = _checked(bodies.options_of(call))
        wanted = selection(call)
        table = self._store.table(call.kind.storage)
        keys = list(table.range(wanted.namespace))
        chosen = [table.entries[key] for key in keys if wanted.matches(table.entries.get(key))]
        limit = int(call.query.get("limit") or 0)
        items: list[Object] = []
        for entry in chosen[:limit] if limit else chosen:
            call.namespace, call.name = entry.key
            try:
                gone, _ = await self.remove(call, options)
            except Exception as error:
                if getattr(error, "code", 0) == 404:
                    continue
                raise
            items.append(gone.obj)
        await self._store.sync()
        kind = call.kind
        body = {"kind": kind.list_kind, "apiVersion": kind.api_version}
        meta = {"resourceVersion": str(self._store.version)}
        return json_answer({**body, "metadata": meta, "items": items})

    async def remove(self, call: ApiCall, options: Object) -> tuple[StoredEntry, bool]:
        """Delete or begin to delete; the object as it is now, and whether it is gone."""
        kind = call.kind
        key = (call.namespace if kind.namespaced else "", call.name)
        dry_run = call.dry_run or options.get("dryRun") == ["All"]
        for _ in range(_TRIES):
            entry = self._store.entry(kind.storage, key)
            if entry is None:
                raise not_found(kind, call.name)
            _check_preconditions(kind, entry, options)
            request = self._writes.request(call, "delete")
            request.options = options
            request.dry_run = dry_run
            await self._writes.pipeline.delete(request, entry.obj)
            obj, finished = deleted(kind, entry.obj, options, self._writes.clock.now_s())
            if dry_run:
                return StoredEntry(key, 0, obj if not finished else entry.obj), finished
            try:
                if finished:
                    return self._store.remove(kind.storage, key, entry, obj), True
                if obj == entry.obj:
                    return entry, False
                return self._store.write(kind.storage, key, obj, entry), False
            except VersionChanged:
                continue
        raise conflict(kind, call.name)


def deleted(kind: ServedKind, old: Object, options: Object, now_s: float) -> tuple[Object, bool]:
    """What a delete makes of an object, and whether it can go at once. Pure."""
    meta: Object = dict(old["metadata"])
    finalizers = _finalizers(kind, meta, options)
    grace_s = _grace(kind, old, options)
    obj = {**old, "metadata": meta}
    if finalizers:
        meta["finalizers"] = finalizers
    else:
        meta.pop("finalizers", None)
    waits = bool(finalizers) or grace_s > 0 or _is_held(kind, old)
    if not waits and kind.grace_s is None:
        return obj, True
    if not meta.get("deletionTimestamp"):
        meta["deletionTimestamp"] = rfc3339(now_s + grace_s)
        if not _is_held(kind, old):
            meta["deletionGracePeriodSeconds"] = grace_s
        if "generation" in meta:
            meta["generation"] += 1
    elif kind.grace_s is not None and grace_s < meta.get("deletionGracePeriodSeconds", 0):
        # A second delete may only shorten the grace.
        began_s = _seconds(meta["deletionTimestamp"]) - meta["deletionGracePeriodSeconds"]
        meta["deletionTimestamp"] = rfc3339(max(began_s + grace_s, now_s))
        meta["deletionGracePeriodSeconds"] = grace_s
    if kind.plural == "namespaces" and not kind.group:
        obj["status"] = {**(old.get("status") or {}), "phase": "Terminating"}
    finished = not finalizers and not _is_held(kind, obj) and grace_s <= 0
    return obj, finished


def _finalizers(kind: ServedKind, meta: Object, options: Object) -> list[str]:
    current = [f for f in meta.get("finalizers") or () if f not in (FOREGROUND, ORPHAN)]
    policy = options.get("propagationPolicy")
    if policy is None and "orphanDependents" in options:
        policy = "Orphan" if options["orphanDependents"] else "Background"
    if policy is None:
        kept = [f for f in meta.get("finalizers") or () if f in (FOREGROUND, ORPHAN)]
        if kept:
            return [*current, *kept]
        policy = kind.propagation
    if policy == "Foreground":
        current.append(FOREGROUND)
    elif policy == "Orphan":
        current.append(ORPHAN)
    return current


def _grace(kind: ServedKind, obj: Object, options: Object) -> int:
    """Seconds of grace that this delete leaves."""
    if kind.grace_s is None:
        return 0
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    asked = options.get("gracePeriodSeconds")
    own = spec.get("terminationGracePeriodSeconds")
    grace_s = kind.grace_s if own is None else own
    if asked is not None:
        grace_s = max(int(asked), 0)
    # What runs nowhere has nothing to wind down.
    if not spec.get("nodeName") or status.get("phase") in ENDED_PHASES:
        grace_s = 0
    already = obj["metadata"].get("deletionGracePeriodSeconds")
    if already is not None and obj["metadata"].get("deletionTimestamp"):
        return min(grace_s, int(already)) if asked is not None else int(already)
    return int(grace_s)


def _is_held(kind: ServedKind, obj: Object) -> bool:
    """A namespace goes when its own finalizers are gone."""
    if kind.plural != "namespaces" or kind.group:
        return False
    return bool((obj.get("spec") or {}).get("finalizers"))


def _checked(options: Object) -> Object:
    policy = options.get("propagationPolicy")
    if policy is not None and policy not in _POLICIES:
        cause = Cause.unsupported("propagationPolicy", policy, (*_POLICIES, "nil"))
        raise invalid_options("DeleteOptions", cause)
    if policy is not None and options.get("orphanDependents") is not None:
        raise bad_request("orphanDependents and deletionPropagation cannot be both set")
    grace = options.get("gracePeriodSeconds")
    if grace is not None and (isinstance(grace, bool) or not isinstance(grace, int)):
        raise bad_request(f"gracePeriodSeconds: invalid value {grace!r}: must be a whole number")
    return options


def _check_preconditions(kind: ServedKind, entry: StoredEntry, options: Object) -> None:
    wanted: Any = options.get("preconditions") or {}
    meta = entry.obj["metadata"]
    named = replace(kind, plural=kind.kind)  # these messages name the kind, not the resource
    for name, label, fate in (
        ("uid", "UID", "deleted and then recreated"),
        ("resourceVersion", "ResourceVersion", "modified"),
    ):
        if wanted.get(name) and wanted[name] != meta.get(name):
            why = (
                f"the {label} in the precondition ({wanted[name]}) does not match the {label} in "
                f"record ({meta.get(name)}). The object might have been {fate}"
            )
            raise conflict(named, entry.key[1], why)


def _success(kind: ServedKind, entry: StoredEntry) -> Object:
    details = {"name": entry.key[1], "group": kind.group, "kind": kind.plural}
    details["uid"] = entry.obj["metadata"].get("uid", "")
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {key: value for key, value in details.items() if value},
    }


def _seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).astimezone(UTC).timestamp()
