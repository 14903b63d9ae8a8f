"""How fast we may call the server, and who goes first when not everybody can.

A token bucket bounds calls per second, slots bound calls in flight. Waiting calls go by lane, then
in the order they came. Leader election never waits: a lease that expires in our own queue would
stop the whole service.
"""

import asyncio
import heapq
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import IntEnum

from muster.base.clock import Clock


class Lane(IntEnum):
    """Who goes first: the lower number."""

    LEASE = 0  # leader election; not limited at all
    URGENT = 1  # what a user's pod waits for: bindings, evictions
    NORMAL = 2
    BACKGROUND = 3  # what may be late or lost: events, reports


@dataclass(frozen=True, slots=True)
class Limits:
    """Calls per second on average, how many at once after a quiet time, and how many in flight."""

    per_s: float = 50.0
    burst: int = 300
    in_flight: int = 64

    def __post_init__(self) -> None:
        if self.per_s <= 0 or self.burst < 1 or self.in_flight < 1:
            raise ValueError(f"limits must be positive: {self}")


UNLIMITED = Limits(per_s=1e9, burst=1_000_000_000, in_flight=64)


class Limiter:
    """Grants turns under `Limits`: `async with limiter.turn(Lane.URGENT): ...`"""

    def __init__(self, clock: Clock, limits: Limits = UNLIMITED) -> None:
        self._clock = clock
        self._limits = limits
        self._tokens = float(limits.burst)
        self._filled_s = clock.monotonic_s()
        self._in_flight = 0
        self._order = itertools.count()
        self._waiting: list[tuple[Lane, int, asyncio.Future[None]]] = []
        self._refill: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def turn(self, lane: Lane) -> AsyncIterator[None]:
        if lane is Lane.LEASE:
            yield
            return
        await self._wait(lane)
        try:
            yield
        finally:
            self._in_flight -= 1
            self._admit()

    def waiting(self) -> int:
        return sum(not turn.done() for _, _, turn in self._waiting)

    async def _wait(self, lane: Lane) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (lane, next(self._order), turn))
        self._admit()
        if turn.done():
            return
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                # Granted in the same step in which we were cancelled: hand it on.
                self._in_flight -= 1
                self._admit()
            raise

    def _admit(self) -> None:
        """Grant a turn to everybody for whom there is a token and a slot."""
        now_s = self._clock.monotonic_s()
        earned = (now_s - self._filled_s) * self._limits.per_s
        self._tokens = min(self._tokens + earned, float(self._limits.burst))
        self._filled_s = now_s
        while self._waiting and self._in_flight < self._limits.in_flight:
            if self._waiting[0][2].done():
                heapq.heappop(self._waiting)
                continue
            if self._tokens < 1.0:
                self._admit_later()
                return
            _, _, turn = heapq.heappop(self._waiting)
            self._tokens -= 1.0
            self._in_flight += 1
            turn.set_result(None)

    def _admit_later(self) -> None:
        if self._refill is None or self._refill.done():
            self._refill = asyncio.get_running_loop().create_task(self._wait_for_token())

    async def _wait_for_token(self) -> None:
        # The small extra keeps rounding from waking us a hair too early, again and again.
        await self._clock.sleep((1.0 - self._tokens) / self._limits.per_s + 1e-6)
        self._refill = None
        self._admit()
