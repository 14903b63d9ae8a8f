"""Who comes: jobs like those that came in the same hours of the days before.

A future draws of each earlier day its part, with some jitter. Where less than a day is known, what
is known is repeated.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from muster.foresight.journal.events import gpus_of
from muster.foresight.runtimes import PastRun
from muster.model.records import ClusterRecords, JobRecord, TaskRecord
from muster.model.status import TaskStatus
from muster.numerics.arrays import Floats

DAY_S = 86400.0
_DAYS = 3
"""So many days before now are looked at."""
_JITTER_S = 1800.0
_MOST = 20_000
"""So many jobs at most are expected: the first to come."""

Arrival = tuple[JobRecord, tuple[TaskRecord, ...]]


@dataclass(frozen=True, slots=True)
class Past:
    """What is known of before: jobs that ran, and jobs that came, with their pods."""

    runs: Sequence[PastRun] = ()
    arrivals: Sequence[Arrival] = ()

    @classmethod
    def of(cls, runs: Sequence[PastRun]) -> "Past":
        """What came is what ran, and what is there now (`expected` adds it)."""
        return cls(runs, [(run.job, _pods_of(run)) for run in runs if run.task is not None])


@dataclass(frozen=True)
class Expected:
    """Jobs that may come, when, and how likely each is."""

    jobs: tuple[JobRecord, ...] = ()
    tasks: tuple[TaskRecord, ...] = ()
    at_s: Floats = field(default_factory=lambda: np.zeros(0))
    chance: Floats = field(default_factory=lambda: np.zeros(0))
    gpus: Mapping[str, float] = field(default_factory=dict)

    def added_to(self, records: ClusterRecords) -> ClusterRecords:
        return msgspec.structs.replace(
            records, jobs=(*records.jobs, *self.jobs), tasks=(*records.tasks, *self.tasks)
        )

    def drawn(self, now_s: float, rand: np.random.Generator) -> Floats:
        """When each comes in one future, inf: not at all."""
        at_s = self.at_s + rand.normal(0.0, _JITTER_S, len(self.at_s))
        comes = (rand.random(len(at_s)) < self.chance) & (at_s >= now_s)
        return np.where(comes, at_s, np.inf)


def expected(past: Past, records: ClusterRecords, now_s: float, horizon_s: float) -> Expected:
    """Who may come until the horizon, at most a day ahead."""
    came = _came(past, records, now_s)
    if not came:
        return Expected()
    span_s = min(horizon_s, DAY_S)
    first_s = min(job.created_s for job, _ in came)
    found = sorted(_again(came, now_s, first_s, span_s), key=lambda one: (one[0], one[1][0].key))[
        :_MOST
    ]
    jobs, tasks = [], []
    for number, (at_s, (job, own), _) in enumerate(found):
        key = f"{job.key}+{number}"
        jobs.append(
            msgspec.structs.replace(job, key=key, uid=f"{job.uid}+{number}", created_s=at_s)
        )
        tasks += [_to_come(task, key, number) for task in own]
    return Expected(
        tuple(jobs),
        tuple(tasks),
        np.array([at_s for at_s, _, _ in found]),
        np.array([chance for _, _, chance in found]),
        {
            job.key: sum(map(gpus_of, own))
            for job, (_, (_, own), _) in zip(jobs, found, strict=True)
        },
    )


def _came(past: Past, records: ClusterRecords, now_s: float) -> list[Arrival]:
    """Everybody who came, those who wait or run included, once."""
    own: dict[str, list[TaskRecord]] = {}
    for task in records.tasks:
        own.setdefault(task.job, []).append(task)
    here = {job.key: (job, tuple(own[job.key])) for job in records.jobs if job.key in own}
    before = {job.key: (job, tasks) for job, tasks in past.arrivals}
    oldest_s = now_s - _DAYS * DAY_S
    if not before:
        return []  # who is there now says nothing of how many came and left
    since_s = max(min(job.created_s for job, _ in before.values()), oldest_s)
    return [one for one in (before | here).values() if since_s <= one[0].created_s < now_s]


def _again(
    came: Sequence[Arrival], now_s: float, first_s: float, span_s: float
) -> Iterator[tuple[float, Arrival, float]]:
    """Each of them when it would come, and its chance."""
    known_s, early_s = now_s - first_s, now_s - 2 * _JITTER_S
    for arrival in came:
        for at_s, days in _shifted(arrival[0].created_s, known_s, span_s):
            if not early_s <= at_s < now_s + span_s:
                continue
            # As many come as came, but not always: each several times with a part of the chance.
            copies = -(-_DAYS // days)
            for _ in range(copies):
                yield at_s, arrival, 1.0 / (days * copies)


def _shifted(came_s: float, known_s: float, span_s: float) -> Iterator[tuple[float, int]]:
    """When somebody would come again, and how many such days are known."""
    if known_s < DAY_S:
        step_s = max(known_s, 3600.0)
        for times in range(1, int(span_s // step_s) + 2):
            yield came_s + times * step_s, 1
        return
    whole = min(int(known_s // DAY_S), _DAYS)
    for days in range(1, whole + 1):
        yield came_s + days * DAY_S, whole


def _to_come(task: TaskRecord, job: str, number: int) -> TaskRecord:
    return msgspec.structs.replace(
        task,
        uid=f"{task.uid}+{number}",
        job=job,
        status=TaskStatus.PENDING,
        node="",
        gpu_shares=(),
        nominated_node="",
    )


def _pods_of(run: PastRun) -> tuple[TaskRecord, ...]:
    """Pods like the one that is known."""
    assert run.task is not None
    return tuple(
        msgspec.structs.replace(run.task, uid=f"{run.task.uid}.{at}") for at in range(run.pods)
    )
