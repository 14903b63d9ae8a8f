"""Work that takes long, kept off the event loop.

Whoever calculates takes an `Offload`. Production hands in `in_thread`; under virtual time, where
there are no threads, `inline` does the same work in the same order each time.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Offload(Protocol):
    """Does some work and gives its result. The work may run in another thread: it reads nothing
    that somebody else changes.
    """

    async def __call__(self, work: Callable[[], T]) -> T: ...


async def inline(work: Callable[[], T]) -> T:
    """Here and now."""
    return work()


async def in_thread(work: Callable[[], T]) -> T:
    """In a thread of its own. Whoever is cancelled no longer waits for it; nor does the process
    when it ends, because nothing that the thread still calculates has anybody who would use it.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[T] = loop.create_future()

    def tell(how: Callable[[Any], None], what: object) -> None:
        if not ended.done():
            how(what)

    def run() -> None:
        try:
            outcome: tuple[Callable[[Any], None], object] = (ended.set_result, work())
        except StopIteration as error:  # which no future may hold
            outcome = (ended.set_exception, RuntimeError(repr(error)))
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            outcome = (ended.set_exception, error)
        with suppress(RuntimeError):  # The loop has been closed meanwhile.
            loop.call_soon_threadsafe(tell, *outcome)

    threading.Thread(target=run, name="offloaded", daemon=True).start()
    return await ended
