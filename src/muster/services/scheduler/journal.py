"""The journal of a scheduler: every cycle is handed over, and written off the event loop.

Writing never holds up scheduling: cycles wait in a queue of bounded length, and one that finds it
full is not kept, which is counted. Only before somebody is evicted the decision waits until it is
on file, and not for longer than `PATIENCE_S`: who took whose GPUs must be found afterwards.
"""

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path

from muster.base.database_file import BadFile, FileInUse
from muster.base.log import Log
from muster.base.offload import Offload
from muster.engine.cycle import CycleResult
from muster.foresight.journal.bounds import Bounds
from muster.foresight.journal.reader import SUFFIX
from muster.foresight.journal.recorder import Cycle, CycleRecorder
from muster.foresight.journal.store import JournalStore, RecordedRules
from muster.model.snapshot import ClusterSnapshot
from muster.services.scheduler.meters import SchedulerMeters

PATIENCE_S = 1.0
_QUEUED_MAX = 64


def journal_path(folder: Path, writer: str) -> Path:
    """The file of one process; a restart of it goes on in the same one."""
    safe = "".join(letter if letter.isalnum() or letter in "-." else "-" for letter in writer)
    return folder / f"{safe or 'scheduler'}{SUFFIX}"


class Journal:
    """Takes cycles from the loop and writes them, one at a time, in order."""

    def __init__(
        self,
        open_store: Callable[[], JournalStore],
        rules: Callable[[], RecordedRules],
        offload: Offload,
        log: Log,
        meters: SchedulerMeters,
    ) -> None:
        self._open_store = open_store
        self._rules = rules
        self._offload = offload
        self._log = log
        self._meters = meters
        self._queue: asyncio.Queue[tuple[Cycle, asyncio.Future[None]]] = asyncio.Queue(_QUEUED_MAX)
        self._store: JournalStore | None = None
        self._recorder: CycleRecorder | None = None
        self._has_lost = False
        self._is_off = False

    async def note(self, snapshot: ClusterSnapshot, result: CycleResult, now_s: float) -> None:
        """Hand a cycle over; returns once it is on file where that matters."""
        if self._is_off:
            return
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:
            self._queue.put_nowait((Cycle(snapshot, result, now_s, self._rules()), written))
        except asyncio.QueueFull:
            self._lose("the disk does not keep up")
            return
        if result.plan.evictions:
            await asyncio.wait((written,), timeout=PATIENCE_S)

    async def run(self) -> None:
        """Write what comes, until cancelled."""
        try:
            while True:
                cycle, written = await self._queue.get()
                try:
                    if self._is_off:
                        continue
                    await self._offload(lambda cycle=cycle: self._write(cycle))  # type: ignore[misc]
                except FileInUse as problem:
                    self._lose(str(problem))  # The leader before us may be about to end.
                except BadFile as problem:
                    self._is_off = True
                    self._log.error("no journal is kept", problem=str(problem))
                except (sqlite3.Error, OSError) as error:
                    self._lose(repr(error))
                finally:
                    self._queue.task_done()
                    if not written.done():
                        written.set_result(None)
        finally:
            if self._store is not None:
                self._store.close()

    async def written(self) -> None:
        """Everything handed over so far is on file, or will never be."""
        await self._queue.join()

    def _write(self, cycle: Cycle) -> None:
        """In another thread, one call at a time."""
        if self._recorder is None:
            self._store = self._open_store()
            self._recorder = CycleRecorder(self._store)
        if self._has_lost:
            self._has_lost = False
            self._recorder.begin_anew()
        self._recorder.record(cycle)

    def _lose(self, why: str) -> None:
        self._has_lost = True
        self._meters.cycles_not_kept.inc()
        self._log.warning("cycle not kept", why=why)


def store_opener(folder: Path, writer: str, bounds: Bounds) -> Callable[[], JournalStore]:
    return lambda: JournalStore(journal_path(folder, writer), writer, bounds)
