"""Evictions of the last hour, stored in the API server, so that they survive a restart.

A config map in our namespace has a key for each shard, and under it a list of what was taken from
which queue when. It is read once, before the first cycle that needs it, and replaced by each write:
before pods are evicted, so that a crash in between counts too much rather than too little, and
again if fewer were evicted than planned. What is planned counts at once, because the next cycle
decides while evictions are under way. While we run our own memory counts: what others do to the
config map is overwritten by the next eviction. Whatever is in it, and whatever becomes of a write
of it, it stops nobody who leads.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from muster.api.kinds import CONFIG_MAP
from muster.api.meta import Key
from muster.api.names import PAST_EVICTIONS_CONFIG_MAP
from muster.base.clock import Clock
from muster.base.json_text import NotJson, parse_json
from muster.base.log import Log
from muster.client.errors import ApiError, BadObject, Deposed, NotFound
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
        self._planned: list[PlannedEvictions] = []
        self._is_loaded = False
        self._written = ""
        self._one_write = asyncio.Lock()

    async def load(self) -> None:
        """Read what earlier schedulers evicted, once; `Unreachable` when nobody answers."""
        if self._is_loaded:
            return
        self._add(decode_history(await self._stored(), self._clock.now_s()))
        self._is_loaded = True

    def plan(self, evictions: Mapping[str, RecentEviction]) -> "PlannedEvictions":
        """These, by uid of the pod, are about to happen, and count from now on."""
        planned = PlannedEvictions(self, evictions)
        self._planned.append(planned)
        self._tell_cache()
        return planned

    async def write(self) -> None:
        """All that counts, as it is when the turn of this write has come."""
        async with self._one_write:
            counted = self._counted()
            text = encode_history(counted, self._clock.now_s() - REMEMBERED_S)
            if text != self._written and await self._write(text):
                self._written = text

    def _end(self, planned: "PlannedEvictions", done: Sequence[RecentEviction]) -> None:
        self._planned.remove(planned)
        self._add(done)

    def _add(self, evictions: Sequence[RecentEviction]) -> None:
        since_s = self._clock.now_s() - REMEMBERED_S
        self._recent = tuple(e for e in (*self._recent, *evictions) if e.at_s >= since_s)
        self._tell_cache()

    def _counted(self) -> list[RecentEviction]:
        under_way = (e for planned in self._planned for e in planned.evictions.values())
        return [*self._recent, *under_way]

    def _tell_cache(self) -> None:
        self._cache.remember_evictions(self._counted(), REMEMBERED_S)

    async def _stored(self) -> str:
        try:
            found = await self._reader.get(CONFIG_MAP, self._key)
        except NotFound:
            return ""
        except (ApiError, BadObject) as trouble:
            self._log.warning("eviction history not read", error=str(trouble))
            return ""
        return found.data.get(self._shard, "")

    async def _write(self, text: str) -> bool:
        """Whether it is stored."""
        data = {"data": {self._shard: text}}
        try:
            try:
                await self._writer.patch(CONFIG_MAP, self._key, data)
            except NotFound:
                body = {"metadata": {"name": self._key.name}, **data}
                await self._writer.create(CONFIG_MAP, body, self._key.namespace)
        except Deposed:
            raise
        except Exception as trouble:  # noqa: BLE001 - it is only needed after a restart
            self._log.warning("eviction history not written", error=repr(trouble))
            return False
        return True


@dataclass(frozen=True, slots=True, eq=False)
class PlannedEvictions:
    """The evictions of one plan, from the decision to their end."""

    _history: EvictionHistory
    evictions: Mapping[str, RecentEviction]
    """By uid of the pod."""

    async def begin(self) -> None:
        """Store that they are about to happen."""
        await self._history.write()

    async def end(self, gone: Collection[str]) -> None:
        """Of these pods it came to pass, and of no others."""
        self._history._end(self, [self.evictions[uid] for uid in gone if uid in self.evictions])
        await self._history.write()


def decode_history(text: str, now_s: float) -> list[RecentEviction]:
    """What a scheduler has written; nothing of what cannot be read. Nothing is in the future."""
    if not text:
        return []
    try:
        found = parse_json(text, list[RecentEviction])
    except NotJson:
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
