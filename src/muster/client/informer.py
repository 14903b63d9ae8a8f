"""A local copy of one selection of objects, fed by a reflector, with indexes and handlers.

Handlers hear every change once and in order, after the store and its indexes have it. An object
that cannot be read is set aside: its last readable version stays (a queue does not vanish because
somebody mistyped its quota), it is named to the `on_set_aside` listeners, and it comes back by
itself when it is mended. Nothing that one object or one handler does stops the others; a handler
that failed is told again (`handlers.py`).
"""

import asyncio
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from types import MappingProxyType
from typing import Generic, TypeVar

from muster.api.codec import Changed, Reject, Unread
from muster.api.kinds import Kind
from muster.api.meta import Key
from muster.base.gc_pause import gc_paused
from muster.base.log import Log
from muster.client.handlers import Handler, Handlers
from muster.client.kinds import Header, header
from muster.client.read import (
    EVERYTHING,
    Listing,
    Reader,
    Selection,
    Transform,
)
from muster.client.reflector import Delta, Reflector

T = TypeVar("T")
V = TypeVar("V", bound=Hashable)

# Called when an object is set aside, and with None when it can be read again or is gone.
SetAsideListener = Callable[[Key, Reject | None], None]


class Index(Generic[T, V]):
    """Objects by some value of theirs; one object may stand under several values, or none."""

    def __init__(self, values_of: Callable[[T], Iterable[V]]) -> None:
        self._values_of = values_of
        self._objects: dict[V, dict[Key, T]] = {}

    def get(self, value: V) -> list[T]:
        return list(self._objects.get(value, {}).values())

    def values(self) -> Iterator[V]:
        return iter(self._objects)

    def _move(self, key: Key, old: T | None, new: T | None) -> None:
        if old is not None:
            for value in self._values_of(old):
                under = self._objects.get(value, {})
                under.pop(key, None)
                if not under:
                    self._objects.pop(value, None)
        if new is not None:
            for value in self._values_of(new):
                self._objects.setdefault(value, {})[key] = new


class Informer(Generic[T]):
    """The objects of one selection, as of now, and a way to hear of every change."""

    def __init__(
        self,
        reader: Reader,
        kind: Kind[T],
        selection: Selection = EVERYTHING,
        *,
        log: Log,
        transform: Transform[T] | None = None,
        is_optional: bool = False,
    ) -> None:
        """`is_optional`: while the server does not know the kind, there are no such objects."""
        self.kind = kind
        self.clock = reader.connection.clock
        self.reflector = Reflector(
            reader,
            kind,
            selection,
            log=log,
            transform=transform,
            on_page=self._foresee,
            is_optional=is_optional,
        )
        self.expected = 0
        """How many objects the first list will have, as far as the server has said."""
        self.on_set_aside: list[SetAsideListener] = []
        self._log = log
        self._objects: dict[Key, T] = {}
        self._set_aside: dict[Key, Reject] = {}
        self._indexes: list[Index[T, Hashable]] = []
        self._handlers = Handlers(reader, kind, self._objects.get, log)
        self._synced = asyncio.Event()

    async def run(self) -> None:
        """Follow the server until cancelled."""
        telling_again = asyncio.create_task(self._handlers.run())
        try:
            async with aclosing(self.reflector.deltas()) as deltas:
                async for delta in deltas:
                    self._apply(delta)
        finally:
            telling_again.cancel()
            await asyncio.gather(telling_again, return_exceptions=True)

    @property
    def has_synced(self) -> bool:
        """Whether the first list has been taken in and told to every handler."""
        return self._synced.is_set()

    @property
    def is_served(self) -> bool:
        """Whether the server knows the kind. While it does not, there are no such objects."""
        return self.reflector.is_served

    async def synced(self) -> None:
        await self._synced.wait()

    @property
    def objects(self) -> Mapping[Key, T]:
        """All that is known now: a live view; copy it before you await."""
        return MappingProxyType(self._objects)

    @property
    def set_aside(self) -> Mapping[Key, Reject]:
        """The objects whose stored version cannot be read, and what is wrong with each."""
        return MappingProxyType(self._set_aside)

    @property
    def out_of_step(self) -> Collection[Key]:
        """The objects that some handler failed to take in as they are."""
        return self._handlers.behind

    @property
    def handler_failures(self) -> int:
        return self._handlers.failures

    def get(self, key: Key) -> T | None:
        return self._objects.get(key)

    def add_handler(self, handler: Handler[T]) -> None:
        """Tell `handler` of every object now, and of every change from now on."""
        self._handlers.add(handler)
        for key, obj in list(self._objects.items()):
            self._handlers.tell(handler, key, None, obj)

    def add_index(self, values_of: Callable[[T], Iterable[V]]) -> Index[T, V]:
        index: Index[T, V] = Index(values_of)
        self._indexes.append(index)  # type: ignore[arg-type]
        for key, obj in self._objects.items():
            index._move(key, None, obj)
        return index

    def _apply(self, delta: Delta[T]) -> None:
        match delta:
            case Listing():
                with gc_paused():
                    self._replace(delta)
            case Changed(change, obj):
                key = header(obj).key
                self._mended(key)
                self._put(key, None if change == "DELETED" else obj)
            case Unread("DELETED", reject):
                self._mended(reject.key)
                self._put(reject.key, None)
            case Unread(_, reject):
                self._set_aside_object(reject)

    def _foresee(self, objects: Sequence[T], remaining: int) -> None:
        """Take in a page of the first list while the server makes the next.

        Nobody acts on it before the list is complete; what is not in the end, because it had to be
        begun again, goes then.
        """
        if self.has_synced:
            return
        with gc_paused():
            for obj in objects:
                found = header(obj)
                if found != self._header(found.key):
                    self._put(found.key, obj)
        self.expected = len(self._objects) + remaining

    def _header(self, key: Key) -> Header | None:
        known = self._objects.get(key)
        return None if known is None else header(known)

    def _replace(self, listing: Listing[T]) -> None:
        """Tell the difference between what we had and what there is, deletions first."""
        found = {header(obj).key: obj for obj in listing.objects}
        unreadable = {reject.key: reject for reject in listing.rejects}
        for key in [key for key in self._objects if key not in found and key not in unreadable]:
            self._put(key, None)
        for key in [key for key in self._set_aside if key not in unreadable]:
            self._mended(key)
        for key, obj in found.items():
            if self._objects.get(key) is not obj and self._header(key) != header(obj):
                self._put(key, obj)
        for reject in unreadable.values():
            self._set_aside_object(reject)
        if not self._synced.is_set():
            self._log.info("synced", kind=self.kind.full_name, objects=len(self._objects))
            self._synced.set()

    def _put(self, key: Key, new: T | None) -> None:
        old = self._objects.get(key)
        if old is not None and new is not None and header(old).uid != header(new).uid:
            # Deleted and made anew while we were not looking: two objects, two stories.
            self._put(key, None)
            old = None
        if new is None:
            if self._objects.pop(key, None) is None:
                return
        else:
            self._objects[key] = new
        for index in self._indexes:
            index._move(key, old, new)
        self._handlers.tell_all(key, old, new)

    def _set_aside_object(self, reject: Reject) -> None:
        if self._set_aside.get(reject.key) == reject:
            return
        self._set_aside[reject.key] = reject
        known = self._objects.get(reject.key)
        if known is not None and header(known).uid != reject.uid:
            self._put(reject.key, None)
        self._log.warning(
            "object set aside",
            kind=self.kind.full_name,
            key=str(reject.key),
            at=reject.path,
            problem=reject.reason,
        )
        for listener in self.on_set_aside:
            listener(reject.key, reject)

    def _mended(self, key: Key) -> None:
        if self._set_aside.pop(key, None) is None:
            return
        self._log.info("object no longer set aside", kind=self.kind.full_name, key=str(key))
        for listener in self.on_set_aside:
            listener(key, None)
