"""When waiting jobs start: many drawn futures, as an interval, or an honest "not known".

A future draws how long what runs still runs, how long what waits will run, and who comes. Seeds
follow from the generation and the number of the sample, so two replicas say the same.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from muster.engine.search_time import ElapsedS, no_time_passes
from muster.foresight.forward import Course, starts
from muster.foresight.journal.events import gpus_of
from muster.foresight.runtimes import Basis, Durations, PastRun, Runtimes, is_service
from muster.foresight.situation import Situation
from muster.model.public_reasons import why_of
from muster.model.reason_codes import Category
from muster.model.records import ClusterRecords, JobRecord, TaskRecord
from muster.model.status import ACTIVE_ALLOCATED, TaskStatus
from muster.model.tables import snapshot_of

SAMPLES = 20
HORIZON_S = 24 * 3600.0
PERIOD_S = 10.0
_UNKNOWN_MAX = 0.2
"""The part of the GPUs that run of which nothing may be known."""
_LATER_MAX = 0.3
"""The part of the futures in which a job may start beyond the horizon."""
_DAY_S = 86400.0
_DAYS = 3
"""So many days before now are looked at for who comes."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """When a job starts, or why nobody can say."""

    job: str
    earliest_s: float | None = None
    likely_s: float | None = None
    latest_s: float | None = None
    not_before_s: float | None = None
    why_not: str = ""
    basis: Mapping[str, float] = field(default_factory=dict)
    """Of the jobs that run or wait: the part with a runtime given, learned, or not known."""
    samples: int = 0


@dataclass(frozen=True, slots=True)
class Past:
    """What is known of before: jobs that ran, and jobs that came, with their pods."""

    runs: Sequence[PastRun] = ()
    arrivals: Sequence[tuple[JobRecord, tuple[TaskRecord, ...]]] = ()

    @classmethod
    def of(cls, runs: Sequence[PastRun]) -> "Past":
        """What came is what ran: whoever never ran is not in it."""
        return cls(runs, [(run.job, _pods_of(run)) for run in runs if run.task is not None])


@dataclass(frozen=True, slots=True)
class Asked:
    """How far and how often to look ahead, and how long that may take."""

    samples: int = SAMPLES
    horizon_s: float = HORIZON_S
    period_s: float = PERIOD_S
    budget_s: float = float("inf")


def when(
    situation: Situation,
    past: Past,
    asked: Asked | None = None,
    elapsed_s: ElapsedS = no_time_passes,
) -> dict[str, Estimate]:
    """Estimates for all jobs that wait, by key."""
    asked = asked or Asked()
    future = _Future(situation, past, asked)
    if not future.waiting:
        return {}
    until_s = elapsed_s() + asked.budget_s
    drawn: list[Mapping[int, float]] = []
    for sample in range(asked.samples):
        if drawn and elapsed_s() >= until_s:
            break
        drawn.append(future.sample(sample))
    return {key: future.estimate(key, drawn) for key in future.waiting}


class _Future:
    """The course of all samples, and what each draws."""

    def __init__(self, situation: Situation, past: Past, asked: Asked) -> None:
        self._situation = situation
        self._asked = asked
        now_s = situation.now_s
        came = _of_the_same_hours(past, now_s, asked.horizon_s)
        self._days = max(len({shift_s for _, _, shift_s in came}), 1)
        base = _started(situation)
        records = _with_arrivals(base, came)
        self._course = Course(
            snapshot_of(records), situation.rules, now_s, asked.horizon_s, asked.period_s
        )
        jobs = self._course.snapshot.jobs
        gpus = Counter[str]()
        held: set[str] = set()
        pending: set[str] = set()
        for task in records.tasks:
            gpus[task.job] += gpus_of(task)  # type: ignore[assignment]
            if task.status in ACTIVE_ALLOCATED:
                held.add(task.job)
            elif task.status is TaskStatus.PENDING:
                pending.add(task.job)
        self._runs = [jobs.row[key] for key in sorted(held & jobs.row.keys())]
        running = [
            (jobs.records[row], float(gpus[jobs.keys[row]]), self._age_s(row)) for row in self._runs
        ]
        self._runtimes = Runtimes(past.runs, running)
        self._durations: dict[int, Durations | None] = {
            row: self._runtimes.of(jobs.records[row], float(gpus[key]))
            for key, row in jobs.row.items()
        }
        self._arrivals = [
            (job.created_s + shift_s, jobs.row[f"{job.key}+"]) for job, _, shift_s in came
        ]
        self._gpus = gpus
        self.waiting = sorted(pending - held)

    def sample(self, number: int) -> Mapping[int, float]:
        """One future: when jobs start, by row."""
        rand = np.random.default_rng((self._situation.snapshot.generation, number))
        jobs, now_s = self._course.snapshot.jobs, self._course.now_s
        ends_s = {}
        for row in self._runs:
            durations = self._durations[row]
            if durations is not None and not is_service(jobs.records[row]):
                age_s = self._age_s(row)
                ends_s[row] = now_s + durations.drawn(age_s, rand) - age_s
        # Who comes differs from day to day, and when: of each day its part, with some jitter.
        comes = [
            (max(at_s + float(rand.normal(0.0, 1800.0)), now_s), row)
            for at_s, row in self._arrivals
            if rand.random() < 1.0 / self._days
        ]
        known = {
            row: float("inf") if found is None else found.drawn(0.0, rand)
            for row, found in self._durations.items()
        }
        asked = frozenset(jobs.row[key] for key in self.waiting)
        return starts(self._course, ends_s, comes, known.__getitem__, asked)

    def estimate(self, key: str, drawn: Sequence[Mapping[int, float]]) -> Estimate:
        situation, row = self._situation, self._course.snapshot.jobs.row[key]
        basis, unknown = self._basis()
        why = why_of(situation.result.explanation.refusals.get(key, ()))
        no_answer = ""
        if why is not None and why.dominant.category in (Category.BROKEN, Category.NEVER):
            no_answer = f"it cannot start as it is: {why.dominant.code}"
        elif not self._course.is_simulated[row]:
            no_answer = "jobs that share GPUs are not simulated"
        elif unknown > _UNKNOWN_MAX:
            no_answer = f"of {unknown:.0%} of the GPUs in use nobody knows how long they will be"
        if no_answer:
            return Estimate(key, why_not=no_answer, basis=basis, samples=len(drawn))
        end_s = situation.now_s + self._asked.horizon_s
        found = np.array([sample.get(row, np.inf) for sample in drawn])
        later = float(np.mean(np.isinf(found)))
        within = np.minimum(found, end_s)
        early, likely, late = np.quantile(within, (0.1, 0.5, 0.9), method="weibull")
        if later > _LATER_MAX:
            first_s = float(within.min())
            return Estimate(
                key,
                not_before_s=first_s,
                why_not=f"in {later:.0%} of the futures it does not start within the horizon",
                basis=basis,
                samples=len(drawn),
            )
        return Estimate(key, float(early), float(likely), float(late), None, "", basis, len(drawn))

    def _basis(self) -> tuple[Mapping[str, float], float]:
        """Which part of the jobs has which basis; which part of the GPUs in use has none."""
        jobs = self._course.snapshot.jobs
        counts = Counter[str]()
        in_use, unknown = 0.0, 0.0
        running = set(self._runs)
        for row in (*self._runs, *(jobs.row[key] for key in self.waiting)):
            found = self._durations[row]
            counts[str(found.basis if found else Basis.NONE)] += 1
            if row in running:
                in_use += self._gpus[jobs.keys[row]]
                is_known = found is not None or is_service(jobs.records[row])
                unknown += 0.0 if is_known else self._gpus[jobs.keys[row]]
        total = max(sum(counts.values()), 1)
        parts = {str(basis): round(counts[str(basis)] / total, 3) for basis in Basis}
        return parts, unknown / in_use if in_use else 0.0

    def _age_s(self, row: int) -> float:
        since_s = self._course.snapshot.jobs.records[row].last_start_s
        return 0.0 if since_s is None else max(self._course.now_s - since_s, 0.0)


def _pods_of(run: PastRun) -> tuple[TaskRecord, ...]:
    """Pods like the one that is known."""
    assert run.task is not None
    return tuple(
        msgspec.structs.replace(run.task, uid=f"{run.task.uid}.{at}") for at in range(run.pods)
    )


def _started(situation: Situation) -> ClusterRecords:
    """The cluster once what was just decided has happened: who was promised room has it, who was
    evicted waits again, who leaves has left.
    """
    records = situation.left
    evicted = {evict.task for evict in situation.result.plan.evictions}
    tasks = []
    for task in records.tasks:
        if task.status is TaskStatus.RELEASING and task.uid not in evicted:
            continue
        if task.uid in evicted:
            task = msgspec.structs.replace(task, status=TaskStatus.PENDING, node="", gpu_shares=())
        elif task.status is TaskStatus.PIPELINED:
            task = msgspec.structs.replace(task, status=TaskStatus.RUNNING)
        tasks.append(task)
    return msgspec.structs.replace(records, tasks=tuple(tasks))


def _of_the_same_hours(
    past: Past, now_s: float, horizon_s: float
) -> list[tuple[JobRecord, tuple[TaskRecord, ...], float]]:
    """Who came in these hours of the days before, with how long ago that was."""
    return [
        (job, tasks, days * _DAY_S)
        for days in range(1, _DAYS + 1)
        for job, tasks in past.arrivals
        if now_s <= job.created_s + days * _DAY_S < now_s + min(horizon_s, _DAY_S)
    ]


def _with_arrivals(
    records: ClusterRecords,
    came: Iterable[tuple[JobRecord, tuple[TaskRecord, ...], float]],
) -> ClusterRecords:
    """Those who came days ago, as jobs that will come: gated until then."""
    jobs, tasks = [], []
    for job, own, shift_s in came:
        key = f"{job.key}+"
        created_s = job.created_s + shift_s
        jobs.append(msgspec.structs.replace(job, key=key, uid=f"{job.uid}+", created_s=created_s))
        tasks += [
            msgspec.structs.replace(
                task,
                uid=f"{task.uid}+",
                job=key,
                status=TaskStatus.GATED,
                node="",
                gpu_shares=(),
                nominated_node="",
            )
            for task in own
        ]
    return msgspec.structs.replace(
        records, jobs=(*records.jobs, *jobs), tasks=(*records.tasks, *tasks)
    )
