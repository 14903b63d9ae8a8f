"""Days that are kept in the cluster, in a file of this process: read like any store."""

import asyncio
import sqlite3
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from muster.base.clock import Clock
from muster.base.database_file import BadFile
from muster.base.offload import Offload
from muster.model.usage import QueueUsage, UsageWindow
from muster.usage.cluster_copy import ClusterCopy
from muster.usage.days import DayUsage
from muster.usage.embedded import EmbeddedUsage
from muster.usage.source import NoUsage
from muster.usage.store import RETENTION_S, SIZE_MAX_BYTES, StoreBounds, UsageStore

_NEW_S: Final = 20.0
"""However many ask."""


class UsageFolder:
    """The file, which goes with this object."""

    def __init__(self, kept: ClusterCopy, clock: Clock, offload: Offload) -> None:
        self._kept = kept
        self._clock = clock
        self._offload = offload
        self._turn = asyncio.Lock()
        self._path: Path | None = None
        self._read_s = 0.0
        self._folder: TemporaryDirectory[str] | None = None
        self._store: UsageStore | None = None

    async def path(self) -> Path:
        """Of a store that is as new as the cluster knows, or nearly so. Raises `NoUsage`."""
        async with self._turn:
            now_s = self._clock.now_s()
            if self._path is None or abs(now_s - self._read_s) >= _NEW_S:
                days = await self._kept.changed(now_s)
                self._path = await self._offload(partial(self._put, days, now_s))
                self._read_s = now_s
            return self._path

    def close(self) -> None:
        self._path = None
        if self._store is not None:
            self._store.close()
        if self._folder is not None:
            self._folder.cleanup()
        self._store, self._folder = None, None

    def _put(self, days: Iterable[DayUsage], now_s: float) -> Path:
        try:
            if self._folder is None or self._store is None:
                self._folder = TemporaryDirectory(prefix="muster-usage-")
                bounds = StoreBounds(RETENTION_S, SIZE_MAX_BYTES)
                self._store = UsageStore(Path(self._folder.name) / "usage.db", bounds)
            for day in days:
                self._store.put_day(day)
            self._store.prune(now_s)
        except (BadFile, OSError, sqlite3.Error) as error:
            self._kept.forget()
            raise NoUsage(f"usage kept in the cluster cannot be put aside: {error}") from None
        return Path(self._folder.name) / "usage.db"


class KeptUsage:
    """A `Source`: what the queue controller keeps in the cluster, folded here."""

    def __init__(self, folder: UsageFolder, window: UsageWindow, offload: Offload) -> None:
        self._folder = folder
        self._window = window
        self._offload = offload
        self._embedded: EmbeddedUsage | None = None

    async def read(self, now_s: float) -> QueueUsage:
        path = await self._folder.path()
        if self._embedded is None:
            self._embedded = EmbeddedUsage(path, self._window, self._offload)
        return await self._embedded.read(now_s)

    async def close(self) -> None:
        if self._embedded is not None:
            await self._embedded.close()
        self._folder.close()
