"""Work that takes long, kept off the event loop.

Whoever calculates takes an `Offload`. Production hands in `in_thread`; under virtual time, where
there are no threads, `inline` does the same work in the same order each time.
"""

import asyncio
import atexit
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

from muster.base.clock import SystemClock

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
    """In a thread of its own. Whoever is cancelled no longer waits for it, for nobody would use
    what it still calculates; only the process waits a little when it ends: compiled code that runs
    on while Python takes itself down is code whose memory goes.
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

    thread = threading.Thread(target=run, name="offloaded", daemon=True)
    _threads.add(thread)
    thread.start()
    return await ended


_threads: WeakSet[threading.Thread] = WeakSet()
_ENDING_S = 3.0
"""A cycle, or a kernel of it, is over by then; what hangs does not hold the process."""


@atexit.register
def _let_threads_end() -> None:
    clock = SystemClock()
    deadline_s = clock.monotonic_s() + _ENDING_S
    for thread in list(_threads):
        thread.join(max(deadline_s - clock.monotonic_s(), 0.0))
