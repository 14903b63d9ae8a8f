"""The scheduler's journal: off the loop, never in its way."""

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path

from prometheus_client import CollectorRegistry
from tests.support.busy_cluster import BusyCluster

from muster.base.database_file import BadFile
from muster.base.log import Log, MemorySink
from muster.base.offload import inline
from muster.foresight.journal.bounds import Bounds
from muster.foresight.journal.reader import JournalReader, Query, history
from muster.foresight.journal.replay import Same, compared
from muster.foresight.journal.store import JournalStore, RecordedRules
from muster.services.scheduler.journal import Journal, journal_path, store_opener
from muster.services.scheduler.meters import SchedulerMeters

_RULES = RecordedRules("0.1.0", "", {})


def journal(open_store: Callable[[], JournalStore]) -> tuple[Journal, MemorySink]:
    sink, meters = MemorySink(), SchedulerMeters(CollectorRegistry(), "kai")
    return Journal(open_store, lambda: _RULES, inline, Log("test", sink), meters), sink


async def noted(kept: Journal, cycles: int) -> None:
    writing = asyncio.ensure_future(kept.run())
    for cycle in BusyCluster(3).cycles(cycles):
        await kept.note(*cycle)
    await kept.written()
    writing.cancel()
    await asyncio.wait((writing,))


async def test_every_cycle_of_a_scheduler_can_be_asked_about_and_decided_again(
    tmp_path: Path,
) -> None:
    kept, _ = journal(store_opener(tmp_path, "host/1", Bounds()))
    await noted(kept, 12)
    assert history(tmp_path, Query())
    again = list(compared(JournalReader(journal_path(tmp_path, "host/1")).cycles()))
    assert [one.same for one in again] == [Same.SAME] * 12


async def test_a_journal_that_cannot_be_opened_is_said_once_and_stops_nobody() -> None:
    def refused() -> JournalStore:
        raise BadFile("no such folder")

    kept, sink = journal(refused)
    await noted(kept, 5)
    assert sink.messages().count("no journal is kept") == 1


async def test_two_schedulers_with_one_file_do_not_write_into_each_others_cycles(
    tmp_path: Path,
) -> None:
    """Of one host name, and one folder; the second goes on when the first has ended."""
    first = store_opener(tmp_path, "host", Bounds())()
    kept, sink = journal(store_opener(tmp_path, "host", Bounds()))
    writing = asyncio.ensure_future(kept.run())
    cycles = list(BusyCluster(3).cycles(5))
    for cycle in cycles[:2]:
        await kept.note(*cycle)
    await kept.written()
    assert sink.messages().count("cycle not kept") == 2
    assert "is written by another process: name another folder" in str(sink.events)
    first.close()
    for cycle in cycles[2:]:
        await kept.note(*cycle)
    await kept.written()
    writing.cancel()
    await asyncio.wait((writing,))
    again = list(compared(JournalReader(journal_path(tmp_path, "host")).cycles()))
    assert [one.same for one in again] == [Same.SAME] * 3


async def test_after_a_cycle_that_was_lost_the_rest_can_be_decided_again(tmp_path: Path) -> None:
    """The disk is full for a moment: what follows begins with a whole input."""
    failures = [False, False, True, False]

    class Failing(JournalStore):
        def add(self, cycle: object) -> int:
            if failures and failures.pop(0):
                raise sqlite3.OperationalError("database or disk is full")
            return super().add(cycle)  # type: ignore[arg-type]

    kept, sink = journal(lambda: Failing(journal_path(tmp_path, "one"), "one"))
    await noted(kept, 10)
    assert "cycle not kept" in sink.messages()
    again = list(compared(JournalReader(journal_path(tmp_path, "one")).cycles()))
    assert [one.same for one in again] == [Same.SAME] * 9
    assert sum(one.cycle.is_whole for one in again) == 2


async def test_a_disk_that_does_not_keep_up_does_not_hold_up_the_loop(tmp_path: Path) -> None:
    kept, sink = journal(store_opener(tmp_path, "one", Bounds()))
    # Nobody writes: the queue fills, and the loop goes on.
    for snapshot, result, now_s in BusyCluster(3).cycles(3):
        for _ in range(40):
            if not result.plan.evictions:
                await asyncio.wait_for(kept.note(snapshot, result, now_s), 1.0)
    assert "cycle not kept" in sink.messages()
