"""get, list and watch, of any kind."""

import asyncio
import base64
from collections.abc import AsyncIterator
from dataclasses import dataclass

import msgspec

from muster.base.clock import Clock
from muster.base.rand import Rand
from muster.sim.apiserver import views
from muster.sim.apiserver.answers import ApiResponse
from muster.sim.apiserver.kinds import Cause, ServedKind
from muster.sim.apiserver.refusal import ApiRefusal, bad_request, gone, invalid_options, not_found
from muster.sim.apiserver.routes import ApiCall
from muster.sim.apiserver.selectors import Predicate, field_predicate, label_predicate
from muster.sim.apiserver.store import Change, Compacted, Key, Store, StoredEntry, StoreTable
from muster.sim.apiserver.views import ObjectView

_BOOKMARK_EVERY_S = 60.0
_SHORTEST_WATCH_S = 1800


@dataclass(frozen=True, slots=True)
class Filter:
    """What a list or watch selects."""

    namespace: str = ""
    predicates: tuple[Predicate, ...] = ()

    def matches(self, entry: StoredEntry | None) -> bool:
        if entry is None:
            return False
        if self.namespace and entry.key[0] != self.namespace:
            return False
        return all(predicate(entry.obj) for predicate in self.predicates)


class Reads:
    """The reading half of the server."""

    def __init__(self, store: Store, clock: Clock, rand: Rand) -> None:
        self._store = store
        self._clock = clock
        self._rand = rand

    def get(self, call: ApiCall) -> ApiResponse:
        entry = self._store.entry(call.kind.storage, call.key)
        self._require_reached(_version(call.query.get("resourceVersion", "")))
        if entry is None:
            raise not_found(call.kind, call.name)
        return ApiResponse(200, views.one(call.kind, entry, self._view(call)))

    def listing(self, call: ApiCall) -> ApiResponse:
        _check_match(call)
        wanted = _filter(call)
        limit = _integer_param(call, "limit")
        entries, version, start = self._snapshot(call, wanted.namespace, limit)
        matching, following = _page(entries, wanted, start, limit)
        meta: dict[str, object] = {"resourceVersion": str(version)}
        if call.kind.is_custom:
            meta["continue"] = ""
        if following is not None:
            meta["continue"] = _token(version, following)
            if not wanted.predicates:
                left = sum(1 for e in entries if e.key >= following)
                meta["remainingItemCount"] = left
        return ApiResponse(200, views.many(call.kind, matching, meta, self._view(call)))

    def watch(self, call: ApiCall) -> ApiResponse:
        _check_match(call)
        wanted = _filter(call)
        watch = _Watch(self._store, call, wanted, self._view(call))
        timeout_s = _integer_param(call, "timeoutSeconds")
        watch.timeout_s = timeout_s or _SHORTEST_WATCH_S * (1 + self._rand.random())
        return ApiResponse(200, stream=watch.lines())

    def _view(self, call: ApiCall) -> ObjectView:
        form = views.form_of(call.headers.get("accept", ""))
        if not form:
            return views.WHOLE
        return ObjectView(form, call.query.get("includeObject", "Metadata"), self._clock.now_s())

    def _snapshot(
        self, call: ApiCall, namespace: str, limit: int
    ) -> tuple[list[StoredEntry], int, Key | None]:
        """The entries in order, as of which version, and where the page starts."""
        table = self._store.table(call.kind.storage)
        start: Key | None = None
        if token := call.query.get("continue", ""):
            version, start = _untoken(token)
            return self._as_of(table, namespace, version), version, start
        asked = _version(call.query.get("resourceVersion", ""))
        match = call.query.get("resourceVersionMatch", "")
        self._require_reached(asked)
        if asked and (match == "Exact" or (limit and not match)):
            return self._as_of(table, namespace, asked), asked, None
        entries = [table.entries[key] for key in table.range(namespace)]
        return entries, self._store.version, None

    def _as_of(self, table: StoreTable, namespace: str, version: int) -> list[StoredEntry]:
        if version == self._store.version:
            return [table.entries[key] for key in table.range(namespace)]
        try:
            found = table.as_of(version)
        except Compacted:
            raise gone(
                "The provided continue parameter is too old to display a consistent list result. "
                "You can start a new list without the continue parameter."
            ) from None
        return [found[key] for key in sorted(found) if not namespace or key[0] == namespace]

    def _require_reached(self, version: int) -> None:
        if version > self._store.version:
            raise _too_large(version, self._store.version)


class _Watch:
    """One watch: the initial events, if requested, then every change as it comes."""

    def __init__(self, store: Store, call: ApiCall, wanted: Filter, view: ObjectView) -> None:
        self._store = store
        self._kind: ServedKind = call.kind
        self._table = store.table(call.kind.storage)
        self._wanted = wanted
        self._view = view
        self._bookmarks = call.flag("allowWatchBookmarks")
        self.timeout_s = 0.0
        asked = call.query.get("resourceVersion", "")
        self._from = _version(asked)
        self._streams_list = call.flag("sendInitialEvents")
        skips = call.query.get("sendInitialEvents", "") == "false"
        self._initial = self._streams_list or (self._from == 0 and not skips)

    async def lines(self) -> AsyncIterator[bytes]:
        try:
            position = self._start()
        except Compacted as old:
            yield views.failure(gone(str(old)).status)
            return
        if self._initial:
            yield b"".join(self._initial_lines())
        loop = asyncio.get_running_loop()
        end = loop.time() + self.timeout_s
        next_bookmark = loop.time() + _BOOKMARK_EVERY_S
        while True:
            try:
                changes = self._table.since(position)
            except Compacted as old:
                yield views.failure(gone(str(old)).status)
                return
            position += len(changes)
            made = [line for change in changes if (line := self._line(change))]
            if made:
                yield b"".join(made)
                continue
            if loop.time() >= end:
                if self._bookmarks:
                    yield views.bookmark(self._kind, self._store.version, False, self._view)
                return
            if self._bookmarks and loop.time() >= next_bookmark:
                next_bookmark = loop.time() + _BOOKMARK_EVERY_S
                yield views.bookmark(self._kind, self._store.version, False, self._view)
            if not changes:
                await self._wait(min(end, next_bookmark) if self._bookmarks else end)

    def _start(self) -> int:
        if self._initial or self._from > self._store.version or self._from == 0:
            return self._table.first + len(self._table.log)
        return self._table.position_after(self._from)

    def _initial_lines(self) -> list[bytes]:
        table = self._table
        entries = (table.entries[key] for key in table.range(self._wanted.namespace))
        lines = [
            views.line(self._kind, "ADDED", entry, self._view)
            for entry in entries
            if self._wanted.matches(entry)
        ]
        if self._streams_list and self._bookmarks:
            lines.append(views.bookmark(self._kind, self._store.version, True, self._view))
        return lines

    def _line(self, change: Change) -> bytes | None:
        was = self._wanted.matches(change.before)
        now = self._wanted.matches(change.after)
        if now and change.after is not None:
            event = "MODIFIED" if was else "ADDED"
            return views.line(self._kind, event, change.after, self._view, change)
        if not was or change.before is None:
            return None
        if change.last is not None:
            return views.line(self._kind, "DELETED", change.last, self._view, change)
        # It no longer matches: for this watcher it is gone, as it last looked, at this version.
        obj = dict(change.before.obj)
        obj["metadata"] = obj["metadata"] | {"resourceVersion": str(change.version)}
        return views.line(self._kind, "DELETED", StoredEntry(change.key, 0, obj), self._view)

    async def _wait(self, until: float) -> None:
        loop = asyncio.get_running_loop()
        future = self._table.waiter()
        timer = loop.call_at(until, _finish, future)
        try:
            await future
        finally:
            timer.cancel()
            self._table.forget(future)


def _finish(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def selection(call: ApiCall) -> Filter:
    """What the selectors of a call match (for deletecollection too)."""
    return _filter(call)


def _filter(call: ApiCall) -> Filter:
    predicates = (
        label_predicate(call.query.get("labelSelector", "")),
        field_predicate(call.kind, call.query.get("fieldSelector", "")),
    )
    namespace = call.namespace if call.kind.namespaced else ""
    found = tuple(predicate for predicate in predicates if predicate is not None)
    if call.name:
        name = call.name
        found += (lambda obj: obj["metadata"]["name"] == name,)
    return Filter(namespace, found)


def _page(
    entries: list[StoredEntry], wanted: Filter, start: Key | None, limit: int
) -> tuple[list[StoredEntry], Key | None]:
    if start is None and not limit and not wanted.predicates:
        return entries, None
    matching: list[StoredEntry] = []
    for entry in entries:
        if start is not None and entry.key < start:
            continue
        if wanted.matches(entry):
            if limit and len(matching) == limit:
                return matching, entry.key
            matching.append(entry)
    return matching, None


def _token(version: int, start: Key) -> str:
    body = msgspec.json.encode({"v": "meta.k8s.io/v1", "rv": version, "start": list(start)})
    return base64.urlsafe_b64encode(body).decode().rstrip("=")


def _untoken(token: str) -> tuple[int, Key]:
    try:
        body = msgspec.json.decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        namespace, name = body["start"]
        return int(body["rv"]), (str(namespace), str(name))
    except (ValueError, KeyError, TypeError, msgspec.DecodeError):
        text = "invalid continue token: continue key is not valid: not made by this server"
        raise bad_request(text) from None


def _version(text: str) -> int:
    if not text:
        return 0
    if not text.isdigit():
        raise bad_request(
            f'invalid resource version: resourceVersion: Invalid value: "{text}": '
            f'strconv.ParseUint: parsing "{text}": invalid syntax'
        )
    return int(text)


def _integer_param(call: ApiCall, name: str) -> int:
    text = call.query.get(name, "")
    if not text:
        return 0
    try:
        return max(int(text), 0)
    except ValueError:
        raise bad_request(f"{name}: invalid value {text!r}: must be a whole number") from None


def _check_match(call: ApiCall) -> None:
    match = call.query.get("resourceVersionMatch", "")
    version = call.query.get("resourceVersion", "")
    name = "resourceVersionMatch"
    if call.flag("sendInitialEvents") and match != "NotOlderThan":
        raise invalid_options(
            "ListOptions",
            Cause.forbidden(
                name, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            ),
        )
    if not match:
        return
    streaming = "sendInitialEvents" in call.query
    if call.verb == "watch" and not streaming:
        text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        raise invalid_options("ListOptions", Cause.forbidden(name, text))
    if not version and not streaming:
        text = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        raise invalid_options("ListOptions", Cause.forbidden(name, text))
    if call.query.get("continue"):
        text = "resourceVersionMatch is forbidden when continue is provided"
        raise invalid_options("ListOptions", Cause.forbidden(name, text))
    if match not in ("Exact", "NotOlderThan"):
        raise invalid_options(
            "ListOptions", Cause.unsupported(name, match, ("Exact", "NotOlderThan", ""))
        )
    if match == "Exact" and version == "0":
        text = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        raise invalid_options("ListOptions", Cause.forbidden(name, text))


def _too_large(version: int, newest: int) -> ApiRefusal:
    details = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    text = f"Timeout: Too large resource version: {version}, current: {newest}"
    return ApiRefusal(504, "Timeout", text, details)
