"""Writes what pod groups hold into the usage store, for fairness over time and for accounts.

Groups are followed change by change, so the sums are exact; they go to the file every half minute.
A file that cannot be written is said in the log and tried again: the sums wait meanwhile, and the
queues' status does not. A replica that does not lead remembers the last minutes: when it comes to
lead, it goes on at the moment up to which the one before wrote.
"""

import sqlite3
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from muster.api.podgroup import PodGroup
from muster.api.queue import Queue
from muster.base.clock import Clock
from muster.base.database_file import BadFile
from muster.base.log import Log
from muster.base.offload import Offload
from muster.client.errors import Deposed
from muster.client.informer import Informer
from muster.services.queues.capacity_watch import CapacityWatch
from muster.services.queues.decide import ancestry
from muster.services.queues.levels import job_level
from muster.services.queues.usage_copy import NotRestored, UsageCopy
from muster.usage.accrual import Accruals, Sums
from muster.usage.recent import KEPT_S, RecentLevels
from muster.usage.store import StoreBounds, UsageStore

_WRITE_EVERY_S: Final = 30.0
_PRUNE_EVERY_S: Final = 3600.0
_RETRY_S: Final = 15.0
_WAITING_MAX: Final = 100_000
"""Sums that wait to be written: those of a thousand queues in eight hours, in some 40 MB."""


@dataclass(slots=True)
class Accounting:
    """A part of the service, where it leads."""

    name = "accounting"

    _path: Path
    _bounds: StoreBounds
    _queues: Informer[Queue]
    _groups: Informer[PodGroup]
    _capacity: CapacityWatch
    _clock: Clock
    _log: Log
    _offload: Offload
    _copy: UsageCopy | None = None
    """Of the file, in the cluster."""
    _accruals: Accruals | None = field(default=None, init=False)
    """While it runs."""
    _recent: RecentLevels = field(default_factory=RecentLevels, init=False)
    """Until then."""
    _lines: dict[str, list[str]] = field(default_factory=dict, init=False)
    """Each queue with those above it."""
    _waiting: Sums = field(default_factory=Sums, init=False)
    _pruned_s: float = field(default=float("-inf"), init=False)
    _has_failed: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._groups.add_handler(self._group_changed)
        self._queues.add_handler(self._queue_changed)
        self._capacity.on_change = self._capacity_changed

    async def run(self) -> None:
        """For ever, or until cancelled; what has accrued until then is written."""
        store = await self._opened()
        try:
            await self._restored(store)
            self._begin(store.last_s())
            while True:
                await self._clock.sleep(_WRITE_EVERY_S)
                if store.is_replaced():
                    self._log.warning("the usage store was moved away: a new one is begun")
                    store.close()
                    store = await self._opened()
                    await self._restored(store)
                await self._write(store)
        finally:
            if self._accruals is not None:
                await self._end(store)
            store.close()

    async def _end(self, store: UsageStore) -> None:
        now_s = self._take()
        self._accruals = None
        self._stored(store, now_s)
        if self._copy is not None:
            with suppress(Deposed):  # Then another one goes on without us.
                await self._copy.write(store, now_s, is_last=True)

    async def _restored(self, store: UsageStore) -> None:
        while self._copy is not None:
            try:
                await self._copy.restore(store)
            except (NotRestored, sqlite3.Error) as error:
                self._log.warning("accounts wait for what was kept", why=str(error))
            else:
                return
            await self._clock.sleep(_RETRY_S)
            self._take()

    async def _opened(self) -> UsageStore:
        while True:
            try:
                return await self._offload(partial(UsageStore, self._path, self._bounds))
            except BadFile as error:
                self._log.error("no accounts are kept", why=str(error))
            await self._clock.sleep(60.0)
            self._take()

    def _take(self) -> float:
        """Put what accrued until now, which is returned, to what is to be written."""
        now_s = self._clock.now_s()
        if self._accruals is not None:
            self._waiting.add(self._accruals.take(now_s))
        return now_s

    def _begin(self, last_s: float) -> None:
        now_s = self._clock.now_s()
        from_s = last_s if 0 < last_s <= now_s else now_s
        accruals = Accruals(self._ancestry, from_s)
        self._waiting.add(self._recent.replay(accruals, max(from_s, now_s - KEPT_S), now_s))
        accruals.set_capacity(self._capacity.total, now_s)
        for group in self._groups.objects.values():
            accruals.set_job(str(group.key), job_level(group), now_s)
        self._accruals = accruals

    async def _write(self, store: UsageStore) -> None:
        now_s = self._take()
        await self._offload(partial(self._stored, store, now_s))
        if self._copy is not None:
            await self._copy.write(store, now_s)

    def _stored(self, store: UsageStore, now_s: float) -> None:
        try:
            store.add(self._waiting, now_s)
            self._waiting = Sums()
            if abs(now_s - self._pruned_s) >= _PRUNE_EVERY_S:
                store.prune(now_s)
                self._pruned_s = now_s
        except sqlite3.Error as error:
            self._has_failed = True
            self._waiting.keep_newest(_WAITING_MAX)
            self._log.warning("usage not stored", why=str(error), kept=len(self._waiting.held))
        else:
            if self._has_failed:
                self._has_failed = False
                self._log.info("usage stored again")

    def _ancestry(self, queue: str) -> list[str]:
        if queue not in self._lines:
            by_name = {one.metadata.name: one for one in self._queues.objects.values()}
            # A queue that does not exist (yet) is charged all the same, by its name. What names
            # none is nobody's: under that name stands what the nodes have.
            self._lines[queue] = ancestry(queue, by_name) or [queue] * bool(queue)
        return self._lines[queue]

    def _queue_changed(self, old: Queue | None, new: Queue | None) -> None:
        self._lines.clear()

    def _group_changed(self, old: PodGroup | None, new: PodGroup | None) -> None:
        group = new or old
        if group is not None:
            level = None if new is None else job_level(new)
            self._followed_by.set_job(str(group.key), level, self._clock.now_s())

    def _capacity_changed(self) -> None:
        self._followed_by.set_capacity(self._capacity.total, self._clock.now_s())

    @property
    def _followed_by(self) -> Accruals | RecentLevels:
        return self._recent if self._accruals is None else self._accruals
