"""When the extender is asked: after each cycle while something is open, and anew now and then while
somebody waits, for what it goes by may change unseen. What it says is in the next snapshot.

A server that was given up is left alone for a while.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from muster.base.clock import Clock
from muster.base.log import Log
from muster.base.offload import Offload
from muster.engine.cycle import CycleResult
from muster.engine.plan import Plan
from muster.engine.tiers.plugins import extender as verbs
from muster.model.extender import NO_ANSWERS, ExtenderAnswers, ExtenderSettings
from muster.model.snapshot import ClusterSnapshot
from muster.services.scheduler.extender.payloads import Objects, World
from muster.services.scheduler.extender.round import Round
from muster.services.scheduler.extender.server import Connect, ExtenderServer
from muster.services.scheduler.extender.sheet import Sheet, sheet_of

_LEFT_ALONE_S = 5.0
_ANEW_S = 10.0
_ANEW_FACTOR = 10
"""Everything is asked anew at most so rarely that it takes a tenth of the time."""
_PUBLISH_S = 1.0
_NEWS_MAX = 10_000


class Asker:
    """`configure` and `note` may be called at any time."""

    def __init__(
        self,
        connect: Connect,
        objects: Objects,
        tell: Callable[[ExtenderAnswers | None], None],
        clock: Clock,
        offload: Offload,
        log: Log,
    ) -> None:
        self._connect, self._objects, self._tell = connect, objects, tell
        self._clock, self._offload, self._log = clock, offload, log
        self._settings: ExtenderSettings | None = None
        self._server: ExtenderServer | None = None
        self._replaced: list[ExtenderServer] = []
        self._seen: tuple[ClusterSnapshot, Plan] | None = None
        self._news: deque[tuple[str, str]] = deque(maxlen=_NEWS_MAX)
        self._wake = asyncio.Event()
        self._sheet = Sheet()
        self._anew_at_s = self._published_s = 0.0
        self._last: Round | None = None
        self._was_failing = False

    def configure(self, settings: ExtenderSettings | None) -> None:
        """Ask by this from now on; None: nobody is asked."""
        if settings == self._settings:
            return
        if self._server is not None:
            self._replaced.append(self._server)
        self._settings, self._sheet, self._last = settings, Sheet(), None
        self._server = None if settings is None else self._connect(settings)
        self._news.clear()
        self._tell(None if settings is None else NO_ANSWERS)
        self._wake.set()

    async def note(self, snapshot: ClusterSnapshot, result: CycleResult, now_s: float) -> None:
        """A cycle saw this and decided that."""
        if self._settings is None:
            self._seen = None
            return
        plan = result.plan
        self._seen = (snapshot, plan)
        self._news.extend((verbs.ENQUEUED, job) for job in plan.admitted)
        self._news.extend((verbs.DEALLOCATE, one.task) for one in plan.evictions)
        self._news.extend((verbs.ALLOCATE, one.task) for one in plan.binds)
        self._wake.set()

    async def run(self) -> None:
        """For ever."""
        try:
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._rest_s()):
                        await self._wake.wait()
                self._wake.clear()
                await self._close_replaced()
                if self._settings is not None and self._server is not None and self._seen:
                    await self._ask(self._server, self._settings, World(*self._seen, self._objects))
                if self._last is not None and self._last.is_given_up:
                    await self._clock.sleep(_LEFT_ALONE_S)
        finally:
            if self._server is not None:
                self._replaced.append(self._server)
                self._server = None
            await self._close_replaced()

    def _rest_s(self) -> float | None:
        """How long until waiting alone is a reason to ask."""
        if self._settings is None or self._seen is None:
            return None
        if self._last is not None and self._last.is_cut:
            return 0.0
        if self._last is not None and self._last.failures:
            return 0.0 if self._last.is_given_up else _LEFT_ALONE_S
        if self._sheet.is_empty:
            return None
        return max(self._anew_at_s - self._clock.monotonic_s(), 0.0)

    async def _ask(self, server: ExtenderServer, settings: ExtenderSettings, world: World) -> None:
        started_s = self._published_s = self._clock.monotonic_s()
        had_failed = self._last is not None and self._last.failures > 0
        anew = had_failed or started_s >= self._anew_at_s
        sheet = await self._offload(partial(sheet_of, world, settings, self._sheet))
        if settings is not self._settings:
            return
        self._sheet = sheet
        self._last = asking = Round(server, settings, world, sheet, self._offload)
        news = [self._news.popleft() for _ in range(len(self._news))]
        if news or not sheet.is_empty:
            await asking.run(news, anew, partial(self._publish_at_times, settings))
        if settings is not self._settings:
            return
        ended_s = self._clock.monotonic_s()
        if anew:
            self._anew_at_s = ended_s + max(_ANEW_S, _ANEW_FACTOR * (ended_s - started_s))
        self._publish(settings)
        self._say_if_failing(settings, asking)

    def _publish_at_times(self, settings: ExtenderSettings) -> None:
        if self._clock.monotonic_s() - self._published_s >= _PUBLISH_S:
            self._publish(settings)

    def _publish(self, settings: ExtenderSettings) -> None:
        if settings is self._settings:
            self._published_s = self._clock.monotonic_s()
            self._tell(self._sheet.answers(verbs.PRIORITIZE in settings.verbs))

    def _say_if_failing(self, settings: ExtenderSettings, asked: Round) -> None:
        is_failing = asked.failures > 0
        if is_failing and not self._was_failing:
            agreed = "what was asked counts as agreed to"
            meanwhile = agreed if settings.is_ignorable else "whom it concerns waits"
            self._log.warning("the extender does not answer", why=asked.why, meanwhile=meanwhile)
        elif self._was_failing and not is_failing:
            self._log.info("the extender answers")
        self._was_failing = is_failing

    async def _close_replaced(self) -> None:
        while self._replaced:
            await self._replaced.pop().close()
