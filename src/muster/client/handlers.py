"""Tells handlers of changes, and tells again those that failed.

A handler that raises has not taken the change in, or only half of it: what it keeps differs from
the server. That is counted, said once for each object, and the object is read again after a growing
pause; as soon as the server has what we have, the handler is told anew, as one that last heard of
the version before. This ends when the handler succeeds, or when the object has gone and the handler
was told so often enough. Objects are read one at a time with a pause in between, however many
handlers fail for however many objects.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from muster.api.kinds import Kind
from muster.api.meta import Key
from muster.base.backoff import Backoff
from muster.base.log import Log
from muster.client.errors import described
from muster.client.kinds import header
from muster.client.read import Reader

T = TypeVar("T")

# Called with (old, new): no old is an addition, no new a deletion.
Handler = Callable[[T | None, T | None], None]

_BACKOFF = Backoff(first_s=1.0, longest_s=300.0)
_PAUSE_S = 0.1
_TOLD_OF_AN_END_MAX = 10


@dataclass(slots=True)
class _Behind(Generic[T]):
    """One handler that has not taken in what became of one object."""

    handler: Handler[T]
    key: Key
    took: T | None
    """The version that it last took in."""
    due_s: float = 0.0
    failures: int = 0
    attempts: int = 0


class Handlers(Generic[T]):
    """The handlers of one local copy; `stored` is what the copy has of an object now."""

    def __init__(
        self, reader: Reader, kind: Kind[T], stored: Callable[[Key], T | None], log: Log
    ) -> None:
        self.failures = 0
        """How often a handler failed, since the start."""
        self._reader = reader
        self._clock = reader.connection.clock
        self._kind = kind
        self._stored = stored
        self._log = log
        self._handlers: list[Handler[T]] = []
        self._behind: dict[tuple[int, Key], _Behind[T]] = {}
        self._wanted = asyncio.Event()

    def add(self, handler: Handler[T]) -> None:
        self._handlers.append(handler)

    @property
    def behind(self) -> set[Key]:
        """The objects that some handler has not taken in as they are."""
        return {key for _, key in self._behind}

    def tell_all(self, key: Key, old: T | None, new: T | None) -> None:
        for handler in self._handlers:
            self.tell(handler, key, old, new)

    def tell(self, handler: Handler[T], key: Key, old: T | None, new: T | None) -> None:
        """Tell one of them, whatever comes of it for that one."""
        behind = self._behind.get((id(handler), key))
        took = old if behind is None else behind.took
        if took is None and new is None:
            took = old  # It failed to add the object, and may have half of it.
        try:
            if took is not None and new is not None and header(took).uid != header(new).uid:
                handler(took, None)
                took = None
            handler(took, new)
        except Exception as error:  # noqa: BLE001 - one handler must not stop the others
            self._failed(behind or _Behind(handler, key, took), took, error)
        else:
            if self._behind.pop((id(handler), key), None) is not None:
                self._log.info("handler caught up", kind=self._kind.full_name, key=str(key))

    async def run(self) -> None:
        """Tell again those that failed, until cancelled."""
        while True:
            await self._wanted.wait()
            while self._behind:
                soonest = min(self._behind.values(), key=lambda one: one.due_s)
                await self._clock.sleep(max(soonest.due_s - self._clock.monotonic_s(), _PAUSE_S))
                if self._is_behind(soonest):
                    await self._tell_again(soonest)
            self._wanted.clear()

    async def _tell_again(self, behind: _Behind[T]) -> None:
        behind.attempts += 1
        behind.due_s = self._clock.monotonic_s() + _BACKOFF.delay_s(behind.attempts)
        key = behind.key
        if self._stored(key) is not None and not await self._is_current(key):
            return  # The watch is about to bring what the server has.
        if not self._is_behind(behind):
            return
        now = self._stored(key)
        if now is None and (behind.took is None or behind.attempts > _TOLD_OF_AN_END_MAX):
            del self._behind[id(behind.handler), key]
            return
        self.tell(behind.handler, key, behind.took, now)

    async def _is_current(self, key: Key) -> bool:
        """Whether the server has what we have."""
        try:
            read = await self._reader.get(self._kind, key)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is tried again
            said = described(error)
            self._log.debug("not read again", kind=self._kind.full_name, key=str(key), error=said)
            return False
        stored = self._stored(key)
        return stored is not None and header(stored) == header(read)

    def _is_behind(self, behind: _Behind[T]) -> bool:
        return self._behind.get((id(behind.handler), behind.key)) is behind

    def _failed(self, behind: _Behind[T], took: T | None, error: Exception) -> None:
        self.failures += 1
        behind.failures += 1
        behind.took = took
        if behind.failures == 1:
            behind.due_s = self._clock.monotonic_s() + _BACKOFF.delay_s(1)
            self._behind[id(behind.handler), behind.key] = behind
            self._wanted.set()
            self._log.error(
                "handler failed",
                kind=self._kind.full_name,
                key=str(behind.key),
                handler=getattr(behind.handler, "__qualname__", repr(behind.handler)),
                error=described(error),
            )
