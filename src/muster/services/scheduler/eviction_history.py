"""Evictions of the last hour, stored in the API server, so that they survive a restart.

A config map in our namespace has a key for each shard, and under it a list of what was taken from
which queue when. It is read once, before the first cycle that needs it, and replaced by each write:
before pods are evicted, so that a crash in between counts too much rather than too little, and
again if fewer were evicted than planned. While we run our own memory counts: what others do to the
config map is overwritten by the next eviction. Whatever is in it, it stops nobody.
"""

from collections.abc import Iterable, Sequence

import msgspec

from muster.api.kinds import CONFIG_MAP
from muster.api.meta import Key
from muster.api.names import PAST_EVICTIONS_CONFIG_MAP
from muster.base.clock import Clock
from muster.base.log import Log
from muster.client.errors import ApiError, BadObject, NotFound, Unreachable
from muster.client.read import Reader
from muster.client.write import Writer
from muster.engine.config.budgets import REMEMBERED_S
from muster.model.cluster_objects import RecentEviction
from muster.services.scheduler.cache import SchedulerCache
from muster.services.scheduler.options import Options

_ENTRIES_MAX = 5000
"""A config map holds a megabyte; an entry takes about a hundred bytes."""
_SLOT_S = 60.0


class EvictionHistory:
    """The scheduler's memory of the last hour: read, added to, written."""

    def __init__(
        self,
        cache: SchedulerCache,
        reader: Reader,
        writer: Writer,
        options: Options,
        clock: Clock,
        log: Log,
    ) -> None:
        self._cache = cache
        self._reader = reader
        self._writer = writer
        self._key = Key(options.names.namespace, PAST_EVICTIONS_CONFIG_MAP)
        self._shard = options.pool_name
        self._clock = clock
        self._log = log
        self._recent: tuple[RecentEviction, ...] = ()
        self._is_loaded = False
        self._written = ""

    async def load(self) -> None:
        """Read what earlier schedulers evicted, once; `Unreachable` when nobody answers."""
        if self._is_loaded:
            return
        self._add(decode_history(await self._stored(), self._clock.now_s()))
        self._is_loaded = True

    async def record_planned(self, evictions: Sequence[RecentEviction]) -> None:
        """These are about to happen."""
        await self._write((*self._recent, *evictions))

    async def record_done(self, evictions: Sequence[RecentEviction]) -> None:
        """These happened."""
        self._add(evictions)
        await self._write(self._recent)

    def _add(self, evictions: Sequence[RecentEviction]) -> None:
        since_s = self._clock.now_s() - REMEMBERED_S
        self._recent = tuple(e for e in (*self._recent, *evictions) if e.at_s >= since_s)
        self._cache.remember_evictions(evictions, REMEMBERED_S)

    async def _stored(self) -> str:
        try:
            found = await self._reader.get(CONFIG_MAP, self._key)
        except NotFound:
            return ""
        except (ApiError, BadObject) as trouble:
            self._log.warning("eviction history not read", error=str(trouble))
            return ""
        return found.data.get(self._shard, "")

    async def _write(self, evictions: Iterable[RecentEviction]) -> None:
        text = encode_history(evictions, self._clock.now_s() - REMEMBERED_S)
        if text == self._written:
            return
        data = {"data": {self._shard: text}}
        try:
            try:
                await self._writer.patch(CONFIG_MAP, self._key, data)
            except NotFound:
                body = {"metadata": {"name": self._key.name}, **data}
                await self._writer.create(CONFIG_MAP, body, self._key.namespace)
        except (ApiError, BadObject, Unreachable) as trouble:
            self._log.warning("eviction history not written", error=str(trouble))
            return
        self._written = text


def decode_history(text: str, now_s: float) -> list[RecentEviction]:
    """What a scheduler has written; nothing of what cannot be read. Nothing is in the future."""
    if not text:
        return []
    try:
        found = msgspec.json.decode(text, type=list[RecentEviction])
    except (msgspec.DecodeError, RecursionError):
        return []
    return [
        msgspec.structs.replace(each, at_s=min(each.at_s, now_s))
        for each in found
        if each.gpu_units > 0 and each.at_s >= now_s - REMEMBERED_S
    ]


def encode_history(evictions: Iterable[RecentEviction], since_s: float) -> str:
    """As it is kept: one entry for each queue and minute, or each queue if that is too much."""
    lately = [each for each in evictions if each.at_s >= since_s and each.gpu_units > 0]
    entries = _aggregated(lately, _SLOT_S)
    if len(entries) > _ENTRIES_MAX:
        entries = _aggregated(lately, 2 * REMEMBERED_S)[:_ENTRIES_MAX]
    return msgspec.json.encode(entries).decode()


def _aggregated(evictions: Iterable[RecentEviction], slot_s: float) -> list[RecentEviction]:
    """One entry for each queue and slot; it counts until the last of its evictions no longer
    does.
    """
    sums: dict[tuple[str, int], RecentEviction] = {}
    for each in sorted(evictions, key=lambda one: (one.at_s, one.queue)):
        slot = (each.queue, int(each.at_s // slot_s))
        before = sums.get(slot)
        units = each.gpu_units + (before.gpu_units if before else 0)
        sums[slot] = RecentEviction(each.queue, units, each.at_s)
    return list(sums.values())
