"""Timers by key: one action each, run by a bounded number of workers, retried until it works.

Times are the event loop's, so that under virtual time waiting costs nothing. A thing that fails
because the server says no for now, or is away, is tried again with growing pauses.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable

from muster.base.backoff import Backoff
from muster.base.log import Log
from muster.client.errors import ApiError, NotFound, Unreachable

Action = Callable[[], Awaitable[None]]

_RETRY = Backoff(first_s=0.2, factor=2.0, longest_s=30.0)


class TimerQueue:
    """Timers by key."""

    def __init__(self, log: Log, workers: int = 64) -> None:
        self._log = log
        self._workers = asyncio.Semaphore(workers)
        self._timers: dict[Hashable, asyncio.TimerHandle] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._failures: dict[Hashable, int] = {}

    def schedule(self, key: Hashable, delay_s: float, action: Action) -> None:
        """Do `action` after a while; the key's earlier timer is cancelled."""
        self.cancel(key)
        loop = asyncio.get_running_loop()
        self._timers[key] = loop.call_later(max(delay_s, 0.0), self._start, key, action)

    def cancel(self, key: Hashable) -> None:
        """Cancel the key's timer. What has begun goes on."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    def __contains__(self, key: Hashable) -> bool:
        return key in self._timers

    async def close(self) -> None:
        for key in list(self._timers):
            self.cancel(key)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, key: Hashable, action: Action) -> None:
        self._timers.pop(key, None)
        task = asyncio.get_running_loop().create_task(self._run(key, action))
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    async def _run(self, key: Hashable, action: Action) -> None:
        try:
            async with self._workers:
                await action()
        except NotFound:
            # What it was about is gone: nothing is left to do.
            self._failures.pop(key, None)
        except (ApiError, Unreachable) as error:
            failures = self._failures[key] = self._failures.get(key, 0) + 1
            self._log.debug("timer action requeued", about=str(key), error=str(error))
            if key not in self._timers:
                self.schedule(key, _RETRY.delay_s(failures), action)
        except Exception as error:  # noqa: BLE001 - one object must not stop the others
            self._failures.pop(key, None)
            self._log.error("timer action failed", about=str(key), error=repr(error))
        else:
            self._failures.pop(key, None)
