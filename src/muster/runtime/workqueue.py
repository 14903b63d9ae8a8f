"""A queue of keys that need work: each at most once, some later, failing ones ever later.

A key that is added while it is being worked on is handed out again afterwards, never twice at the
same time: that is what lets several workers share one queue without locks on objects.
"""

import asyncio
import heapq
import itertools
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from muster.base.backoff import Backoff
from muster.base.clock import Clock
from muster.client.errors import AWAY_S_MAX, asked_wait_s, is_away
from muster.client.limits import LONG_S
from muster.runtime.lanes import Lanes

K = TypeVar("K", bound=Hashable)

_BACKOFF = Backoff(first_s=0.005, longest_s=1000.0)


class Closed(Exception):
    """The queue gives out no more work."""


class WorkQueue(Generic[K]):
    """Keys to work on, first come first served."""

    def __init__(self, clock: Clock, backoff: Backoff = _BACKOFF) -> None:
        self.on_added: Callable[[K], None] = lambda _: None
        self.on_waited: Callable[[float], None] = lambda _: None
        self._clock = clock
        self._backoff = backoff
        self._ready: deque[K] = deque()
        self._added_s: dict[K, float] = {}
        self._wanted: set[K] = set()
        self._working: set[K] = set()
        self._failures: dict[K, int] = {}
        self._later: list[tuple[float, int, K]] = []
        self._due_s: dict[K, float] = {}
        self._order = itertools.count()
        self._timer: asyncio.Task[None] | None = None
        self._getters: deque[asyncio.Future[None]] = deque()
        self._closed = False

    def __len__(self) -> int:
        """How many keys could be worked on now."""
        return len(self._ready)

    @property
    def delayed(self) -> int:
        return len(self._due_s)

    @property
    def working(self) -> int:
        return len(self._working)

    def add(self, key: K) -> None:
        """This key needs work."""
        if self._closed or key in self._wanted:
            return
        self._wanted.add(key)
        self._added_s[key] = self._clock.monotonic_s()
        self.on_added(key)
        if key not in self._working:
            self._dispatch(key)

    def add_after(self, key: K, delay_s: float) -> None:
        """It will need work in a while; the earliest of several such times counts."""
        if delay_s <= 0:
            self.add(key)
            return
        due_s = self._clock.monotonic_s() + delay_s
        if self._closed or self._due_s.get(key, float("inf")) <= due_s:
            return
        self._due_s[key] = due_s
        heapq.heappush(self._later, (due_s, next(self._order), key))
        if self._later[0][2] == key:
            self._set_timer()

    def retry(self, key: K, longest_s: float = float("inf"), least_s: float = 0.0) -> float:
        """It failed: again after a pause that grows each time. Returns the pause.

        `least_s` is what somebody asked for: a server that has too much to do.
        """
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        pause_s = max(min(self._backoff.delay_s(failures), longest_s), least_s)
        self.add_after(key, pause_s)
        return pause_s

    def forget(self, key: K) -> None:
        """It succeeded: the next failure is a first one again."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        return self._failures.get(key, 0)

    async def get(self) -> K:
        """The next key to work on; call `done` with it afterwards. Raises `Closed` at the end."""
        while not self._ready:
            if self._closed:
                raise Closed
            getter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                if getter.done() and not getter.cancelled():
                    self._wake_one()
                raise
        key = self._ready.popleft()
        self._wanted.discard(key)
        self._working.add(key)
        self.on_waited(self._clock.monotonic_s() - self._added_s.pop(key))
        return key

    def done(self, key: K) -> None:
        """Work on it has ended; if it was added meanwhile, it is handed out again."""
        self._working.discard(key)
        if key in self._wanted:
            self._dispatch(key)

    def close(self) -> None:
        """Take and give out no more; what is being worked on may still be reported `done`."""
        self._closed = True
        self._ready.clear()
        self._later.clear()
        self._due_s.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._getters:
            self._wake_one()

    def _dispatch(self, key: K) -> None:
        if self._closed:
            return
        self._ready.append(key)
        self._wake_one()

    def _wake_one(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().create_task(self._move_when_due())

    async def _move_when_due(self) -> None:
        while self._later:
            wait_s = self._later[0][0] - self._clock.monotonic_s()
            if wait_s > 0:
                await self._clock.sleep(wait_s)
                continue
            due_s, _, key = heapq.heappop(self._later)
            # An entry that a nearer time has replaced says nothing any more.
            if self._due_s.get(key) == due_s:
                del self._due_s[key]
                self.add(key)
        self._timer = None


def put_back(queue: WorkQueue[K], key: K, error: Exception) -> float:
    """Work on the key failed so: again after a pause, which is returned. While the server is the
    trouble no pause is long, so that work goes on soon after it is back.
    """
    longest_s = AWAY_S_MAX if is_away(error) else float("inf")
    return queue.retry(key, longest_s, asked_wait_s(error))


async def work_off(
    queue: WorkQueue[K],
    workers: int,
    do: Callable[[K], Awaitable[None]],
    lanes: Lanes[K] | None = None,
) -> None:
    """Do what is in the queue, so many keys at once, until it is closed; then end what was begun.

    With `lanes`, work that lasts long goes on beside the workers. What `do` raises ends all of
    them.
    """
    async with asyncio.TaskGroup() as tasks:
        for _ in range(workers):
            work = _work(queue, do) if lanes is None else _begin(queue, do, lanes, tasks)
            tasks.create_task(work)


async def _work(queue: WorkQueue[K], do: Callable[[K], Awaitable[None]]) -> None:
    while True:
        try:
            key = await queue.get()
        except Closed:
            return
        try:
            await do(key)
        finally:
            queue.done(key)
        # The work may wait for nothing, and keys may be many: everybody else gets a turn.
        await asyncio.sleep(0)


async def _begin(
    queue: WorkQueue[K],
    do: Callable[[K], Awaitable[None]],
    lanes: Lanes[K],
    tasks: asyncio.TaskGroup,
) -> None:
    """A worker that waits for what it began, but not for long."""

    async def work(key: K) -> None:
        try:
            await do(key)
        finally:
            queue.done(key)
            for held in lanes.ended(key):
                queue.add(held)

    while True:
        try:
            key = await queue.get()
        except Closed:
            return
        if not lanes.may_begin(key):
            queue.done(key)
            continue
        begun = tasks.create_task(work(key))
        await asyncio.wait((begun,), timeout=LONG_S if lanes.lane_of(key) else None)
        if not begun.done():
            lanes.lasts_long(key)
        await asyncio.sleep(0)
