"""The queue controller's accounts: a file that cannot be used stops nobody, and loses nothing."""

import asyncio
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.support.virtual_time import LoopClock, virtually

from muster.api.codec import from_builtins
from muster.api.meta import Key
from muster.api.names import (
    ANNOTATION_CHECKPOINT,
    ANNOTATION_IDLE_GPUS_SINCE,
    ANNOTATION_LAST_EVICTION,
    ANNOTATION_LAST_START,
)
from muster.api.podgroup import PodGroup
from muster.base.log import Log, MemorySink
from muster.base.offload import inline
from muster.model.usage import UsageWindow
from muster.numerics.axis import QUEUE_GPU, QUEUE_WIDTH
from muster.runtime.parts import ended
from muster.services.queues.accounting import Accounting
from muster.services.queues.levels import job_level
from muster.usage.accounts import Question, read_accounts
from muster.usage.embedded import EmbeddedUsage
from muster.usage.store import StoreBounds, UsageReader


def group(
    gpus: int = 4, asked: int = 4, notes: Mapping[str, str] | None = None, queue: str = "q"
) -> PodGroup:
    status = {
        "allocated": {"nvidia.com/gpu": str(gpus)} if gpus else {},
        "requested": {"nvidia.com/gpu": str(asked)},
    }
    metadata = {
        "name": "j",
        "namespace": "team",
        "labels": {"user": "ann"},
        "annotations": dict(notes or {}),
    }
    body = {
        "metadata": metadata,
        "spec": {"queue": queue},
        "status": {"resourcesStatus": status},
    }
    return from_builtins(PodGroup, body)


class Local:
    """A local copy that a test fills by hand."""

    def __init__(self) -> None:
        self.objects: dict[Key, Any] = {}
        self.handlers: list[Any] = []

    def add_handler(self, handler: Any) -> None:
        self.handlers.append(handler)

    def show(self, one: PodGroup) -> None:
        old = self.objects.get(one.key)
        self.objects[one.key] = one
        for handler in self.handlers:
            handler(old, one)


class World:
    def __init__(self, path: Path) -> None:
        self.groups = Local()
        groups: Any = self.groups
        self.sink = MemorySink()
        self.clock = LoopClock()
        queues: Any = Local()
        capacity: Any = SimpleNamespace(total=np.full(QUEUE_WIDTH, 8.0), on_change=None)
        self.accounting = Accounting(
            path,
            StoreBounds(),
            queues,
            groups,
            capacity,
            self.clock,
            Log("test", self.sink),
            inline,
        )

    async def run(self, for_s: float) -> None:
        running = asyncio.ensure_future(self.accounting.run())
        await asyncio.sleep(for_s)
        await ended((running,))


def gpu_hours(path: Path, clock: LoopClock) -> float:
    now_s = clock.now_s()
    (found,) = read_accounts(path, Question(now_s - 86_400, now_s))
    return found.gpu_hours


def test_a_store_that_cannot_be_opened_is_tried_again(tmp_path: Path) -> None:
    path = tmp_path / "usage.db"
    path.write_text("no database at all, and quite long" * 100)

    async def story() -> None:
        world = World(path)
        world.groups.show(group())
        running = asyncio.ensure_future(world.accounting.run())
        await asyncio.sleep(100)
        assert "no accounts are kept" in world.sink.messages()
        path.unlink()
        await asyncio.sleep(20 + 3600)
        await ended((running,))
        assert gpu_hours(path, world.clock) == pytest.approx(4, rel=0.02)

    virtually(story())


def test_sums_that_cannot_be_written_wait_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "usage.db"

    async def story() -> None:
        world = World(path)
        world.groups.show(group())
        running = asyncio.ensure_future(world.accounting.run())
        await asyncio.sleep(1800)
        with monkeypatch.context() as broken:

            def full(*_: Any) -> None:
                raise sqlite3.OperationalError("database or disk is full")

            broken.setattr("muster.usage.store.UsageStore.add", full)
            await asyncio.sleep(900)
        assert "usage not stored" in world.sink.messages()
        await asyncio.sleep(900)
        assert "usage stored again" in world.sink.messages()
        await ended((running,))
        assert gpu_hours(path, world.clock) == pytest.approx(4, rel=0.01)

    virtually(story())


def test_a_file_that_is_moved_away_is_begun_anew_and_nothing_since_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the log tells people to do with one that is damaged."""
    path = tmp_path / "usage.db"

    async def story() -> None:
        world = World(path)
        world.groups.show(group())
        running = asyncio.ensure_future(world.accounting.run())
        await asyncio.sleep(1800)
        path.rename(tmp_path / "damaged.db")
        path.write_text("and somebody put something else there" * 100)
        await asyncio.sleep(1800)
        assert "no accounts are kept" in world.sink.messages()
        path.unlink()
        await asyncio.sleep(1800)
        await ended((running,))
        assert gpu_hours(path, world.clock) == pytest.approx(4, rel=0.02)

    virtually(story())


def test_what_waits_to_be_written_is_bounded_and_the_newest_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "usage.db"
    most = 2 * 6  # Of the cluster and the queue, in half an hour.
    monkeypatch.setattr("muster.services.queues.accounting._WAITING_MAX", most)

    async def story() -> None:
        world = World(path)
        world.groups.show(group())
        running = asyncio.ensure_future(world.accounting.run())
        await asyncio.sleep(60)
        with monkeypatch.context() as broken:

            def full(*_: Any) -> None:
                raise sqlite3.OperationalError("database or disk is full")

            broken.setattr("muster.usage.store.UsageStore.add", full)
            await asyncio.sleep(5 * 3600)
        await ended((running,))
        now_s = world.clock.now_s()
        starts = [start_s for start_s, _ in UsageReader(path).buckets(now_s - 86_400)]
        lately = [start_s for start_s in starts if start_s > now_s - 5 * 3600 + 300]
        assert len(lately) == most / 2
        assert min(lately) >= now_s - 2100

    virtually(story())


def test_a_group_that_names_no_queue_adds_nothing_to_what_the_cluster_has(tmp_path: Path) -> None:
    path = tmp_path / "usage.db"

    async def story() -> None:
        world = World(path)
        world.groups.show(group(gpus=4_000, queue=""))
        await world.run(3600)
        source = EmbeddedUsage(path, UsageWindow(size_s=3600), inline)
        assert (await source.read(world.clock.now_s())).by_queue == {}
        (line,) = UsageReader(path).buckets(world.clock.now_s() - 600)[-1:]
        assert np.frombuffer(line[1][QUEUE_GPU], dtype=np.float32)[0] <= 8 * 300

    virtually(story())


def test_what_accrued_is_written_when_the_service_stops(tmp_path: Path) -> None:
    path = tmp_path / "usage.db"

    async def story() -> None:
        world = World(path)
        world.groups.show(group())
        await world.run(100)
        assert gpu_hours(path, world.clock) == pytest.approx(4 * 100 / 3600)

    virtually(story())


def test_a_pod_group_says_what_accounts_need() -> None:
    start, saved = "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"
    level = job_level(
        group(
            notes={
                ANNOTATION_LAST_START: start,
                ANNOTATION_CHECKPOINT: saved,
                ANNOTATION_LAST_EVICTION: "2026-01-01T02:00:00Z",
                ANNOTATION_IDLE_GPUS_SINCE: saved,
            }
        )
    )
    assert (level.queue, level.user, level.held[QUEUE_GPU], level.idle_gpus) == ("q", "ann", 4, 4)
    assert level.work_since_s == 1_767_229_200
    assert level.evicted_s == 1_767_232_800
    assert not level.is_waiting
    assert job_level(group(gpus=0)).is_waiting
    assert not job_level(group(gpus=0, asked=0)).is_waiting
