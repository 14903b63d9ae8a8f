"""The journal: what it costs a cycle, and how long a busy week takes to be decided again."""

import asyncio
import tempfile
import time
from pathlib import Path

import numpy as np
from prometheus_client import CollectorRegistry
from tests.support.busy_cluster import BusyCluster

from benchmarks.registry import Measured, case
from muster.base.log import Log, MemorySink
from muster.base.offload import in_thread
from muster.foresight.journal.bounds import Bounds
from muster.foresight.journal.reader import JournalReader, journal_files
from muster.foresight.journal.recorder import Cycle, CycleRecorder
from muster.foresight.journal.replay import Same, compared
from muster.foresight.journal.store import JournalStore, RecordedRules
from muster.services.scheduler.journal import Journal, store_opener
from muster.services.scheduler.meters import SchedulerMeters

_WEEK_S = 7 * 86400.0
_CYCLES, _NODES = 1000, 16
_RULES = RecordedRules("benchmark", "", {})


def _cluster(nodes: int, cycles: int) -> BusyCluster:
    return BusyCluster(11, nodes=nodes, period_s=_WEEK_S / cycles)


@case("replay-week", why="1,000 recorded cycles of a busy week, decided again and compared")
def replay_week(nodes: int = _NODES, cycles: int = _CYCLES) -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        store = JournalStore(Path(folder) / "one.journal.db", "one", Bounds(inputs_s=2 * _WEEK_S))
        recorder = CycleRecorder(store)
        for snapshot, result, now_s in _cluster(nodes, cycles).cycles(cycles):
            recorder.record(Cycle(snapshot, result, now_s, _RULES))
        store.close()
        (path,) = journal_files(Path(folder))
        reader = JournalReader(path)
        began = time.perf_counter()
        found = list(compared(reader.cycles()))
        seconds = time.perf_counter() - began
        reader.close()
    return {
        "seconds": seconds,
        "cycles": len(found),
        "different": sum(one.same is not Same.SAME for one in found) + cycles - len(found),
        "deciding": sum(one.then["binds"] != [] or one.then["evictions"] != [] for one in found),
    }


@case("journal", why="what the journal takes of a cycle: the same cycles with it and without it")
def journal(nodes: int = 64, cycles: int = 400) -> Measured:
    """A cycle hands its input over and goes on; what it has to wait for is the file of an eviction,
    and a thread that writes beside it.
    """
    without = _paced(nodes, cycles, None)
    with tempfile.TemporaryDirectory() as folder:
        handed: list[float] = []
        with_it = _paced(nodes, cycles, Path(folder), handed)
    return {
        "seconds": float(np.mean(handed)),
        "cost_ms": float(np.median(np.array(with_it) - np.array(without))) * 1e3,
        "handing_over_ms": float(np.median(handed)) * 1e3,
        "handing_over_worst_ms": max(handed) * 1e3,
        "cycle_ms": float(np.median(without)) * 1e3,
        "cycles": cycles,
    }


def _paced(
    nodes: int, cycles: int, folder: Path | None, handed: list[float] | None = None
) -> list[float]:
    """Seconds of each cycle with what is handed over."""

    async def run() -> list[float]:
        kept, task = _journal(folder)
        times = []
        deciding = _cluster(nodes, cycles).cycles(cycles)
        for _ in range(cycles):
            began = time.perf_counter()
            snapshot, result, now_s = await in_thread(lambda: next(deciding))
            if kept is not None and handed is not None:
                decided = time.perf_counter()
                await kept.note(snapshot, result, now_s)
                handed.append(time.perf_counter() - decided)
            times.append(time.perf_counter() - began)
        if kept is not None and task is not None:
            await kept.written()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        return times

    return asyncio.run(run())


def _journal(folder: Path | None) -> tuple[Journal | None, asyncio.Task[None] | None]:
    if folder is None:
        return None, None
    kept = Journal(
        store_opener(folder, "one", Bounds()),
        lambda: _RULES,
        in_thread,
        Log("journal", MemorySink()),
        SchedulerMeters(CollectorRegistry(), "kai"),
    )
    return kept, asyncio.create_task(kept.run())
