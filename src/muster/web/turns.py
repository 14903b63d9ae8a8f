"""Whose question is next: one at a time, and readers by turns.

A reader with many questions waits for itself: whoever asks one is behind at most one of each other
reader. Nobody may have so many waiting that others find no room.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

ALL_MAX: Final = 32
READER_MAX: Final = 8


class TooBusy(Exception):
    """More is asked than can be answered."""


class Turns:
    """Who asks, and who waits to."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        """By reader; the next one first."""
        self._asked: dict[str, int] = {}
        """By reader: questions that wait or are being answered."""
        self._is_taken = False

    @asynccontextmanager
    async def turn(self, reader: str) -> AsyncIterator[None]:
        """Begins when it is this question's turn. Raises `TooBusy`."""
        self._enter(reader)
        try:
            await self._come(reader)
            try:
                yield
            finally:
                self._pass_on()
        finally:
            self._leave(reader)

    def _enter(self, reader: str) -> None:
        own, all_ = self._asked.get(reader, 0), sum(self._asked.values())
        if own >= READER_MAX:
            raise TooBusy(f"{own} questions of yours are waiting already: ask again in a second")
        if all_ >= ALL_MAX:
            raise TooBusy(f"{all_} questions are waiting already: ask again in a second")
        self._asked[reader] = own + 1

    def _leave(self, reader: str) -> None:
        self._asked[reader] -= 1
        if not self._asked[reader]:
            del self._asked[reader]

    async def _come(self, reader: str) -> None:
        if not self._is_taken:
            self._is_taken = True
            return
        called = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(reader, deque()).append(called)
        try:
            await called
        except asyncio.CancelledError:
            if called.done() and not called.cancelled():
                self._pass_on()  # it was called, and went away just then
            raise

    def _pass_on(self) -> None:
        """To the next reader, who comes last from then on."""
        while self._waiting:
            reader, own = self._waiting.popitem(last=False)
            called = own.popleft()
            if own:
                self._waiting[reader] = own
            if not called.done():
                called.set_result(None)
                return
        self._is_taken = False
