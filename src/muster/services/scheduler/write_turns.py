"""So many writes at once, and plans take turns.

The writes of a large plan may take minutes at the rate that the API server grants. What a later
plan decided does not wait behind all of them: of the plans that have writes left each gets one turn
after the other. Who is asked by the server to wait does so without a turn (`until_unthrottled`). A
write that takes long goes on without one too, and in its namespace the next waits for its end.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass

from muster.base.clock import Clock
from muster.client.limits import LONG_S
from muster.services.scheduler.refusals import Refused
from muster.services.scheduler.slow_namespaces import SlowNamespaces

Write = Callable[[], Coroutine[None, None, Refused | None]]

_THROTTLED_S_MAX = 60.0
"""For how long, in all, a write waits for a server that has too much to do."""


@dataclass(slots=True)
class _Turn:
    """What a write holds until it has ended, or lasts long."""

    is_held: bool = True
    was_long: bool = False


class WriteTurns:
    """Grants turns to write."""

    def __init__(self, at_once: int) -> None:
        self._free = at_once
        self._lines: OrderedDict[int, deque[asyncio.Future[None]]] = OrderedDict()
        """Who waits, by plan; the plan whose turn is next stands first."""
        self._slow: SlowNamespaces[asyncio.Future[None]] = SlowNamespaces()

    async def until_unthrottled(
        self, plan: int, namespace: str, clock: Clock, write: Write
    ) -> Refused | None:
        """Write in a turn of `plan`; again, in another, where the server asks to come later."""
        left_s = _THROTTLED_S_MAX
        while True:
            refused = await self._written(plan, namespace, write)
            if refused is None or not 0 < refused.retry_after_s <= left_s:
                return refused
            left_s -= refused.retry_after_s
            await clock.sleep(refused.retry_after_s)

    async def _written(self, plan: int, namespace: str, write: Write) -> Refused | None:
        """Write in a turn of `plan`, and go on without it where that takes long."""
        while True:
            freed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            await self._wait(plan)
            turn = _Turn()
            try:
                if self._slow.begins(namespace, freed):
                    return await self._begun(namespace, write, turn)
            finally:
                self._give_back(turn)
            await freed

    async def _begun(self, namespace: str, write: Write, turn: _Turn) -> Refused | None:
        loop = asyncio.get_running_loop()
        # In a task of its own: of those that begin together, none sees another's end before.
        writing = loop.create_task(write())
        late = loop.call_later(LONG_S, self._lasts_long, namespace, turn)
        try:
            return await writing
        finally:
            late.cancel()
            writing.cancel()
            for freed in self._slow.ended(namespace, turn.was_long):
                if not freed.done():
                    freed.set_result(None)

    def _lasts_long(self, namespace: str, turn: _Turn) -> None:
        turn.was_long = True
        self._slow.lasts_long(namespace)
        self._give_back(turn)

    def _give_back(self, turn: _Turn) -> None:
        if turn.is_held:
            turn.is_held = False
            self._free += 1
            self._grant()

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
