"""Days in the cluster: never more than there are places, and what fails is written later."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from muster.api.codec import from_builtins
from muster.api.core import ConfigMap
from muster.api.meta import Key
from muster.base.log import Log, MemorySink
from muster.base.offload import inline
from muster.client.errors import Conflict, NotFound, Unreachable
from muster.numerics.axis import QUEUE_WIDTH
from muster.services.queues.usage_copy import NotRestored, UsageCopy
from muster.usage.accrual import CLUSTER, DAY_S, Sums
from muster.usage.cluster_copy import MAP_NAMES, day_in
from muster.usage.store import UsageStore

DAY = 20_000


class Maps:
    """What the API server does with ConfigMaps."""

    def __init__(self) -> None:
        self.stored: dict[str, dict[str, Any]] = {}
        self.version = 0
        self.is_away = False
        self.writes = 0

    async def get(self, kind: Any, key: Key) -> ConfigMap:
        self._ask()
        if key.name not in self.stored:
            raise NotFound.__new__(NotFound)
        return from_builtins(ConfigMap, self.stored[key.name])

    async def create(self, kind: Any, body: Mapping[str, Any], namespace: str) -> ConfigMap:
        return self._put(body["metadata"]["name"], body, None)

    async def replace(self, kind: Any, key: Key, body: Mapping[str, Any]) -> ConfigMap:
        return self._put(key.name, body, body["metadata"]["resourceVersion"])

    def _put(self, name: str, body: Mapping[str, Any], replaced: str | None) -> ConfigMap:
        self._ask()
        there = self.stored.get(name)
        if (there and there["metadata"]["resourceVersion"]) != replaced:
            raise Conflict.__new__(Conflict)
        self.version += 1
        self.writes += 1
        metadata = {**body["metadata"], "resourceVersion": str(self.version)}
        self.stored[name] = {**body, "metadata": metadata}
        return from_builtins(ConfigMap, self.stored[name])

    def _ask(self) -> None:
        if self.is_away:
            raise Unreachable("it is away")


def copy_of(maps: Any) -> UsageCopy:
    return UsageCopy(maps, maps, "kai", Log("test", MemorySink()), inline)


def grow(store: UsageStore, day: int) -> float:
    sums = Sums()
    sums.held[day * DAY_S, CLUSTER] = np.full(QUEUE_WIDTH, 8.0)
    now_s = day * DAY_S + 3600.0
    store.add(sums, now_s)
    return now_s


@pytest.fixture
def store(tmp_path: Path) -> UsageStore:
    return UsageStore(tmp_path / "usage.db")


def test_the_newest_day_takes_the_place_of_the_oldest(store: UsageStore) -> None:
    async def story() -> None:
        maps = Maps()
        copy = copy_of(maps)
        await copy.restore(store)
        for day in range(DAY, DAY + 80):
            await copy.write(store, grow(store, day))
        assert set(maps.stored) == set(MAP_NAMES)
        days = {day_in(from_builtins(ConfigMap, one)).day for one in maps.stored.values()}
        assert days == set(range(DAY + 80 - len(MAP_NAMES), DAY + 80))

    asyncio.run(story())


def test_what_could_not_be_written_is_written_when_the_server_is_back(store: UsageStore) -> None:
    async def story() -> None:
        maps = Maps()
        copy = copy_of(maps)
        await copy.restore(store)
        maps.is_away = True
        await copy.write(store, grow(store, DAY))
        now_s = grow(store, DAY + 3)
        await copy.write(store, now_s)
        maps.is_away = False
        await copy.write(store, now_s + 30)
        days = {day_in(from_builtins(ConfigMap, one)).day for one in maps.stored.values()}
        assert days == {DAY, DAY + 3}

    asyncio.run(story())


def test_nothing_is_written_before_it_is_known_what_was_kept(store: UsageStore) -> None:
    async def story() -> None:
        maps = Maps()
        maps.is_away = True
        with pytest.raises(NotRestored, match="away"):
            await copy_of(maps).restore(store)
        assert maps.writes == 0

    asyncio.run(story())


def test_what_only_this_file_knows_of_an_older_day_is_kept_too(
    store: UsageStore, tmp_path: Path
) -> None:
    async def story() -> None:
        maps = Maps()
        copy = copy_of(maps)
        await copy.restore(store)
        now_s = grow(store, DAY)
        await copy.write(store, now_s)
        # Written to the file, and then the process was killed.
        late = Sums()
        late.held[DAY * DAY_S + 3600, CLUSTER] = np.full(QUEUE_WIDTH, 8.0)
        store.add(late, now_s + 40)
        other, its = UsageStore(tmp_path / "other.db"), copy_of(maps)
        await its.restore(other)
        await its.write(other, grow(other, DAY + 2))
        again = copy_of(maps)
        await again.restore(store)
        await again.write(store, now_s + 5 * DAY_S)
        kept = [day_in(from_builtins(ConfigMap, one)) for one in maps.stored.values()]
        assert [len(day.starts_s) for day in kept if day.day == DAY] == [2]

    asyncio.run(story())


def test_a_large_day_is_written_less_often(
    store: UsageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        maps = Maps()
        copy = copy_of(maps)
        await copy.restore(store)
        now_s = grow(store, DAY)
        await copy.write(store, now_s)
        before = maps.writes
        for second in range(0, 600, 30):
            await copy.write(store, now_s + second)
        small = maps.writes - before
        monkeypatch.setattr("muster.services.queues.usage_copy._SMALL_BYTES", 10)
        before = maps.writes
        for second in range(600, 1200, 30):
            await copy.write(store, now_s + second)
        assert small == pytest.approx(10, abs=1)
        assert 1 <= maps.writes - before <= 5

    asyncio.run(story())
