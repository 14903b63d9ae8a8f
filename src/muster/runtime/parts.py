"""What a service is made of: parts that run as long as it does."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from enum import IntEnum
from typing import Any, Protocol


class Phase(IntEnum):
    """When a part starts; parts stop in the opposite order."""

    SERVING = 1  # at once, on every replica: health, metrics, webhooks
    SYNCED = 2  # when the local copies are there, on every replica
    LEADING = 3  # only where the lease is held: whatever changes the cluster


class Part(Protocol):
    """Something that runs as long as its service does."""

    @property
    def name(self) -> str: ...

    async def run(self) -> None:
        """Until `stop`, or until cancelled."""
        ...

    def stop(self) -> None:
        """End soon, but finish what has been begun."""
        ...


class PartEnded(Exception):
    """A part ended by itself, which parts never do."""


class Loop:
    """A coroutine that never ends by itself, as a part: it is cancelled when it is to end."""

    def __init__(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        self.name = name
        self._work = work
        self._stopped = asyncio.Event()

    async def run(self) -> None:
        working = asyncio.ensure_future(self._work())
        stopped = asyncio.ensure_future(self._stopped.wait())
        try:
            await asyncio.wait((working, stopped), return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                working.result()
        finally:
            await ended((working, stopped))

    def stop(self) -> None:
        self._stopped.set()


async def ended(tasks: Collection[asyncio.Future[Any]]) -> None:
    """Cancel, and wait until that has happened."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
