"""How fast we may call the server, and who goes first when not everybody can.

A token bucket bounds calls per second, slots bound calls in flight. Waiting calls go by lane, then
in the order they came; but lanes age: of every few turns one goes to whoever has waited longest in
the lanes behind, so that no burst of urgent calls keeps the others waiting for as long as it lasts.
Leader election never waits: a lease that expires in our own queue would stop the whole service.

While urgent calls are under way, few of those in the background are: each costs the server time for
which pods wait. But they begin no later, and who has aged is let through.

Reads and writes have a limiter each (`connection.py`): what keeps us informed does not wait behind
what we have to say.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from muster.base.clock import Clock

LONG_S: Final = 2.0
"""A call, or work that waits for calls, that lasts longer goes on beside whoever began it: webhooks
may take half a minute for each write of a namespace."""


class Lane(IntEnum):
    """Who goes first: the lower number."""

    LEASE = 0  # leader election; not limited at all
    URGENT = 1  # what a user's pod waits for: bindings, evictions; among reads: lists, watches
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


_PATIENCE_S = 2.0
"""Who has waited for so long has aged."""
_AGED_EVERY = 5
"""One of so many turns is for those in the lanes behind who have aged, if anybody has."""


_BESIDE_URGENT = {Lane.BACKGROUND: 3}
"""So many calls of these lanes are under way beside urgent ones."""
_NO_BOUNDS: Mapping[Lane, int] = {}


@dataclass(frozen=True, slots=True)
class _Waiter:
    since_s: float
    turn: asyncio.Future[None]


class _Turn:
    """Every call takes one: a class of its own costs less than a generator."""

    __slots__ = ("_lane", "_limiter")

    def __init__(self, limiter: "Limiter", lane: Lane) -> None:
        self._limiter = limiter
        self._lane = lane

    async def __aenter__(self) -> None:
        await self._limiter.begin(self._lane)

    async def __aexit__(self, *_: object) -> None:
        self._limiter.end(self._lane)


class Limiter:
    """Grants turns under `Limits`: `async with limiter.turn(Lane.URGENT): ...`"""

    def __init__(
        self, clock: Clock, limits: Limits = UNLIMITED, yields_to_urgent: bool = False
    ) -> None:
        """`yields_to_urgent`: few calls of other lanes are under way beside urgent ones."""
        self._beside_urgent = _BESIDE_URGENT if yields_to_urgent else _NO_BOUNDS
        self._clock = clock
        self._limits = limits
        self._tokens = float(limits.burst)
        self._filled_s = clock.monotonic_s()
        self._in_flight = 0
        self._of_lane = dict.fromkeys(Lane, 0)
        """In flight, by lane."""
        self._granted = 0
        self._waiting: dict[Lane, deque[_Waiter]] = {lane: deque() for lane in Lane}
        self._refill: asyncio.Task[None] | None = None
        self._ageing: asyncio.Task[None] | None = None

    def turn(self, lane: Lane) -> "_Turn":
        return _Turn(self, lane)

    async def begin(self, lane: Lane) -> None:
        """Returns with a turn, which is to be given back by `end`."""
        if lane is not Lane.LEASE:
            await self._wait(lane)

    def end(self, lane: Lane) -> None:
        if lane is not Lane.LEASE:
            self._give_back(lane)

    def waiting(self) -> int:
        return sum(not one.turn.done() for lane in self._waiting.values() for one in lane)

    async def _wait(self, lane: Lane) -> None:
        is_free = self._in_flight < self._limits.in_flight and not self._must_yield(lane)
        if is_free and not any(self._waiting.values()):
            self._earn()
            if self._tokens >= 1.0:
                self._take(lane)
                return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[lane].append(_Waiter(self._clock.monotonic_s(), turn))
        self._admit()
        if turn.done():
            return
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                # Granted in the same step in which we were cancelled: hand it on.
                self._give_back(lane)
            raise

    def _admit(self) -> None:
        """Grant a turn to everybody for whom there is a token and a slot."""
        if not any(self._waiting.values()):
            return
        now_s = self._earn()
        while self._in_flight < self._limits.in_flight:
            lane = self._next_lane(now_s)
            if lane is None:
                if any(self._waiting.values()):
                    self._admit_aged()
                return
            if self._tokens < 1.0:
                self._admit_later()
                return
            self._take(lane)
            self._waiting[lane].popleft().turn.set_result(None)

    def _earn(self) -> float:
        """Count the tokens of the time that has passed; what time it is now."""
        now_s = self._clock.monotonic_s()
        earned = (now_s - self._filled_s) * self._limits.per_s
        self._tokens = min(self._tokens + earned, float(self._limits.burst))
        self._filled_s = now_s
        return now_s

    def _take(self, lane: Lane) -> None:
        self._granted += 1
        self._tokens -= 1.0
        self._in_flight += 1
        self._of_lane[lane] += 1

    def _give_back(self, lane: Lane) -> None:
        self._in_flight -= 1
        self._of_lane[lane] -= 1
        self._admit()

    def _must_yield(self, lane: Lane) -> bool:
        """Whether as many calls of a lane are under way as may be beside urgent ones."""
        most = self._beside_urgent.get(lane)
        if most is None or not self._of_lane[Lane.URGENT]:
            return False
        return self._of_lane[lane] >= most

    def _next_lane(self, now_s: float) -> Lane | None:
        """The lane whose first is next; None when nobody may go."""
        for waiting in self._waiting.values():
            while waiting and waiting[0].turn.done():  # cancelled
                waiting.popleft()
        since_s = {lane: waiting[0].since_s for lane, waiting in self._waiting.items() if waiting}
        aged = [lane for lane in since_s if now_s - since_s[lane] >= _PATIENCE_S]
        free = [lane for lane in since_s if lane in aged or not self._must_yield(lane)]
        if not free:
            return None
        behind = [lane for lane in aged if lane is not free[0]]
        if behind and self._granted % _AGED_EVERY == 0:
            return min(behind, key=since_s.__getitem__)
        return free[0]

    def _admit_later(self) -> None:
        if self._refill is None or self._refill.done():
            self._refill = asyncio.get_running_loop().create_task(self._wait_for_token())

    def _admit_aged(self) -> None:
        """Whoever yields now goes when he has aged, whether anybody else comes or ends or not."""
        if self._ageing is None or self._ageing.done():
            self._ageing = asyncio.get_running_loop().create_task(self._wait_for_age())

    async def _wait_for_age(self) -> None:
        await self._clock.sleep(_PATIENCE_S)
        self._ageing = None
        self._admit()

    async def _wait_for_token(self) -> None:
        # The small extra keeps rounding from waking us a hair too early, again and again.
        await self._clock.sleep((1.0 - self._tokens) / self._limits.per_s + 1e-6)
        self._refill = None
        self._admit()
