"""Runs that ended, as the journal keeps them: what runtimes are learned from.

A run is from a job's last start to its end. Whoever is evicted waits again: that is no end.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import msgspec
import numpy as np

from muster.api.codec import to_wire
from muster.foresight.journal.events import ENDED, Event, gpus_of
from muster.foresight.journal.reader import JournalReader, Query, history, journal_files
from muster.foresight.runtimes import PastRun
from muster.model.records import JobRecord, TaskRecord
from muster.model.snapshot import ClusterSnapshot
from muster.model.status import IS_ALLOCATED, TaskStatus

RUNS_MAX = 20_000
"""So many of the newest are learned from."""


@dataclass(frozen=True, slots=True)
class _Running:
    job: JobRecord
    task: TaskRecord
    pods: int
    gpus: float
    since_s: float


@dataclass(slots=True)
class RunTracker:
    """Sees jobs run and end, from one cycle to the next."""

    _running: dict[str, _Running] = field(default_factory=dict)

    def ended(self, snapshot: ClusterSnapshot, now_s: float) -> Iterator[PastRun]:
        """Runs that ended since the cycle before."""
        tasks = snapshot.tasks
        ours = tasks.live & (tasks.job >= 0)
        held = set(np.unique(tasks.job[ours & IS_ALLOCATED[tasks.status]]).tolist())
        waits = ours & (
            (tasks.status == TaskStatus.PENDING) | (tasks.status == TaskStatus.RELEASING)
        )
        waiting = set(np.unique(tasks.job[waits]).tolist())
        failed = set(np.unique(tasks.job[ours & (tasks.status == TaskStatus.FAILED)]).tolist())
        for key, run in list(self._running.items()):
            row = snapshot.jobs.row.get(key, -1)
            if row in held:
                continue
            del self._running[key]
            if row not in waiting:
                yield PastRun(
                    run.job, run.gpus, run.since_s, now_s, row in failed, run.task, run.pods
                )
        for row in held:
            if snapshot.jobs.keys[row] not in self._running:
                self._begin(snapshot, row, now_s)

    def _begin(self, snapshot: ClusterSnapshot, row: int, now_s: float) -> None:
        job = snapshot.jobs.records[row]
        rows = [t for leaf in snapshot.leaves_of_job(row) for t in snapshot.tasks_of_leaf(leaf)]
        pods = [snapshot.tasks.records[task] for task in rows]
        if pods:
            since_s = now_s if job.last_start_s is None else job.last_start_s
            gpus = sum(map(gpus_of, pods))
            self._running[job.key] = _Running(job, pods[0], len(pods), gpus, since_s)


def encoded_run(run: PastRun) -> bytes:
    return msgspec.json.encode(run, enc_hook=to_wire)


def story(folder: Path, query: Query) -> list[Event]:
    """What was decided, and what ended; the newest first. Raises `NoJournal`."""
    found = history(folder, query)
    is_of_decisions = any((query.node, query.code, query.actor, query.actor_queue))
    if (not query.kinds or ENDED in query.kinds) and not is_of_decisions:
        for path in journal_files(folder):
            reader = JournalReader(path)
            try:
                found += islice(_ended(reader, query), query.limit)
            finally:
                reader.close()
    return sorted(found, key=lambda event: -event.at_s)[: query.limit]


def _ended(reader: JournalReader, query: Query) -> Iterator[Event]:
    for run in reader.runs_of(query, RUNS_MAX):
        if query.queue in ("", run.job.queue) and query.user in ("", run.job.user):
            yield Event(
                at_s=run.ended_s,
                kind=ENDED,
                job=run.job.key,
                queue=run.job.queue,
                user=run.job.user,
                pods=run.pods,
                gpus=run.gpus,
                ran_s=run.ran_s,
                because="a pod of it failed" if run.failed else "",
            )


def past_runs(folder: Path, since_s: float) -> list[PastRun]:
    """All runs of a folder's journals that ended since then, oldest first. Raises `NoJournal`."""
    found: list[PastRun] = []
    for path in journal_files(folder):
        reader = JournalReader(path)
        try:
            found += reader.runs(since_s, RUNS_MAX)
        finally:
            reader.close()
    return sorted(found, key=lambda run: run.ended_s)[-RUNS_MAX:]
