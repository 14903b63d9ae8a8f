"""Versioned objects: one counter, one sorted table per storage, one bounded log of changes each.

Stored objects are never changed in place; a write replaces the `StoredEntry`. An entry holds its
encoded bytes, so that a list, a watch event and the answer to the write encode it once. The log has
the entry before and after each change: watches read forward from a version, and a list as of an
earlier version undoes what came later. What has left the log is compacted: asking for it is `Gone`.

The store is used from one event loop and never waits; a `StoreJournal` brings writes to a disk too.
"""

import asyncio
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from muster.sim.apiserver.kinds import Object

Key = tuple[str, str]  # namespace ("" when cluster-wide), name

_encode = msgspec.json.Encoder().encode
_TURN = 64  # writes after which others get a turn


class StoredEntry:
    """One version of one object. `body` is its JSON without `kind` and `apiVersion`."""

    __slots__ = ("_body", "key", "obj", "version")

    def __init__(self, key: Key, version: int, obj: Object, body: bytes | None = None) -> None:
        self.key = key
        self.version = version
        self.obj = obj
        self._body = body

    @property
    def body(self) -> bytes:
        if self._body is None:
            self._body = _encode(self.obj)
        return self._body


@dataclass(slots=True, eq=False)
class Change:
    """One write. `rendered` keeps the watch lines made of it, by (event type, api version, kind).

    `after` is None for a delete; `last` is then the object as watchers see it go.
    """

    version: int
    key: Key
    before: StoredEntry | None
    after: StoredEntry | None
    last: StoredEntry | None = None
    rendered: dict[tuple[str, str, str], bytes] = field(default_factory=dict)


class StoreJournal(Protocol):
    """Where writes become durable. `sync` returns when all that was noted so far is on disk."""

    def note(self, storage: str, key: Key, version: int, body: bytes | None) -> None: ...

    async def sync(self) -> None: ...


class Compacted(Exception):
    """The requested version has been compacted."""

    def __init__(self, version: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {version} ({oldest})")
        self.version = version
        self.oldest = oldest


class VersionChanged(Exception):
    """Somebody else wrote the object in between."""


class StoreTable:
    """All objects of one storage."""

    def __init__(self, start: int, log_length: int) -> None:
        self.entries: dict[Key, StoredEntry] = {}
        self.keys: list[Key] = []
        self.log: list[Change] = []
        self.first = 0  # number of changes that have left the log
        self.compacted = start  # changes up to this version have left the log
        self._log_length = log_length
        # In the order in which they came: a set would wake them by their addresses.
        self._waiters: dict[asyncio.Future[None], None] = {}

    def put(self, key: Key, entry: StoredEntry | None, version: int) -> Change:
        before = self.entries.get(key)
        if entry is None:
            del self.entries[key]
            del self.keys[bisect_left(self.keys, key)]
        else:
            if before is None:
                insort(self.keys, key)
            self.entries[key] = entry
        change = Change(version, key, before, entry)
        self.log.append(change)
        if len(self.log) > 2 * self._log_length:
            self.compact(self.log[len(self.log) - self._log_length - 1].version)
        self.wake()
        return change

    def compact(self, version: int) -> None:
        """Forget the changes up to this version."""
        count = self._index_after(version)
        self.first += count
        del self.log[:count]
        self.compacted = max(self.compacted, version)

    def position_after(self, version: int) -> int:
        """Where a watch from that version starts reading; raises `Compacted`."""
        if version < self.compacted:
            raise Compacted(version, self.compacted + 1)
        return self.first + self._index_after(version)

    def since(self, position: int) -> Sequence[Change]:
        if position < self.first:
            raise Compacted(0, self.compacted + 1)
        return self.log[position - self.first :] if position > self.first else list(self.log)

    def range(self, namespace: str) -> list[Key]:
        if not namespace:
            return self.keys
        low = bisect_left(self.keys, (namespace, ""))
        high = bisect_left(self.keys, (namespace + "\0", ""))
        return self.keys[low:high]

    def as_of(self, version: int) -> dict[Key, StoredEntry]:
        """The entries as they were; raises `Compacted`."""
        if version < self.compacted:
            raise Compacted(version, self.compacted + 1)
        found = dict(self.entries)
        for change in reversed(self.log[self._index_after(version) :]):
            if change.before is None:
                found.pop(change.key, None)
            else:
                found[change.key] = change.before
        return found

    def waiter(self) -> "asyncio.Future[None]":
        """A future that is done at the next change."""
        future = asyncio.get_running_loop().create_future()
        self._waiters[future] = None
        return future

    def forget(self, future: "asyncio.Future[None]") -> None:
        self._waiters.pop(future, None)

    def wake(self) -> None:
        waiters, self._waiters = self._waiters, {}
        for future in waiters:
            if not future.done():
                future.set_result(None)

    def _index_after(self, version: int) -> int:
        low, high = 0, len(self.log)
        while low < high:
            middle = (low + high) // 2
            if self.log[middle].version <= version:
                low = middle + 1
            else:
                high = middle
        return low


class Store:
    """All tables under one version counter."""

    def __init__(
        self, journal: StoreJournal | None = None, start: int = 1, log_length: int = 10_000
    ) -> None:
        self.version = start
        self.journal = journal
        # Told of every change as it happens, before anybody else can act on it.
        self.on_change: Callable[[str, Change], None] | None = None
        self._tables: dict[str, StoreTable] = {}
        self._start = start
        self._log_length = log_length

    def table(self, storage: str) -> StoreTable:
        found = self._tables.get(storage)
        if found is None:
            found = self._tables[storage] = StoreTable(self._start, self._log_length)
        return found

    def load(self, storage: str, entries: Iterable[StoredEntry]) -> None:
        """Fill a table from a journal; nothing is logged or sent to watches."""
        table = self.table(storage)
        for entry in entries:
            table.entries[entry.key] = entry
        table.keys = sorted(table.entries)

    def entry(self, storage: str, key: Key) -> StoredEntry | None:
        table = self._tables.get(storage)
        return table.entries.get(key) if table else None

    def write(
        self, storage: str, key: Key, obj: Object, expected: StoredEntry | None
    ) -> StoredEntry:
        """Store `obj` as the next version; raises `VersionChanged` unless `expected` is stored.

        The object's resourceVersion is set here and the object must not be changed afterwards.
        """
        table = self.table(storage)
        if table.entries.get(key) is not expected:
            raise VersionChanged
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        entry = StoredEntry(key, self.version, obj)
        if self.journal is not None:
            self.journal.note(storage, key, self.version, entry.body)
        change = table.put(key, entry, self.version)
        if self.on_change is not None:
            self.on_change(storage, change)
        return entry

    def remove(self, storage: str, key: Key, expected: StoredEntry, last: Object) -> StoredEntry:
        """Delete an object; `last` is how watchers see it go."""
        table = self.table(storage)
        if table.entries.get(key) is not expected:
            raise VersionChanged
        self.version += 1
        last["metadata"] = last["metadata"] | {"resourceVersion": str(self.version)}
        gone = StoredEntry(key, self.version, last)
        if self.journal is not None:
            self.journal.note(storage, key, self.version, None)
        change = table.put(key, None, self.version)
        change.last = gone
        if self.on_change is not None:
            self.on_change(storage, change)
        return gone

    # The Reader protocol of the pipeline.

    def get(self, storage: str, namespace: str, name: str) -> Object | None:
        entry = self.entry(storage, (namespace, name))
        return entry.obj if entry else None

    def list(self, storage: str, namespace: str = "") -> Sequence[Object]:
        table = self.table(storage)
        return [table.entries[key].obj for key in table.range(namespace)]

    def storages(self) -> Iterator[str]:
        return iter(sorted(self._tables))

    async def sync(self) -> None:
        """Returns when everything written so far is durable."""
        if self.journal is not None:
            await self.journal.sync()
        elif self.version % _TURN == 0:
            # In memory nothing ever waits: let watchers read before the log runs away from them.
            await asyncio.sleep(0)
