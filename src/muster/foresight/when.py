"""When waiting jobs start: many drawn futures, as an interval, or an honest "not known".

A future draws how long what runs still runs, how long what waits will run, and who comes. Seeds
follow from the generation and the number of the sample, so two replicas say the same.
"""

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np

from muster.api.names import ANNOTATION_EXPECTED_RUNTIME
from muster.engine.search_time import ElapsedS, no_time_passes
from muster.foresight.arrivals import Past, expected
from muster.foresight.course import Course, Future, OutOfTime
from muster.foresight.forward import player
from muster.foresight.runtimes import Basis, Durations, Known, Runtimes, is_service
from muster.foresight.situation import Situation
from muster.foresight.work import age_s, work_of
from muster.model.public_reasons import why_of
from muster.model.reason_codes import Category, Code
from muster.model.records import ClusterRecords, JobRecord
from muster.model.status import TaskStatus
from muster.model.tables import snapshot_of
from muster.numerics.arrays import Bools, Floats, Rows

SAMPLES = 20
SAMPLES_MIN = 5
"""Fewer say nothing of how sure they are."""
HORIZON_S = 24 * 3600.0
PERIOD_S = 10.0
_UNKNOWN_MAX = 0.2
"""The part of the GPUs that run of which nothing may be known."""
_HELD_BACK = frozenset({Code.HELD, Code.GATED})
"""What ends when somebody wants it to, and no cluster knows when."""
_LATER_MAX = 0.3
"""The part of the futures in which a job may start beyond the horizon."""


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
    of: str = ""
    """The class by which it is judged how good estimates were."""


@dataclass(frozen=True, slots=True)
class Asked:
    """How far and how often to look ahead, and how long that may take."""

    samples: int = SAMPLES
    horizon_s: float = HORIZON_S
    period_s: float = PERIOD_S
    budget_s: float = float("inf")
    is_exact: bool = False
    """Whether jobs that cannot fit have their turn in the order too: the engine's order to the
    last job, and several times the work.
    """
    seed: int | None = None
    """What is drawn follows from it; None: from the generation of the snapshot."""


def when(
    situation: Situation,
    past: Past,
    asked: Asked | None = None,
    elapsed_s: ElapsedS = no_time_passes,
) -> dict[str, Estimate]:
    """Estimates for all jobs that wait, by key."""
    asked = asked or Asked()
    until_s = elapsed_s() + asked.budget_s
    futures = Futures(situation, past, asked)
    if not futures.waiting:
        return {}
    starts = player(futures.course, futures.rows, lambda: elapsed_s() >= until_s)
    drawn: list[Floats] = []
    with suppress(OutOfTime):
        for sample in range(asked.samples):
            if drawn and elapsed_s() >= until_s:
                break
            drawn.append(starts(futures.drawn(sample))[futures.rows])
    found = np.stack(drawn, axis=1) if drawn else np.zeros((len(futures.rows), 0))
    made = (futures.estimate(at, found[at]) for at in range(len(futures.waiting)))
    return {one.job: one for one in made}


class Futures:
    """The course of all futures, and what each draws."""

    course: Course
    waiting: list[str]
    """Jobs that wait, by key."""
    rows: list[int]
    """Of each of them."""
    comes: Rows
    """Jobs that may come."""
    gpus: Mapping[str, float]
    """That each job asks for."""

    def __init__(self, situation: Situation, past: Past, asked: Asked) -> None:
        self._situation, self._asked = situation, asked
        now_s, base = situation.now_s, _started(situation)
        self._expected = expected(past, base, now_s, asked.horizon_s)
        snapshot = snapshot_of(self._expected.added_to(base))
        jobs = snapshot.jobs
        self.comes = np.array([jobs.row[one.key] for one in self._expected.jobs], dtype=np.int64)
        self.course = Course(
            snapshot,
            self.comes,
            situation.rules,
            now_s,
            asked.horizon_s,
            asked.period_s,
            asked.is_exact,
        )
        work = work_of((*base.tasks, *self._expected.tasks))
        gpus = self.gpus = work.gpus
        self._runs = [jobs.row[key] for key in sorted(work.held & jobs.row.keys())]
        # Pods of nobody's, and of groups that are not there, wait too, but for no cycle of ours.
        pending = work.pending & jobs.row.keys()
        self.waiting = sorted(pending - work.held - self._expected.gpus.keys())
        self.rows = [jobs.row[key] for key in self.waiting]
        running = [
            (jobs.records[row], gpus[jobs.keys[row]], self._age_s(row)) for row in self._runs
        ]
        runtimes = Runtimes(past.runs, running)
        self._known = {
            row: runtimes.of(jobs.records[row], gpus.get(key, 0.0), work.limit_s(key))
            for key, row in jobs.row.items()
        }
        self._groups = _groups(self._known)
        self._ages_s = np.zeros(len(jobs.live))
        self._ages_s[self._runs] = [self._age_s(row) for row in self._runs]
        self._ends: Bools = np.zeros(len(jobs.live), dtype=np.bool_)
        self._ends[self._runs] = [not is_service(jobs.records[row]) for row in self._runs]
        self._basis, self._unknown = self._what_is_known()

    def drawn(self, number: int) -> Future:
        """What one future draws."""
        given = self._asked.seed
        seed = self._situation.snapshot.generation if given is None else given
        rand = np.random.default_rng((seed, number))
        now_s, count = self.course.now_s, len(self._ages_s)
        lengths_s = np.full(count, np.inf)
        for durations, rows, unit_s, limit_s in self._groups:
            drawn_s = durations.drawn(self._ages_s[rows] / unit_s, rand) * unit_s
            lengths_s[rows] = np.maximum(np.minimum(drawn_s, limit_s), self._ages_s[rows])
        ends_s = np.where(self._ends, now_s + lengths_s - self._ages_s, np.inf)
        comes_s = np.full(count, np.inf)
        comes_s[self.comes] = self._expected.drawn(now_s, rand)
        return Future(ends_s, comes_s, lengths_s)

    def estimate(self, at: int, found: Floats) -> Estimate:
        """Of one job that waits, from when it starts in all futures."""
        key, row, samples = self.waiting[at], self.rows[at], len(found)
        record = self.course.snapshot.jobs.records[row]
        nothing = Estimate(
            key, basis=self._basis, samples=samples, of=class_of(record, self.gpus[key])
        )
        if why := self._why_not(key, row, samples):
            return replace(nothing, why_not=why)
        later = float(np.mean(np.isnan(found)))
        end_s = self._situation.now_s + self._asked.horizon_s
        within = np.where(np.isnan(found), end_s, found)
        if later > _LATER_MAX:
            why = f"in {later:.0%} of the futures it does not start within the horizon"
            return replace(nothing, not_before_s=float(within.min()), why_not=why)
        early, likely, late = np.quantile(within, (0.1, 0.5, 0.9), method="weibull").tolist()
        return replace(nothing, earliest_s=early, likely_s=likely, latest_s=late)

    def _why_not(self, key: str, row: int, samples: int) -> str:
        """Why nothing can be said of a job; "": something can."""
        refusals = self._situation.result.explanation.refusals.get(key, ())
        why = why_of(refusals)
        if why is not None and why.dominant.category in (Category.BROKEN, Category.NEVER):
            return f"it cannot start as it is: {why.dominant.code}"
        if why is not None and why.dominant.code in _HELD_BACK:
            return f"it starts when somebody lets it: {why.dominant.code}"
        if not self.course.is_simulated[row]:
            return "jobs that share GPUs are not simulated"
        return self.why_nothing(samples)

    def why_nothing(self, samples: int) -> str:
        """Why nothing can be said of anybody; "": something can."""
        if self._unknown > _UNKNOWN_MAX:
            return (
                f"of {self._unknown:.0%} of the GPUs in use nobody knows how long they will be: "
                f"owners say it by {ANNOTATION_EXPECTED_RUNTIME}"
            )
        if samples < min(SAMPLES_MIN, self._asked.samples):
            return f"there was time for {samples} of {self._asked.samples} futures: ask again later"
        return ""

    def _what_is_known(self) -> tuple[Mapping[str, float], float]:
        """Which part of the jobs has which basis; which part of the GPUs in use has none."""
        jobs = self.course.snapshot.jobs
        counts = Counter[str]()
        in_use, unknown = 0.0, 0.0
        for row in (*self._runs, *self.rows):
            found = self._known[row]
            counts[str(found.basis if found else Basis.NONE)] += 1
        for row in self._runs:
            gpus = self.gpus[jobs.keys[row]]
            in_use += gpus
            is_known = self._known[row] is not None or is_service(jobs.records[row])
            unknown += 0.0 if is_known else gpus
        total = max(sum(counts.values()), 1)
        parts = {str(basis): round(counts[str(basis)] / total, 3) for basis in Basis}
        return parts, unknown / in_use if in_use else 0.0

    def _age_s(self, row: int) -> float:
        return age_s(self.course.snapshot.jobs.records[row], self.course.now_s)


def class_of(job: JobRecord, gpus: float) -> str:
    """Jobs of one queue and about one size wait alike."""
    return f"{job.queue} {2 ** int(np.ceil(np.log2(max(gpus, 1.0))))}"


def _groups(known: Mapping[int, Known | None]) -> list[tuple[Durations, Rows, Floats, Floats]]:
    """Rows that are drawn from one distribution, with the unit and the limit of each."""
    rows: dict[int, list[int]] = {}
    durations: dict[int, Durations] = {}
    for row, found in known.items():
        if found is not None:
            rows.setdefault(id(found.durations), []).append(row)
            durations[id(found.durations)] = found.durations
    bounds = {row: (one.unit_s, one.limit_s) for row, one in known.items() if one is not None}
    return [
        (
            durations[key],
            np.array(own, dtype=np.int64),
            np.array([bounds[row][0] for row in own]),
            np.array([bounds[row][1] for row in own]),
        )
        for key, own in rows.items()
    ]


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
