"""So many writes at once, and plans take turns.

The writes of a large plan may take minutes at the rate that the API server grants. What a later
plan decided does not wait behind all of them: of the plans that have writes left each gets one turn
after the other. Who is asked by the server to wait does so without a turn (`until_unthrottled`).
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from muster.base.clock import Clock
from muster.services.scheduler.refusals import Refused

_THROTTLED_S_MAX = 60.0
"""For how long, in all, a write waits for a server that has too much to do."""


class WriteTurns:
    """Grants turns: `async with turns.turn(plan): ...`"""

    def __init__(self, at_once: int) -> None:
        self._free = at_once
        self._lines: OrderedDict[int, deque[asyncio.Future[None]]] = OrderedDict()
        """Who waits, by plan; the plan whose turn is next stands first."""

    @asynccontextmanager
    async def turn(self, plan: int) -> AsyncIterator[None]:
        await self._wait(plan)
        try:
            yield
        finally:
            self._free += 1
            self._grant()

    async def until_unthrottled(
        self, plan: int, clock: Clock, write: Callable[[], Awaitable[Refused | None]]
    ) -> Refused | None:
        """Write in a turn of `plan`; again, in another, where the server asks to come later."""
        left_s = _THROTTLED_S_MAX
        while True:
            async with self.turn(plan):
                refused = await write()
            if refused is None or not 0 < refused.retry_after_s <= left_s:
                return refused
            left_s -= refused.retry_after_s
            await clock.sleep(refused.retry_after_s)

    async def _wait(self, plan: int) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lines.setdefault(plan, deque()).append(turn)
        self._grant()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                # Granted in the same step in which we were cancelled: hand it on.
                self._free += 1
                self._grant()
            raise

    def _grant(self) -> None:
        while self._free and self._lines:
            plan, line = next(iter(self._lines.items()))
            turn = line.popleft()
            if line:
                self._lines.move_to_end(plan)
            else:
                del self._lines[plan]
            if not turn.done():  # else whoever waited was cancelled
                self._free -= 1
                turn.set_result(None)
