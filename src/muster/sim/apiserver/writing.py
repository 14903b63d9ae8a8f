"""create, update, patch and apply, of any kind: the generic half of the write path.

What is asked is turned into a new object, the pipeline says what becomes of it, the store keeps it.
A write that lost a race is made again from the newer object, unless it named a resourceVersion.
"""

from collections.abc import Callable
from dataclasses import dataclass

from muster.base.clock import Clock
from muster.base.rand import Rand
from muster.sim.apiserver import bodies, views
from muster.sim.apiserver.answers import JSON, ApiResponse
from muster.sim.apiserver.apply import FieldWriter, applied, tracked
from muster.sim.apiserver.conditions import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    check_applied,
    check_name,
    check_namespace,
    has_status_subresource,
    is_finished,
    is_same,
    names_version,
    patch_types,
    report_unknown,
    unreadable,
    writes_subresource,
)
from muster.sim.apiserver.kinds import Cause, Object, ServedKind
from muster.sim.apiserver.layouts import Layout, builtin, compiled, decode, empty
from muster.sim.apiserver.objects import (
    count_generation,
    generated_name,
    new_uid,
    prepare_create,
    prepare_update,
)
from muster.sim.apiserver.patch import json_patch, merge_patch, strategic_merge_patch
from muster.sim.apiserver.pipeline import Pipeline, WriteRequest
from muster.sim.apiserver.refusal import (
    ApiRefusal,
    already_exists,
    bad_request,
    conflict,
    invalid_options,
    not_found,
    unsupported_media_type,
)
from muster.sim.apiserver.routes import ApiCall
from muster.sim.apiserver.store import Store, StoredEntry, VersionChanged
from muster.sim.apiserver.types import OBJECT_META

_TRIES = 8

# What a write makes of the current object (None: there is none).
Make = Callable[[StoredEntry | None], Object]


@dataclass(frozen=True, slots=True)
class Written:
    entry: StoredEntry
    created: bool = False


class Writes:
    """The writing half of the server, without deletion."""

    def __init__(self, store: Store, pipeline: Pipeline, clock: Clock, rand: Rand) -> None:
        self.store = store
        self.pipeline = pipeline
        self.clock = clock
        self._rand = rand
        self._layouts: dict[tuple[str, str, str, int], Layout] = {}

    async def create(self, call: ApiCall) -> ApiResponse:
        obj = bodies.read_object(call)
        if call.name and not call.subresource:
            raise bad_request("the server does not allow this method on the requested resource")
        entry = await self.insert(call, obj)
        return await self.answer(call, entry, 201)

    async def update(self, call: ApiCall) -> ApiResponse:
        sent = bodies.read_object(call)
        sent["metadata"].setdefault("name", call.name)
        check_name(call, sent)
        check_namespace(call, sent)

        def make(current: StoredEntry | None) -> Object:
            if current is None and not call.kind.create_on_update:
                raise not_found(call.kind, call.name)
            return bodies.copied(sent)

        written = await self.modify(call, make, creates=call.kind.create_on_update)
        return await self.answer(call, written.entry, 201 if written.created else 200)

    async def patch(self, call: ApiCall) -> ApiResponse:
        media = bodies.media_type(call.headers)
        if media == APPLY_PATCH:
            return await self._apply(call)
        if media not in (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH):
            raise unsupported_media_type(media, patch_types(call.kind))
        if media == STRATEGIC_PATCH and call.kind.is_custom:
            raise unsupported_media_type(media, patch_types(call.kind))
        body = bodies.read_value(call.body, media)

        def make(current: StoredEntry | None) -> Object:
            if current is None:
                raise not_found(call.kind, call.name)
            obj = bodies.copied(self._patched(call.kind, current.obj, media, body))
            check_name(call, obj)
            return obj

        written = await self.modify(call, make)
        return await self.answer(call, written.entry, 200)

    async def answer(self, call: ApiCall, entry: StoredEntry, status: int) -> ApiResponse:
        """The object as stored, once it is durable."""
        await self.store.sync()
        view = views.ObjectView(
            views.form_of(call.headers.get("accept", "")), now_s=self.clock.now_s()
        )
        return ApiResponse(status, views.one(call.kind, entry, view), warned(call))

    def layout(self, kind: ServedKind) -> Layout:
        if not kind.is_custom:
            # Rows that rename fields are stored, and merged, under the storage's names.
            return builtin(_STORED_EVENT.definition if kind.renames else kind.definition)
        key = (kind.group, kind.version, kind.plural, id(kind.schema))
        if key not in self._layouts:
            openapi = kind.schema.openapi if kind.schema else {}
            self._layouts[key] = compiled(openapi)
        return self._layouts[key]

    async def insert(self, call: ApiCall, obj: Object) -> StoredEntry:
        """A new object through the whole path."""
        kind = call.kind
        check_namespace(call, obj)
        if obj["metadata"].get("resourceVersion"):
            text = "resourceVersion should not be set on objects to be created"
            raise ApiRefusal(500, "", text)
        sent, base = obj, obj["metadata"].get("generateName", "")
        for last in (False,) * (_TRIES - 1) + (True,):
            obj = bodies.copied(sent) if base else sent
            meta = obj["metadata"]
            if base and not meta.get("name"):
                meta["name"] = generated_name(base, self._rand)
            try:
                return await self._insert_once(call, kind, obj)
            except ApiRefusal as refused:
                retry = (
                    refused.reason == "AlreadyExists" and base and not sent["metadata"].get("name")
                )
                if not retry or last:
                    raise
        raise AssertionError("unreachable")

    async def _insert_once(self, call: ApiCall, kind: ServedKind, obj: Object) -> StoredEntry:
        request = self.request(call, "create")
        obj = views.stored(kind, obj)
        self.decode(request, obj)
        prepare_create(kind, obj, call.namespace, new_uid(self._rand), self.clock.now_s())
        request.name = obj["metadata"].get("name", "")
        obj = await self.pipeline.defaulted(request, None, obj)
        layout = self.layout(kind)
        base = {"metadata": {}} if kind.is_custom else empty(layout)
        obj = tracked(layout, None, base, obj, self.writer(call))
        obj = await self.pipeline.mutated(request, None, obj)
        await self.pipeline.checked(request, None, obj)
        name = obj["metadata"]["name"]
        key = (call.namespace if kind.namespaced else "", name)
        if self.store.entry(kind.storage, key) is not None:
            raise already_exists(kind, name)
        return self._store_entry(call, kind, key, obj, None)

    async def modify(
        self, call: ApiCall, make: Make, *, creates: bool = False, applies: bool = False
    ) -> Written:
        """Change an object through the whole path; make it if `creates` and it is not there."""
        kind = call.kind
        key = (call.namespace if kind.namespaced else "", call.name)
        for _ in range(_TRIES * 4):
            current = self.store.entry(kind.storage, key)
            obj = make(current)
            if current is None and creates:
                obj["metadata"].pop("resourceVersion", None)
                if applies:
                    return Written(await self._create_applied(call, obj), created=True)
                return Written(await self.insert(call, obj), created=True)
            if current is None:
                raise not_found(kind, call.name)
            pinned = names_version(call, obj, current)
            try:
                return await self._modify_once(call, current, obj, applies)
            except VersionChanged:
                if pinned:
                    raise conflict(kind, call.name) from None
        raise conflict(kind, call.name)

    async def _modify_once(
        self, call: ApiCall, current: StoredEntry, obj: Object, applies: bool
    ) -> Written:
        kind, old = call.kind, current.obj
        request = self.request(call, "update")
        obj = views.stored(kind, obj)
        self.decode(request, obj)
        obj = prepare_update(kind, obj, old, call.subresource)
        obj = await self.pipeline.defaulted(request, old, obj)
        if not applies:
            obj = tracked(self.layout(kind), old, old, obj, self.writer(call))
        obj = await self.pipeline.mutated(request, old, obj)
        count_generation(kind, obj, old, call.subresource)
        await self.pipeline.checked(request, old, obj)
        if is_same(obj, old):
            return Written(current)
        if is_finished(obj) and not call.dry_run:
            gone = self.store.remove(kind.storage, current.key, current, obj)
            return Written(gone)
        return Written(self._store_entry(call, kind, current.key, obj, current))

    async def _apply(self, call: ApiCall) -> ApiResponse:
        config = bodies.read_value(call.body, "application/yaml")
        if not isinstance(config, dict):
            raise bad_request("an apply patch is an object")
        if not call.query.get("fieldManager"):
            raise invalid_options(
                "PatchOptions", Cause.required("fieldManager", "is required for apply patch")
            )
        check_applied(call, config)
        bodies.check_type(call.kind, config)
        config["metadata"].setdefault("name", call.name)
        check_name(call, config)
        check_namespace(call, config)
        self._warn_unknown(call, config)
        config = views.stored(call.kind, writes_subresource(call, config))
        layout, writer = self.layout(call.kind), self.writer(call)

        def make(current: StoredEntry | None) -> Object:
            base = {"metadata": {}} if call.kind.is_custom else empty(layout)
            if current is None and call.subresource:
                raise not_found(call.kind, call.name)
            live = current.obj if current else base
            force = call.flag("force")
            return bodies.copied(
                views.served(call.kind, applied(layout, live, config, writer, force))
            )

        written = await self.modify(call, make, creates=not call.subresource, applies=True)
        return await self.answer(call, written.entry, 201 if written.created else 200)

    async def _create_applied(self, call: ApiCall, obj: Object) -> StoredEntry:
        """A create whose managed fields the apply has already written."""
        kind = call.kind
        if obj["metadata"].get("uid"):
            raise conflict(
                kind,
                call.name,
                f"uid mismatch: the provided object specified uid "
                f"{obj['metadata']['uid']}, and no existing object was found",
            )
        request = self.request(call, "create")
        obj = views.stored(kind, obj)
        self.decode(request, obj)
        prepare_create(kind, obj, call.namespace, new_uid(self._rand), self.clock.now_s())
        obj = await self.pipeline.defaulted(request, None, obj)
        obj = await self.pipeline.mutated(request, None, obj)
        await self.pipeline.checked(request, None, obj)
        key = (call.namespace if kind.namespaced else "", call.name)
        if self.store.entry(kind.storage, key) is not None:
            raise already_exists(kind, call.name)
        return self._store_entry(call, kind, key, obj, None)

    def request(self, call: ApiCall, verb: str) -> WriteRequest:
        return WriteRequest(
            verb,
            call.kind,
            call.namespace if call.kind.namespaced else "",
            call.name,
            call.user,
            self.store,
            call.subresource,
            call.dry_run,
            dict(call.query),
            call.warnings,
            new_uid(self._rand),
            is_named=call.verb != "create",
        )

    def writer(self, call: ApiCall) -> FieldWriter:
        agent = call.headers.get("user-agent", "").split("/", 1)[0] or "unknown"
        manager = call.query.get("fieldManager") or agent[:128]
        written_through = call.subresource_written or call.subresource
        ignored = frozenset({"f:status"}) if has_status_subresource(call) else frozenset()
        return FieldWriter(
            manager, call.kind.api_version, written_through, self.clock.now_s(), ignored
        )

    def decode(self, request: WriteRequest, obj: Object) -> None:
        """Unknown fields are dropped, warned about or refused by `fieldValidation`."""
        schema = request.kind.schema
        if schema is None:
            return
        try:
            if request.kind.renames:
                unknown = _pruned_as_stored(self.layout(_STORED_EVENT), obj)
            else:
                unknown = schema.prune(obj)
            if request.kind.is_custom:
                found: list[str] = []
                decode(builtin(OBJECT_META), obj["metadata"], found)
                unknown = [*(f"metadata.{path}" for path in found), *unknown]
        except ApiRefusal as refused:
            raise bad_request(unreadable(request.kind, refused.message)) from None
        if unknown:
            report_unknown(request, unknown)

    def _warn_unknown(self, call: ApiCall, config: Object) -> None:
        probe = bodies.copied(config)
        if call.kind.schema is None or call.kind.renames:
            return
        unknown = call.kind.schema.prune(probe)
        if unknown:
            request = self.request(call, "update")
            report_unknown(request, unknown)

    def _patched(self, kind: ServedKind, current: Object, media: str, body: object) -> Object:
        whole = {"apiVersion": kind.api_version, "kind": kind.kind, **views.served(kind, current)}
        if media == JSON_PATCH:
            patched = json_patch(whole, body)
        elif media == MERGE_PATCH:
            patched = merge_patch(whole, body)
        else:
            patched = strategic_merge_patch(whole, body, self.layout(kind))
        if not isinstance(patched, dict) or not isinstance(patched.get("metadata"), dict):
            raise bad_request("the patch leaves no object")
        patched = dict(patched)
        bodies.check_type(kind, patched)
        return patched

    def _store_entry(
        self,
        call: ApiCall,
        kind: ServedKind,
        key: tuple[str, str],
        obj: Object,
        current: StoredEntry | None,
    ) -> StoredEntry:
        if call.dry_run:
            meta = dict(obj["metadata"])
            if current is not None:
                meta["resourceVersion"] = current.obj["metadata"]["resourceVersion"]
            return StoredEntry(key, 0, {**obj, "metadata": meta})
        return self.store.write(kind.storage, key, obj, current)


def warned(call: ApiCall) -> dict[str, str]:
    """Headers with the warnings that the steps left."""
    if not call.warnings:
        return JSON
    escaped = (text.replace("\\", "\\\\").replace('"', '\\"') for text in call.warnings)
    return {**JSON, "warning": ", ".join(f'299 - "{text}"' for text in escaped)}


_STORED_EVENT = ServedKind("", "v1", "events", "Event", definition="io.k8s.api.core.v1.Event")


def _pruned_as_stored(layout: Layout, obj: Object) -> list[str]:
    unknown: list[str] = []
    decode(layout, obj, unknown)
    return unknown
