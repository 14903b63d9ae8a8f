"""Keeps the days of the usage store in ConfigMaps, and takes them from there where it begins.

Each write is of a whole day and says which version it replaces: whoever wrote meanwhile is not
overwritten. A day that is known here up to a later moment than there is kept.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from muster.api.core import ConfigMap
from muster.api.kinds import CONFIG_MAP
from muster.api.meta import Key
from muster.base.log import Log
from muster.base.offload import Offload
from muster.client.errors import (
    ApiError,
    BadObject,
    Conflict,
    Deposed,
    NotFound,
    Unreachable,
)
from muster.client.read import Reader
from muster.client.write import Writer
from muster.usage.accrual import DAY_S, GAP_MAX_S
from muster.usage.cluster_copy import MAP_NAMES, day_in, map_body, map_of
from muster.usage.days import BadDay, DayUsage
from muster.usage.store import UsageStore

_EVERY_S: Final = 60.0
_SMALL_BYTES: Final = 100_000
"""A day larger than that is written less often, in proportion."""


class NotRestored(Exception):
    """What others kept cannot be read now; the text says why."""


@dataclass(slots=True)
class UsageCopy:
    """Of one store, while this process leads."""

    _reader: Reader
    _writer: Writer
    _namespace: str
    _log: Log
    _offload: Offload
    _versions: dict[str, str] = field(default_factory=dict, init=False)
    _foreign: set[str] = field(default_factory=set, init=False)
    """Maps that hold what we cannot read: theirs is not ours to overwrite."""
    _written_s: float = field(default=0.0, init=False)
    """Up to when the cluster knows what the file knows."""
    _done_s: float = field(default=0.0, init=False)
    _size_bytes: int = field(default=0, init=False)
    _has_failed: bool = field(default=False, init=False)

    async def restore(self, store: UsageStore) -> None:
        """Take what was kept. Raises `NotRestored`: then nothing may be written either."""
        self._versions.clear()
        self._foreign.clear()
        days: list[DayUsage] = []
        for name in MAP_NAMES:
            found = await self._read(name)
            if found is not None:
                days += self._day(found)
        taken = [await self._offload(partial(_take, store, day)) for day in days]
        # What is only known here is written, of whatever day it is.
        self._written_s = max(day.until_s for day in days) if days and all(taken) else 0.0

    async def write(self, store: UsageStore, now_s: float, is_last: bool = False) -> None:
        """The days that grew since, where it is time."""
        pause_s = _EVERY_S * max(1.0, self._size_bytes / _SMALL_BYTES)
        if not is_last and 0 <= now_s - self._done_s < min(pause_s, GAP_MAX_S - _EVERY_S):
            return
        first = int((self._written_s - GAP_MAX_S) // DAY_S)
        try:
            for day in await self._offload(partial(_grown, store, first, now_s)):
                await self._put(day)
        except (ApiError, Unreachable, BadObject) as error:
            self._has_failed = True
            self._log.warning("usage not kept in the cluster", why=str(error))
            return
        # What waits in memory, because the file cannot be written, is still to come.
        self._written_s, self._done_s = min(now_s, store.last_s()), now_s
        if self._has_failed:
            self._has_failed = False
            self._log.info("usage kept in the cluster again")

    async def _read(self, name: str) -> ConfigMap | None:
        try:
            found = await self._reader.get(CONFIG_MAP, Key(self._namespace, name))
        except NotFound:
            return None
        except (ApiError, Unreachable, BadObject) as error:
            raise NotRestored(f"ConfigMap {name} cannot be read: {error}") from None
        self._versions[name] = found.metadata.resource_version
        return found

    def _day(self, found: ConfigMap) -> list[DayUsage]:
        try:
            return [day_in(found)]
        except BadDay as error:
            name = found.metadata.name
            self._foreign.add(name)
            self._log.error("a day of usage cannot be read", map=name, why=str(error))
            return []

    async def _put(self, day: DayUsage) -> None:
        name = map_of(day.day)
        if name in self._foreign:
            return
        body = await self._offload(partial(map_body, day, name))
        self._size_bytes = len(body["binaryData"]["day"])
        try:
            written = await self._written(name, body)
        except (Conflict, NotFound):
            await self._look_again(name, day)
            return
        self._versions[name] = written.metadata.resource_version

    async def _written(self, name: str, body: dict[str, object]) -> ConfigMap:
        version = self._versions.get(name)
        if version is None:
            return await self._writer.create(CONFIG_MAP, body, self._namespace)
        metadata = {"name": name, "namespace": self._namespace, "resourceVersion": version}
        key = Key(self._namespace, name)
        return await self._writer.replace(CONFIG_MAP, key, {**body, "metadata": metadata})

    async def _look_again(self, name: str, ours: DayUsage) -> None:
        """Somebody else wrote it: who knows more than we do leads in our place."""
        self._versions.pop(name, None)
        try:
            found = await self._read(name)
        except NotRestored as error:
            self._log.warning("usage not kept in the cluster", why=str(error))
            return
        theirs = [] if found is None else self._day(found)
        if any(day.day == ours.day and day.until_s > ours.until_s for day in theirs):
            raise Deposed(f"another process keeps usage in ConfigMap {name}")
        self._log.warning("somebody else wrote usage; it is written again", map=name)


def _take(store: UsageStore, day: DayUsage) -> bool:
    if day.until_s < store.day(day.day).until_s:
        return False
    store.put_day(day)
    return True


def _grown(store: UsageStore, first: int, now_s: float) -> Iterable[DayUsage]:
    last = int(now_s // DAY_S)
    return [store.day(day) for day in store.days()[-len(MAP_NAMES) :] if first <= day <= last]
