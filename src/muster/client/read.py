"""get, list and watch.

One stored object that cannot be read never hides the others: a list or a watch reports it as
`SetAside` and goes on. A list is read in pages, each decoded and dropped before the next, so that
memory follows the structs we keep and not the JSON that came.
"""

import asyncio
import gc
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Any, Generic, TypeVar

import msgspec

from muster.client.connection import Call, Connection, Retry
from muster.client.errors import Gone, Interrupted, Unreadable, stream_error
from muster.client.kinds import Key, Kind
from muster.client.limits import Lane
from muster.client.transport import Request, Response

T = TypeVar("T")

PAGE_SIZE = 2000


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects of a kind: one namespace or all, by labels, by fields."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""

    def query(self) -> list[tuple[str, str]]:
        pairs = (("labelSelector", self.labels), ("fieldSelector", self.fields))
        return [(name, value) for name, value in pairs if value]


EVERYTHING = Selection()


@dataclass(frozen=True, slots=True)
class SetAside:
    """A stored object that does not fit its type: which one, and what is wrong with it."""

    key: Key
    uid: str
    resource_version: str
    problem: str


@dataclass(slots=True)
class Listing(Generic[T]):
    """All objects of a selection as of one resource version."""

    items: list[T] = field(default_factory=list)
    set_aside: list[SetAside] = field(default_factory=list)
    resource_version: str = ""


class Change(Enum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True)
class Changed(Generic[T]):
    """One object came, changed or went."""

    change: Change
    object: T


@dataclass(frozen=True, slots=True)
class ChangedUnreadable:
    """The same, of an object that we cannot read."""

    change: Change
    object: SetAside


@dataclass(frozen=True, slots=True)
class Bookmark:
    """Nothing changed up to this resource version."""

    resource_version: str


WatchEvent = Changed[T] | ChangedUnreadable | Bookmark


class Reader:
    """Reads objects of any kind over one connection."""

    def __init__(self, connection: Connection, page_size: int = PAGE_SIZE) -> None:
        self.connection = connection
        self._page_size = page_size

    async def get(self, kind: Kind[T], key: Key, *, subresource: str = "") -> T:
        request = Request("GET", kind.path(key.namespace, key.name, subresource))
        body = await self.connection.call(request, Call("get", str(kind), retry=Retry.READ))
        try:
            return kind.read(body)
        except msgspec.DecodeError as error:
            raise Unreadable(f"{kind} {key}: {error}") from error

    async def list(self, kind: Kind[T], selection: Selection = EVERYTHING) -> Listing[T]:
        """Every object, of one consistent moment.

        When the moment is forgotten by the server between two pages we start again, and the last
        time we ask for everything in one page, which cannot expire.
        """
        for page_size in (self._page_size, self._page_size, 0):
            try:
                return await self._pages(kind, selection, page_size)
            except Gone:
                if page_size == 0:
                    raise
        raise AssertionError("unreachable: the last round returns or raises")

    async def watch(
        self,
        kind: Kind[T],
        selection: Selection = EVERYTHING,
        *,
        resource_version: str,
        timeout_s: float = 300.0,
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """Changes after `resource_version`, in order, until the server ends the stream.

        Raises `Gone` when the version is too old and `Interrupted` when the stream breaks, also in
        the middle of an event. Close it (`contextlib.aclosing`) to let go of the connection.
        """
        query = [
            *selection.query(),
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", resource_version),
            ("timeoutSeconds", str(round(timeout_s))),
        ]
        request = Request("GET", kind.path(selection.namespace), query)
        response = await self.connection.stream(request, Call("watch", str(kind)))
        try:
            # The server ends the watch at `timeout_s`; silence beyond that is a dead peer.
            chunks = _chunks(response, timeout_s + 30.0, f"watch of {kind}")
            async for line in _lines(chunks, f"watch of {kind}"):
                yield watch_event(kind, line)
        finally:
            await response.close()

    async def _pages(self, kind: Kind[T], selection: Selection, page_size: int) -> Listing[T]:
        found: Listing[T] = Listing()
        token = ""
        while True:
            page, token = await self._page(kind, selection, page_size, token)
            found.items += page.items
            found.set_aside += page.set_aside
            found.resource_version = page.resource_version
            if not token:
                return found

    async def _page(
        self, kind: Kind[T], selection: Selection, page_size: int, token: str
    ) -> tuple[Listing[T], str]:
        query = selection.query()
        if page_size:
            query.append(("limit", str(page_size)))
        if token:
            query.append(("continue", token))
        request = Request("GET", kind.path(selection.namespace), query)
        call = Call("list", str(kind), Lane.NORMAL, Retry.READ, timeout_s=120.0)
        body = await self.connection.call(request, call)
        with _no_garbage_collection():
            return list_page(kind, body)


def list_page(kind: Kind[T], body: bytes) -> tuple[Listing[T], str]:
    """One page of a list, and the token of the next (empty: there is none)."""
    try:
        whole = _list_decoder(kind).decode(body)
    except msgspec.ValidationError:
        return _list_page_by_item(kind, body)
    except msgspec.DecodeError as error:
        raise Unreadable(f"list of {kind}: {error}") from error
    page = Listing(whole.items or [], [], whole.metadata.resource_version)
    return page, whole.metadata.continue_token


def watch_event(kind: Kind[T], line: bytes) -> WatchEvent[T]:
    """One line of a watch."""
    try:
        event = _event_decoder(kind).decode(line)
        change = _CHANGES.get(event.type)
        if change is not None:
            return Changed(change, event.object)
    except msgspec.ValidationError:
        pass
    except msgspec.DecodeError as error:
        raise Interrupted(f"watch of {kind}: not an event: {error}") from error
    return _unusual_event(kind, line)


class _ListMeta(msgspec.Struct):
    resource_version: str = msgspec.field(default="", name="resourceVersion")
    continue_token: str = msgspec.field(default="", name="continue")


class _ListBody(msgspec.Struct, Generic[T]):
    metadata: _ListMeta
    items: list[T] | None = None


class _Event(msgspec.Struct, Generic[T]):
    type: str
    object: T


class _Meta(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _MetaOnly(msgspec.Struct):
    metadata: _Meta


_META_ONLY = msgspec.json.Decoder(_MetaOnly)
_RAW_EVENT = msgspec.json.Decoder(_Event[msgspec.Raw])
_RAW_LIST = msgspec.json.Decoder(_ListBody[msgspec.Raw])
_CHANGES = {change.value: change for change in Change}


@lru_cache(maxsize=256)
def _list_decoder(kind: Kind[Any]) -> msgspec.json.Decoder[_ListBody[Any]]:
    return msgspec.json.Decoder(_ListBody[kind.type])  # type: ignore[name-defined]


@lru_cache(maxsize=256)
def _event_decoder(kind: Kind[Any]) -> msgspec.json.Decoder[_Event[Any]]:
    return msgspec.json.Decoder(_Event[kind.type])  # type: ignore[name-defined]


def _list_page_by_item(kind: Kind[T], body: bytes) -> tuple[Listing[T], str]:
    """The slow way, taken only when some item of the page does not fit its type."""
    try:
        whole = _RAW_LIST.decode(body)
    except msgspec.DecodeError as error:
        raise Unreadable(f"list of {kind}: {error}") from error
    page: Listing[T] = Listing(resource_version=whole.metadata.resource_version)
    for raw in whole.items or ():
        try:
            page.items.append(kind.read(raw))
        except msgspec.DecodeError as error:
            page.set_aside.append(_set_aside(kind, raw, error))
    return page, whole.metadata.continue_token


def _unusual_event(kind: Kind[T], line: bytes) -> WatchEvent[T]:
    """Bookmarks, errors, and objects that do not fit their type."""
    try:
        event = _RAW_EVENT.decode(line)
    except msgspec.DecodeError as error:
        raise Interrupted(f"watch of {kind}: not an event: {error}") from error
    if event.type == "BOOKMARK":
        return Bookmark(_META_ONLY.decode(event.object).metadata.resource_version)
    if event.type == "ERROR":
        raise stream_error(bytes(event.object), f"watch of {kind}")
    change = _CHANGES.get(event.type)
    if change is None:
        raise Interrupted(f"watch of {kind}: unknown type of event {event.type!r}")
    try:
        return Changed(change, kind.read(event.object))
    except msgspec.DecodeError as error:
        return ChangedUnreadable(change, _set_aside(kind, event.object, error))


def _set_aside(kind: Kind[T], raw: msgspec.Raw, error: msgspec.DecodeError) -> SetAside:
    try:
        meta = _META_ONLY.decode(raw).metadata
    except msgspec.DecodeError:
        raise Unreadable(f"{kind}: an object without readable metadata: {error}") from error
    return SetAside(Key(meta.namespace, meta.name), meta.uid, meta.resource_version, str(error))


async def _chunks(response: Response, silence_s: float, what: str) -> AsyncIterator[bytes]:
    chunks = response.chunks()
    while True:
        try:
            async with asyncio.timeout(silence_s):
                chunk = await anext(chunks)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise Interrupted(f"{what}: not a word for {silence_s:.0f} s") from None
        yield chunk


async def _lines(chunks: AsyncIterator[bytes], what: str) -> AsyncIterator[bytes]:
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n") if rest else chunk.split(b"\n")
        for line in lines:
            if line:
                yield line
    if rest.strip():
        raise Interrupted(f"{what}: the stream broke in the middle of an event")


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Thousands of new objects and no garbage: collecting in between only costs time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
