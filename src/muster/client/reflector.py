"""list + watch -> a stream of deltas that never loses, repeats or reorders a change.

A dropped watch resumes from the last version seen, so that nothing is listed again; only when the
server has forgotten that version (410) is there a new list. Trouble of any kind is waited out with
growing, jittered pauses: the stream ends only when its reader closes it.

A watch may go deaf: the connection stays open, to a server or a load balancer that is no longer
there. A server that sends bookmarks says something every minute; after some minutes of silence it
is asked anew, from the last version seen.
"""

import math
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Generic, TypeVar

from muster.api.codec import Bookmark, Changed, Reject, Unread
from muster.api.kinds import Kind
from muster.base.backoff import Backoff
from muster.base.clock import Clock
from muster.base.log import Log
from muster.base.rand import Rand
from muster.client.errors import (
    AWAY_S_MAX,
    Gone,
    Interrupted,
    NotFound,
    Silent,
    Timeout,
    asked_wait_s,
    described,
    is_away,
)
from muster.client.kinds import header
from muster.client.read import (
    EVERYTHING,
    Listing,
    OnPage,
    Reader,
    Selection,
    Transform,
    WatchEvent,
    transformed_object,
)

T = TypeVar("T")

# A listing replaces all that came before it.
Delta = Listing[T] | Changed[T] | Unread

# How long a watch lasts, and how long to wait after trouble.
_WATCH_S = 450.0
_BACKOFF = Backoff(first_s=0.5, longest_s=30.0)

# Kubernetes sends a bookmark every minute. One that came so soon after something else is not the
# one that only announces the end of a watch.
_BEAT_S_MAX = 100.0
_SILENCE_S_MAX = 150.0


class Reflector(Generic[T]):
    """Follows one selection of one kind."""

    def __init__(
        self,
        reader: Reader,
        kind: Kind[T],
        selection: Selection = EVERYTHING,
        *,
        log: Log,
        transform: Transform[T] | None = None,
        on_page: OnPage[T] = lambda _objects, _remaining: None,
        is_optional: bool = False,
    ) -> None:
        self.kind = kind
        self.selection = selection
        self.trouble: Exception | None = None
        self._trouble_since_s = 0.0
        self._heard_s: float | None = None
        """When the server last said something."""
        self.lists = 0
        self.watches = 0
        self.is_served = True
        """Whether the server knows the kind; only an optional one may be unknown."""
        self._reader = reader
        self._clock: Clock = reader.connection.clock
        self._rand: Rand = reader.connection.rand
        self._log = log
        self._transform = transform
        self._on_page = on_page
        self._is_optional = is_optional
        self._version = ""
        self._failures = 0
        self._forgotten = 0
        self._has_beat = False
        """Whether the server was heard to send bookmarks when there is nothing else to say."""

    @property
    def resource_version(self) -> str:
        """The version up to which everything has been told; empty before the first list."""
        return self._version

    @property
    def trouble_s(self) -> float:
        """For how long listing and watching have failed without a break; 0 when all is well."""
        if self.trouble is None:
            return 0.0
        return self._clock.monotonic_s() - self._trouble_since_s

    @property
    def news_age_s(self) -> float:
        """How long ago the server last said something, were it only that nothing changed; 0 before
        it said anything, and where it does not know the kind."""
        if self._heard_s is None or not self.is_served:
            return 0.0
        return self._clock.monotonic_s() - self._heard_s

    async def deltas(self) -> AsyncGenerator[Delta[T], None]:
        """First a listing, then changes; again a listing when changes may have been missed."""
        while True:
            try:
                if not self._version:
                    listing = await self._list()
                    yield listing
                    self._version = listing.resource_version
                async with aclosing(self._watch()) as changes:
                    async for change in changes:
                        yield change
            except Exception as error:  # noqa: BLE001 - what cannot be read now may be later
                if self._is_optional and isinstance(error, NotFound):
                    self._version = ""
                    if self.is_served:
                        self.is_served = False
                        self._failures = 0
                        self._log.info("kind not served, doing without", kind=self.kind.full_name)
                    yield Listing()
                    await self._wait_for_kind()
                else:
                    await self._wait_out(error)

    async def _list(self) -> Listing[T]:
        self.lists += 1
        listing = await self._reader.list(self.kind, self.selection, self._transform, self._on_page)
        self._heard_s = self._clock.monotonic_s()
        self._recovered()
        if not self.is_served:
            self.is_served = True
            self._log.info("kind is served now", kind=self.kind.full_name)
        return listing

    async def _wait_for_kind(self) -> None:
        """A CRD may come, or come back."""
        self._failures += 1
        delay_s = _BACKOFF.delay_s(self._failures)
        await self._clock.sleep(self._rand.jittered(delay_s, 0.5))

    async def _watch(self) -> AsyncGenerator[Changed[T] | Unread, None]:
        self.watches += 1
        started_s = self._clock.monotonic_s()
        # Jitter keeps the watches of many informers from ending, and starting anew, together.
        watching = self._reader.watch(
            self.kind,
            self.selection,
            resource_version=self._version,
            timeout_s=self._rand.jittered(_WATCH_S, 0.3),
            silence_s=lambda: _SILENCE_S_MAX if self._has_beat else math.inf,
        )
        heard = False
        heard_s = started_s
        async with aclosing(watching) as events:
            async for event in events:
                if not heard:
                    heard = True
                    self._forgotten = 0
                    self._recovered()
                now_s = self._clock.monotonic_s()
                if isinstance(event, Bookmark) and now_s - heard_s <= _BEAT_S_MAX:
                    self._has_beat = True
                heard_s = self._heard_s = now_s
                if not isinstance(event, Bookmark):
                    yield self._transformed(event)
                # Only now: whoever stops reading at `yield` gets this event again.
                self._version = self._version_of(event)
        if not heard and self._clock.monotonic_s() - started_s < 1.0:
            raise Interrupted(f"watch of {self.kind.full_name}: ended at once, without a word")

    def _transformed(self, event: Changed[T] | Unread) -> Changed[T] | Unread:
        if self._transform is None or isinstance(event, Unread):
            return event
        kept = transformed_object(event.object, self._transform)
        if isinstance(kept, Reject):
            return Unread(event.type, kept)
        return Changed(event.type, kept)

    def _version_of(self, event: WatchEvent[T]) -> str:
        match event:
            case Changed():
                return header(event.object).resource_version
            case Unread():
                return event.reject.resource_version
            case Bookmark():
                return event.resource_version

    def _recovered(self) -> None:
        if self.trouble is not None:
            self._log.info(
                "list and watch recovered", kind=self.kind.full_name, after_failures=self._failures
            )
        self.trouble = None
        self._failures = 0

    async def _wait_out(self, error: Exception) -> None:
        self._failures += 1
        if _has_forgotten_us(error):
            await self._start_over(error)
            return
        if isinstance(error, Silent):
            self._has_beat = False  # Unless we hear it again: it may have stopped saying so.
        if self.trouble is None:
            self._trouble_since_s = self._clock.monotonic_s()
        self.trouble = error
        wait_s = self._rand.jittered(_BACKOFF.delay_s(self._failures), 0.5)
        if is_away(error):
            wait_s = min(wait_s, AWAY_S_MAX)
        if asked_s := asked_wait_s(error):
            wait_s = max(asked_s, min(wait_s, 2 * asked_s))  # It says when, so it is there.
        self._log.warning(
            "list or watch failed",
            kind=self.kind.full_name,
            error=described(error),
            retry_after_s=round(wait_s, 1),
        )
        await self._clock.sleep(wait_s)

    async def _start_over(self, error: Exception) -> None:
        """List anew: at once, unless the last list was forgotten before it told us anything."""
        wait_s = self._rand.jittered(_BACKOFF.delay_s(self._forgotten), 0.5)
        self._forgotten += 1
        self._version = ""
        self._log.info(
            "relisting",
            kind=self.kind.full_name,
            error=str(error),
            in_s=round(wait_s, 1),
        )
        await self._clock.sleep(wait_s)


def _has_forgotten_us(error: Exception) -> bool:
    """Whether our version means nothing to the server: too old, or (restored data) too new."""
    if isinstance(error, Timeout):
        return any(cause.reason == "ResourceVersionTooLarge" for cause in error.causes)
    return isinstance(error, Gone)
