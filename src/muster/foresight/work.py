"""Who runs and who waits, and when what runs is expected to end."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from muster.foresight.journal.events import gpus_of
from muster.foresight.runtimes import PastRun, Runtimes, ended_after_s, is_service
from muster.model.records import ClusterRecords, JobRecord, TaskRecord
from muster.model.status import ACTIVE_ALLOCATED, TaskStatus


@dataclass(frozen=True, slots=True)
class Work:
    """Jobs by key."""

    gpus: Mapping[str, float]
    """That each asks for, of all its pods."""
    held: frozenset[str]
    """Jobs of which some pod has its place."""
    pending: frozenset[str]
    """Jobs of which some pod waits."""
    limits_s: Mapping[str, float]
    """After which jobs are ended."""

    def limit_s(self, job: str) -> float:
        return self.limits_s.get(job, np.inf)


def work_of(tasks: Iterable[TaskRecord]) -> Work:
    """Of all tasks of a cluster."""
    gpus: dict[str, float] = {}
    held, pending = set[str](), set[str]()
    limits_s: dict[str, float] = {}
    for task in tasks:
        gpus[task.job] = gpus.get(task.job, 0.0) + gpus_of(task)
        limits_s[task.job] = max(limits_s.get(task.job, 0.0), ended_after_s((task,)))
        if task.status in ACTIVE_ALLOCATED:
            held.add(task.job)
        elif task.status is TaskStatus.PENDING:
            pending.add(task.job)
    return Work(gpus, frozenset(held), frozenset(pending), limits_s)


def age_s(job: JobRecord, now_s: float) -> float:
    """How long it has run."""
    return 0.0 if job.last_start_s is None else max(now_s - job.last_start_s, 0.0)


def expected_ends(
    records: ClusterRecords, past: Iterable[PastRun], now_s: float
) -> Mapping[str, float]:
    """When half of the jobs like each that runs have ended; of those of which nothing is known, and
    of services, nothing.
    """
    work = work_of(records.tasks)
    running = [
        (job, work.gpus[job.key], age_s(job, now_s)) for job in records.jobs if job.key in work.held
    ]
    runtimes = Runtimes(past, running)
    found: dict[str, float] = {}
    for job, gpus, age in running:
        known = None if is_service(job) else runtimes.of(job, gpus, work.limit_s(job.key))
        if known is not None:
            found[job.key] = now_s + known.median_after_s(age) - age
    return found
