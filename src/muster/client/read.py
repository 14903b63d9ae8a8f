"""get, list and watch.

One stored object that cannot be read never hides the others: a list or a watch reports it as
`Reject` and goes on. A list is read in pages, each decoded and dropped before the next, so that
memory follows the structs we keep and not the JSON that came.
"""

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from muster.api.codec import (
    Bookmark,
    Changed,
    Failure,
    Page,
    Reject,
    Unread,
    Unreadable,
    decode,
    decode_event,
    decode_page,
    early_continue_token,
)
from muster.api.kinds import Kind
from muster.api.meta import Key
from muster.base.gc_pause import gc_paused
from muster.client.connection import Call, Connection, Retry
from muster.client.errors import BadObject, Gone, Interrupted, Silent, status_error
from muster.client.kinds import header, object_path
from muster.client.limits import Lane
from muster.client.transport import Request, Response

T = TypeVar("T")

PAGE_SIZE = 2000
_PART_SIZE = 40
"""Objects of a page that are taken in at once; in between, what has come of the next is read."""
_STEPS_TO_SEND = 3
"""Turns of the event loop after which a request on an open connection has been written."""
CHANGES = frozenset({"ADDED", "MODIFIED", "DELETED"})


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


@dataclass(slots=True)
class Listing(Generic[T]):
    """All objects of a selection as of one resource version; rejects are those we cannot read."""

    objects: list[T] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    resource_version: str = ""


# What a watch tells: an object changed (as we can read it, or not), or nothing did.
WatchEvent = Changed[T] | Unread | Bookmark

# What to remember of an object: itself, or a smaller one with all that its reader looks at.
# Raises `Unreadable` where it looks closer than whoever decoded the object.
Transform = Callable[[T], T]
OnPage = Callable[[Sequence[T], int], None]
"""Told the objects of a page, and how many come after it as far as the server says."""


class Reader:
    """Reads objects of any kind over one connection."""

    def __init__(self, connection: Connection, page_size: int = PAGE_SIZE) -> None:
        self.connection = connection
        self._page_size = page_size

    async def get(self, kind: Kind[T], key: Key, *, lane: Lane = Lane.NORMAL) -> T:
        request = Request("GET", object_path(kind, key))
        call = Call("get", kind.full_name, lane, Retry.READ, patience_s=5.0)
        body = await self.connection.call(request, call)
        try:
            found = decode(kind.struct, body)
        except Unreadable as error:
            raise BadObject(f"{kind.full_name} {key}: {error}") from error
        if header(found).key.name != key.name:
            raise BadObject(f"{kind.full_name} {key}: the answer is something else")
        return found

    async def list(
        self,
        kind: Kind[T],
        selection: Selection = EVERYTHING,
        transform: Transform[T] | None = None,
        on_page: OnPage[T] = lambda _objects, _remaining: None,
    ) -> Listing[T]:
        """Every object, of one resource version, each as `transform` returns it.

        `on_page` is shown the objects of each page, part by part, while the server makes the next
        and what it sends is taken in. When the moment is forgotten by the server between two pages
        we start again, and the last time we ask for everything in one page, which cannot expire.
        """
        for page_size in (self._page_size, self._page_size, 0):
            try:
                return await self._pages(kind, selection, page_size, transform, on_page)
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
        silence_s: Callable[[], float] = lambda: math.inf,
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """Changes after `resource_version`, in order, until the server ends the stream.

        Raises `Gone` when the version is too old and `Interrupted` when the stream breaks, also in
        the middle of an event; `Silent` when there was not a word for `silence_s()`, which is asked
        after each. Close it (`contextlib.aclosing`) to let go of the connection.
        """
        query = [
            *selection.query(),
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", resource_version),
            ("timeoutSeconds", str(round(timeout_s))),
        ]
        request = Request("GET", kind.path(selection.namespace), query)
        response = await self.connection.stream(request, Call("watch", kind.full_name, Lane.URGENT))
        try:
            # The server ends the watch at `timeout_s`; silence beyond that is a dead peer.
            what = f"watch of {kind.full_name}"

            def patience() -> float:
                return min(timeout_s + 30.0, silence_s())

            # Closed here: what is left to the garbage collector ends at some other moment.
            async with (
                aclosing(_chunks(response, patience, what)) as chunks,
                aclosing(_lines(chunks, what)) as lines,
            ):
                async for line in lines:
                    yield watch_event(kind, line)
        finally:
            await response.close()

    async def _pages(
        self,
        kind: Kind[T],
        selection: Selection,
        page_size: int,
        transform: Transform[T] | None,
        on_page: OnPage[T],
    ) -> Listing[T]:
        found: Listing[T] = Listing()
        token = ""
        ahead: asyncio.Task[bytes] | None = None
        try:
            while True:
                body = await (ahead or self._page(kind, selection, page_size, token))
                ahead = await self._prefetch(kind, selection, page_size, body)
                page = _decoded_page(kind, body)
                for at in range(0, len(page.objects), _PART_SIZE):
                    part = _transformed(page.objects[at : at + _PART_SIZE], transform)
                    left = len(page.objects) - at - _PART_SIZE
                    on_page(part.objects, page.remaining + max(left, 0))
                    found.objects += part.objects
                    found.rejects += part.rejects
                    if ahead is not None and not ahead.done():
                        await asyncio.sleep(0)  # Take in what has come, or the server has to wait.
                found.rejects += page.rejects
                found.resource_version = page.resource_version
                token = page.continue_token
                if not token:
                    return found
        finally:
            if ahead is not None:
                ahead.cancel()

    async def _prefetch(
        self, kind: Kind[T], selection: Selection, page_size: int, body: bytes
    ) -> asyncio.Task[bytes] | None:
        """The page after `body`, on its way: the server makes it while we decode this one."""
        token = early_continue_token(body)
        if not token:
            return None
        task = asyncio.create_task(self._page(kind, selection, page_size, token))
        for _ in range(_STEPS_TO_SEND):
            await asyncio.sleep(0)
        return task

    async def _page(self, kind: Kind[T], selection: Selection, page_size: int, token: str) -> bytes:
        query = selection.query()
        if page_size:
            query.append(("limit", str(page_size)))
        if token:
            query.append(("continue", token))
        request = Request("GET", kind.path(selection.namespace), query)
        # A list that is given up begins anew with its first page: it had better wait.
        call = Call(
            "list", kind.full_name, Lane.URGENT, Retry.READ, timeout_s=120.0, patience_s=60.0
        )
        return await self.connection.call(request, call)


def _decoded_page(kind: Kind[T], body: bytes) -> Page[T]:
    # Thousands of new objects and no garbage: collecting in between only costs time.
    with gc_paused():
        try:
            page = decode_page(kind.struct, body)
        except Unreadable as error:
            raise BadObject(f"list of {kind.full_name}: {error}") from error
    # Whatever else is answered with success has no items, and would pass for a list of nothing.
    is_list = page.kind.endswith("List") and page.api_version == kind.api_version
    if not is_list and (page.kind or not page.resource_version):
        said = f"{page.kind or 'nothing'} of {page.api_version or 'no version'}"
        raise BadObject(f"list of {kind.full_name}: the answer is {said}")
    return page


def _transformed(objects: Sequence[T], transform: Transform[T] | None) -> Listing[T]:
    if transform is None:
        return Listing(list(objects))
    with gc_paused():
        with suppress(Unreadable):
            return Listing(list(map(transform, objects)))
        found: Listing[T] = Listing()
        for obj in objects:
            transformed = transformed_object(obj, transform)
            if isinstance(transformed, Reject):
                found.rejects.append(transformed)
            else:
                found.objects.append(transformed)
        return found


def transformed_object(obj: T, transform: Transform[T]) -> T | Reject:
    try:
        return transform(obj)
    except Unreadable as error:
        meta = header(obj)
        return Reject(meta.key, error.path, error.reason, meta.resource_version, meta.uid)


def watch_event(kind: Kind[T], line: bytes) -> WatchEvent[T]:
    """One line of a watch; raises what the server says instead of an event."""
    try:
        event = decode_event(kind.struct, line)
    except Unreadable as error:
        raise Interrupted(f"watch of {kind.full_name}: not an event: {error}") from error
    if isinstance(event, Failure):
        raise status_error(event.status, f"watch of {kind.full_name}")
    if isinstance(event, Changed) and not header(event.object).key.name:
        raise Interrupted(f"watch of {kind.full_name}: an event about nothing that has a name")
    if not isinstance(event, Bookmark) and event.type not in CHANGES:
        raise Interrupted(f"watch of {kind.full_name}: unknown type of event {event.type!r}")
    return event


async def _chunks(
    response: Response, silence_s: Callable[[], float], what: str
) -> AsyncGenerator[bytes, None]:
    async with aclosing(response.chunks()) as chunks:
        while True:
            patience_s = silence_s()
            try:
                async with asyncio.timeout(patience_s):
                    chunk = await anext(chunks)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise Silent(f"{what}: not a word for {patience_s:.0f} s") from None
            yield chunk


async def _lines(chunks: AsyncIterator[bytes], what: str) -> AsyncGenerator[bytes, None]:
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n") if rest else chunk.split(b"\n")
        for line in lines:
            if line:
                yield line
    if rest.strip():
        raise Interrupted(f"{what}: the stream broke in the middle of an event")
