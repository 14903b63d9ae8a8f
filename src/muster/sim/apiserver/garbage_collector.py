"""What follows from a change: dependents of an owner, contents of a namespace, kinds of a CRD.

One task reads the stream of changes and acts through the same write path as any client, so webhooks
see its deletes and watchers its patches. It is Kubernetes' garbage collector, namespace and
service account controllers and CRD finalizer in one, and does only what those do.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator

from muster.base.log import Log
from muster.base.timefmt import rfc3339
from muster.sim.apiserver.app import ApiServer
from muster.sim.apiserver.apply import tracked
from muster.sim.apiserver.custom import CLEANUP, STORAGE, Definitions
from muster.sim.apiserver.kinds import Object, ServedKind
from muster.sim.apiserver.objects import FOREGROUND, ORPHAN, new_uid
from muster.sim.apiserver.pipeline import INTERNAL
from muster.sim.apiserver.refusal import ApiRefusal
from muster.sim.apiserver.routes import ApiCall
from muster.sim.apiserver.store import Change, Key, StoredEntry, VersionChanged

_Item = tuple[str, Key]  # storage, key


class GarbageCollector:
    """Runs while the server does. `settle` waits until nothing is left to do."""

    def __init__(self, server: ApiServer, definitions: Definitions, log: Log) -> None:
        self._server = server
        self._store = server.store
        self._definitions = definitions
        self._log = log
        self._dependents: dict[str, set[_Item]] = {}  # owner uid -> who names it
        self._owners: dict[str, _Item] = {}  # uid -> where it is
        self._queue: deque[tuple[str, Change]] = deque()
        self._work = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        for storage in list(self._store.storages()):
            for key, entry in self._store.table(storage).entries.items():
                self._index(storage, key, None, entry)
        self._store.on_change = self._note
        self._task = asyncio.get_running_loop().create_task(self._run())
        # What was under way when the data was written goes on.
        for storage in list(self._store.storages()):
            for key, entry in list(self._store.table(storage).entries.items()):
                if entry.obj["metadata"].get("deletionTimestamp"):
                    self._note(storage, Change(entry.version, key, entry, entry))

    async def stop(self) -> None:
        self._store.on_change = None
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def settle(self) -> None:
        await self._idle.wait()

    def _note(self, storage: str, change: Change) -> None:
        self._index(storage, change.key, change.before, change.after)
        if storage == STORAGE:
            # Kinds come and go with the write itself, so that the next request sees them.
            self._definitions.follow(change.key)
        if storage == "namespaces" and change.before is None:
            self._furnish_namespace(change.key[1])
        if _matters(storage, change):
            self._queue.append((storage, change))
            self._idle.clear()
            self._work.set()

    def _index(
        self, storage: str, key: Key, before: StoredEntry | None, after: StoredEntry | None
    ) -> None:
        item = (storage, key)
        for uid in _owner_uids(before):
            self._dependents.get(uid, set()).discard(item)
        for uid in _owner_uids(after):
            self._dependents.setdefault(uid, set()).add(item)
        if after is None and before is not None:
            self._owners.pop(before.obj["metadata"].get("uid", ""), None)
        elif after is not None and before is None:
            self._owners[after.obj["metadata"].get("uid", "")] = item

    async def _run(self) -> None:
        while True:
            if not self._queue:
                self._idle.set()
                self._work.clear()
                await self._work.wait()
            storage, change = self._queue.popleft()
            try:
                await self._follow(storage, change)
            except ApiRefusal as refused:
                self._log.warning(
                    "garbage collection refused", storage=storage, reason=refused.message
                )
            except Exception as error:  # noqa: BLE001 - one object must not stop the others
                self._log.error("garbage collection failed", storage=storage, error=repr(error))

    async def _follow(self, storage: str, change: Change) -> None:
        if change.after is None and change.before is not None:
            uid = change.before.obj["metadata"].get("uid", "")
            await self._owner_gone(uid)
            await self._recheck_owners(change.before)
            if storage == "serviceaccounts" and change.key[1] == "default":
                self._refurnish(change.key[0])
            await self._recheck_namespace(storage, change.key)
            await self._recheck_definition(storage)
            return
        entry = self._store.entry(storage, change.key)
        if entry is None:
            return
        if change.before is None:
            await self._drop_if_orphaned(storage, entry)
            return
        if entry.obj["metadata"].get("deletionTimestamp"):
            await self._being_deleted(storage, entry)

    # --- Owners ---------------------------------------------------------------------------------

    async def _owner_gone(self, uid: str) -> None:
        for storage, key in sorted(self._dependents.pop(uid, ())):
            entry = self._store.entry(storage, key)
            if entry is not None:
                await self._drop_if_orphaned(storage, entry)

    async def _drop_if_orphaned(self, storage: str, entry: StoredEntry) -> None:
        """Delete what none of its owners is left for; otherwise forget the owners that are gone."""
        references = entry.obj["metadata"].get("ownerReferences") or ()
        if not references or entry.obj["metadata"].get("deletionTimestamp"):
            return
        here = [r for r in references if r.get("uid") in self._owners]
        if len(here) == len(references):
            return
        if here:
            await self._change(storage, entry.key, lambda meta: meta | {"ownerReferences": here})
        else:
            await self._delete(storage, entry.key, entry.obj["metadata"]["uid"])

    async def _being_deleted(self, storage: str, entry: StoredEntry) -> None:
        finalizers = entry.obj["metadata"].get("finalizers") or ()
        if ORPHAN in finalizers:
            await self._orphan(storage, entry)
        elif FOREGROUND in finalizers:
            await self._foreground(storage, entry)
        if storage == "namespaces":
            await self._empty_namespace(entry.key[1])
        if storage == STORAGE and CLEANUP in finalizers:
            await self._empty_definition(entry)

    async def _orphan(self, storage: str, entry: StoredEntry) -> None:
        uid = entry.obj["metadata"]["uid"]
        for kind, key in sorted(self._dependents.get(uid, ())):
            await self._change(kind, key, lambda meta: _without_owner(meta, uid))
        await self._change(storage, entry.key, lambda meta: _without_finalizer(meta, ORPHAN))

    async def _foreground(self, storage: str, entry: StoredEntry) -> None:
        uid = entry.obj["metadata"]["uid"]
        for kind, key in sorted(self._dependents.get(uid, ())):
            dependent = self._store.entry(kind, key)
            if dependent is None:
                continue
            if not dependent.obj["metadata"].get("deletionTimestamp"):
                await self._delete(kind, key, dependent.obj["metadata"]["uid"], "Foreground")
        left = [
            item
            for item in self._dependents.get(uid, ())
            if self._blocks(self._store.entry(*item), uid)
        ]
        if not left:
            await self._change(
                storage, entry.key, lambda meta: _without_finalizer(meta, FOREGROUND)
            )

    def _blocks(self, dependent: StoredEntry | None, uid: str) -> bool:
        if dependent is None:
            return False
        references = dependent.obj["metadata"].get("ownerReferences") or ()
        return any(r.get("uid") == uid and r.get("blockOwnerDeletion") for r in references)

    async def _recheck_owners(self, gone: StoredEntry) -> None:
        """An owner that waited for this dependent may go now."""
        for uid in _owner_uids(gone):
            item = self._owners.get(uid)
            owner = self._store.entry(*item) if item else None
            if item and owner and owner.obj["metadata"].get("deletionTimestamp"):
                await self._being_deleted(item[0], owner)

    # --- Namespaces and definitions -------------------------------------------------------------

    def _furnish_namespace(self, name: str) -> None:
        """Every namespace has a default service account from its creation on."""
        if self._store.entry("serviceaccounts", (name, "default")) is None:
            parts = self._server.parts
            meta = {
                "name": "default",
                "namespace": name,
                "uid": new_uid(parts.rand),
                "creationTimestamp": rfc3339(parts.clock.now_s()),
            }
            self._store.write("serviceaccounts", (name, "default"), {"metadata": meta}, None)

    def _refurnish(self, name: str) -> None:
        namespace = self._store.entry("namespaces", ("", name))
        if namespace is not None and not namespace.obj["metadata"].get("deletionTimestamp"):
            self._furnish_namespace(name)

    async def _empty_namespace(self, name: str) -> None:
        for kind in self._stored_kinds():
            if not kind.namespaced:
                continue
            for key in list(self._store.table(kind.storage).range(name)):
                entry = self._store.entry(kind.storage, key)
                if entry is not None and not entry.obj["metadata"].get("deletionTimestamp"):
                    await self._delete(kind.storage, key, entry.obj["metadata"]["uid"])
        await self._finish_namespace(name)

    async def _recheck_namespace(self, storage: str, key: Key) -> None:
        namespace = self._store.entry("namespaces", ("", key[0])) if key[0] else None
        if namespace is not None and namespace.obj["metadata"].get("deletionTimestamp"):
            await self._finish_namespace(key[0])

    async def _finish_namespace(self, name: str) -> None:
        """Let a namespace go when nothing is left in it."""
        entry = self._store.entry("namespaces", ("", name))
        if entry is None or any(
            self._store.table(storage).range(name)
            for storage in list(self._store.storages())
            if storage != "namespaces"
        ):
            return
        obj = {**entry.obj, "spec": {}, "metadata": dict(entry.obj["metadata"])}
        if obj["metadata"].get("finalizers"):
            return
        self._store.remove("namespaces", entry.key, entry, obj)

    async def _empty_definition(self, entry: StoredEntry) -> None:
        rows = [r for r in self._server.kinds if r.definition_of == entry.key[1]]
        for storage in dict.fromkeys(row.storage for row in rows):
            for key, item in list(self._store.table(storage).entries.items()):
                if not item.obj["metadata"].get("deletionTimestamp"):
                    await self._delete(storage, key, item.obj["metadata"]["uid"])
        await self._finish_definition(entry.key)

    async def _recheck_definition(self, storage: str) -> None:
        for row in self._server.kinds:
            if row.is_custom and row.storage == storage:
                await self._finish_definition(("", row.definition_of))
                return

    async def _finish_definition(self, key: Key) -> None:
        entry = self._store.entry(STORAGE, key)
        if entry is None or not entry.obj["metadata"].get("deletionTimestamp"):
            return
        rows = [r for r in self._server.kinds if r.definition_of == key[1]]
        if not any(self._store.table(row.storage).entries for row in rows):
            await self._change(STORAGE, key, lambda meta: _without_finalizer(meta, CLEANUP))

    # --- Acting ---------------------------------------------------------------------------------

    def _stored_kinds(self) -> Iterator[ServedKind]:
        seen: set[str] = set()
        for kind in self._server.kinds:
            if "delete" in kind.verbs and kind.storage not in seen:
                seen.add(kind.storage)
                yield kind

    def _call(self, storage: str, key: Key, verb: str) -> ApiCall | None:
        for kind in self._stored_kinds():
            if kind.storage == storage:
                headers = {"user-agent": "kube-controller-manager"}
                return ApiCall(kind, verb, key[0], key[1], "", "", {}, headers, b"", INTERNAL)
        return None

    async def _delete(self, storage: str, key: Key, uid: str, policy: str = "Background") -> None:
        call = self._call(storage, key, "delete")
        if call is None:
            return
        options: Object = {"preconditions": {"uid": uid}, "propagationPolicy": policy}
        try:
            await self._server.deletes.remove(call, options)
        except ApiRefusal as refused:
            if refused.code not in (404, 409):
                raise

    def _tracked(self, storage: str, old: Object, new: Object) -> Object:
        """Fields that go are nobody's any more."""
        call = self._call(storage, ("", ""), "update")
        if call is None or storage == "events":
            return new
        writes = self._server.writes
        return tracked(writes.layout(call.kind), old, old, new, writes.writer(call))

    async def _change(self, storage: str, key: Key, change: Callable[[Object], Object]) -> None:
        """Rewrite metadata of an object; what is finished by that goes."""
        while (entry := self._store.entry(storage, key)) is not None:
            meta = change(dict(entry.obj["metadata"]))
            if meta == entry.obj["metadata"]:
                return
            obj = self._tracked(storage, entry.obj, {**entry.obj, "metadata": meta})
            meta = obj["metadata"]
            held = storage == "namespaces" and (obj.get("spec") or {}).get("finalizers")
            finished = (
                meta.get("deletionTimestamp")
                and not meta.get("finalizers")
                and not meta.get("deletionGracePeriodSeconds")
                and not held
            )
            try:
                if finished:
                    self._store.remove(storage, key, entry, obj)
                else:
                    self._store.write(storage, key, obj, entry)
                return
            except VersionChanged:
                continue


def _owner_uids(entry: StoredEntry | None) -> list[str]:
    if entry is None:
        return []
    references = entry.obj["metadata"].get("ownerReferences")
    return [r.get("uid", "") for r in references] if references else []


def _matters(storage: str, change: Change) -> bool:
    """Most writes (statuses, heartbeats) have no consequences: they are not even queued."""
    if change.after is None:
        return True
    meta = change.after.obj["metadata"]
    if change.before is None:
        return bool(meta.get("ownerReferences"))
    return bool(meta.get("deletionTimestamp"))


def _without_finalizer(meta: Object, name: str) -> Object:
    left = [f for f in meta.get("finalizers") or () if f != name]
    meta.pop("finalizers", None)
    return meta | ({"finalizers": left} if left else {})


def _without_owner(meta: Object, uid: str) -> Object:
    left = [r for r in meta.get("ownerReferences") or () if r.get("uid") != uid]
    meta.pop("ownerReferences", None)
    return meta | ({"ownerReferences": left} if left else {})
