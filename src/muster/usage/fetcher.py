"""Reads past usage, or real utilisation, again and again, beside the cycles; what was read last is
what they get.

A fetch that fails leaves what was read before. What is older than the staleness period is said to
be stale: in the log once, in a metric at any time, and to whoever must not go by it (`on_stale`).
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

from muster.base.clock import Clock
from muster.base.log import Log
from muster.model.usage import QueueUsage, UsageDatabase
from muster.usage.source import FetchSettings, NoUsage, Reading, Source

S = TypeVar("S", bound=FetchSettings)
R = TypeVar("R", bound=Reading)


class Fetcher(Generic[S, R]):
    """The newest reading, for whoever asks. `configure` may be called at any time."""

    def __init__(self, make: Callable[[S], Source[R] | None], clock: Clock, log: Log) -> None:
        self._make = make
        self._clock = clock
        self._log = log
        self._settings: S | None = None
        self._source: Source[R] | None = None
        self._replaced: list[Source[R]] = []
        self._configured = asyncio.Event()
        self._has_read = asyncio.Event()
        self._newest: R | None = None
        self._was_stale = False
        self.failures = 0
        self.last_fetch_s = 0.0
        """How long the newest fetch took."""
        self.on_reading: Callable[[R | None], None] = lambda _: None
        """Told of every new reading; of None when nothing is read any more."""
        self.on_stale: Callable[[], None] = lambda: None
        self.on_failure: Callable[[], None] = lambda: None

    def configure(self, settings: S | None) -> None:
        """Read by this from now on; None: nothing is read."""
        if settings == self._settings:
            return
        if self._source is not None:
            self._replaced.append(self._source)
        self._settings, self._source, self._newest = settings, None, None
        self._has_read.clear()
        self._configured.set()
        self.on_reading(None)

    @property
    def settings(self) -> S | None:
        return self._settings

    @property
    def newest(self) -> R | None:
        return self._newest

    @property
    def age_s(self) -> float | None:
        """Of what is used; None: nothing is."""
        return None if self._newest is None else self._clock.now_s() - self._newest.at_s

    @property
    def is_stale(self) -> bool:
        """Whether it is wanted, and what there is is too old or is not there."""
        if self._settings is None:
            return False
        age_s = self.age_s
        return age_s is None or age_s > self._settings.staleness_s

    async def run(self) -> None:
        """For ever."""
        try:
            while True:
                self._configured.clear()
                await self._close_replaced()
                if self._settings is not None:
                    await self._fetch(self._settings)
                with suppress(TimeoutError):
                    pause_s = None if self._settings is None else self._settings.fetch_interval_s
                    async with asyncio.timeout(pause_s):
                        await self._configured.wait()
        finally:
            if self._source is not None:
                self._replaced.append(self._source)
                self._source = None
            await self._close_replaced()

    async def _fetch(self, settings: S) -> None:
        started_s = self._clock.monotonic_s()
        try:
            if self._source is None:
                self._source = self._make(settings)
            if self._source is None:
                return
            reading = await self._source.read(self._clock.now_s())
        except NoUsage as error:
            self._failed(str(error))
            return
        except Exception as error:  # noqa: BLE001 - cycles go on without
            self._failed(repr(error))
            return
        if settings is not self._settings:
            return  # Meanwhile something else is wanted.
        self.last_fetch_s = self._clock.monotonic_s() - started_s
        self._newest = reading
        self._say_if_stale()
        self._has_read.set()
        self.on_reading(reading)

    def _failed(self, why: str) -> None:
        self.failures += 1
        self.on_failure()
        self._log.warning("not read", why=why, kept=self._newest is not None)
        self._say_if_stale()

    def _say_if_stale(self) -> None:
        if self.is_stale != self._was_stale:
            self._was_stale = self.is_stale
            if self.is_stale:
                self._log.warning("what is used is stale", age_s=self.age_s)
                self.on_stale()
            else:
                self._log.info("what is used is fresh")

    async def _close_replaced(self) -> None:
        while self._replaced:
            await self._replaced.pop().close()


class UsageFetcher(Fetcher[UsageDatabase, QueueUsage]):
    """Past usage: cycles use it also when it is stale, as in KAI, and the first waits for it."""

    async def first(self) -> None:
        """Returns when there is usage, or when it was waited for long enough: at most the wait
        timeout, and not at all without a source."""
        if self._settings is None:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.wait_timeout_s):
                await self._has_read.wait()
