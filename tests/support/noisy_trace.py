"""A trace with noisy runtimes, played on the engine: what a forecast is judged by.

Jobs come by the hour of the day, from templates whose runtimes are lognormal. Only ends and
arrivals make a cycle. Nobody is evicted.
"""

import heapq
from dataclasses import dataclass, field

import msgspec
import numpy as np

from muster.foresight.arrivals import Past
from muster.foresight.calibration import UNCALIBRATED, Judged, calibration_of, triple
from muster.foresight.course import Course, Future
from muster.foresight.forward import player
from muster.foresight.runtimes import PastRun
from muster.foresight.situation import Situation, rules_of
from muster.foresight.when import Asked, Estimate, when
from muster.model.status import TaskStatus
from muster.model.tables import ClusterTables
from muster.testing import make

DAY_S = 86400.0
_QUEUES = ("a", "b")


@dataclass(frozen=True, slots=True)
class Job:
    work: make.Workload
    runs_s: float
    limit_s: float
    """What its owner declared, to be safe."""


@dataclass(frozen=True, slots=True)
class Told:
    """An estimate as it was said, when, what then happened, and what a plan by limits said."""

    estimate: Estimate
    at_s: float
    started_s: float
    by_limits_s: float

    @property
    def is_covered(self) -> bool:
        early, late = self.estimate.earliest_s, self.estimate.latest_s
        return early is not None and late is not None and early <= self.started_s <= late

    @property
    def error_s(self) -> float:
        return abs((self.estimate.likely_s or 0.0) - self.started_s)


@dataclass(slots=True)
class Judgement:
    """Estimates with what then happened."""

    told: list[Told] = field(default_factory=list)

    def coverage(self) -> float:
        return float(np.mean([one.is_covered for one in self.told]))

    def error_s(self) -> float:
        return float(np.median([one.error_s for one in self.told]))

    def error_by_limits_s(self) -> float:
        return float(np.median([abs(one.by_limits_s - one.started_s) for one in self.told]))


def trace(seed: int, days: float, nodes: int, load: float) -> list[Job]:
    """Jobs by when they come."""
    rand = np.random.default_rng(seed)
    templates = [
        (f"t{at}", (1, 1, 2, 4, 8)[at % 5], float(rand.lognormal(np.log(5400), 0.6)))
        for at in range(20)
    ]
    mean = np.mean([size * runs * np.exp(0.5**2 / 2) for _, size, runs in templates])
    per_s = load * nodes * 8 / float(mean)
    found: list[Job] = []
    limits = np.random.default_rng(seed + 1).uniform(1.2, 4.0, 100_000).tolist()
    at_s = make.NOW_S
    while at_s < make.NOW_S + days * DAY_S:
        hour = (at_s % DAY_S) / 3600
        at_s += float(rand.exponential(1 / (per_s * (1 + 0.5 * np.sin(hour / 24 * 2 * np.pi)))))
        name, size, runs = templates[int(rand.integers(len(templates)))]
        work = make.gang(
            f"{name}-{len(found):05}",
            1,
            gpu=size,
            queue=_QUEUES[len(found) % 2],
            created_s=at_s,
            owner_kind="Job",
        )
        runs_s = runs * float(rand.lognormal(0, 0.5))
        found.append(Job(work, runs_s, runs_s * limits[len(found)]))
    return found


def judged(
    jobs: list[Job], nodes: int, forecasts_s: list[float], asked: Asked, calibrates: bool = True
) -> Judgement:
    """Play the trace, forecast at some moments, and judge by what happened then."""
    return _Trial(jobs, nodes, asked, calibrates).judgement(forecasts_s)


@dataclass(frozen=True, slots=True)
class _Open:
    """An estimate whose job has not started."""

    told: Estimate
    said: Estimate
    drawn: Estimate
    at_s: float
    by_limits_s: float


class _Trial:
    def __init__(self, jobs: list[Job], nodes: int, asked: Asked, calibrates: bool) -> None:
        self._jobs = {job.work.job.key: job for job in jobs}
        self._asked, self._calibrates = asked, calibrates
        self._tables = ClusterTables()
        for at in range(nodes):
            self._tables.upsert_node(make.node(f"n{at}", gpu=8))
        for name in _QUEUES:
            self._tables.upsert_queue(make.queue(name, quota_gpu=nodes * 4))
        self._rules = rules_of("actions: allocate")
        self._started: dict[str, float] = {}
        self._runs: list[PastRun] = []
        self._open: dict[str, list[_Open]] = {}
        self._scores: list[Judged] = []
        self._told: list[Told] = []

    def judgement(self, forecasts_s: list[float]) -> Judgement:
        events = [(job.work.job.created_s, 1, key) for key, job in self._jobs.items()]
        events += [(at_s, 2, "") for at_s in forecasts_s]
        heapq.heapify(events)
        while events:
            now_s, kind, key = heapq.heappop(events)
            if kind == 2:
                self._forecast(now_s)
                continue
            (self._come if kind == 1 else self._end)(key, now_s)
            for job in self._cycle(now_s):
                heapq.heappush(events, (now_s + self._jobs[job].runs_s, 0, job))
        return Judgement(self._told)

    def _come(self, key: str, now_s: float) -> None:
        work = self._jobs[key].work
        self._tables.upsert_job(work.job)
        self._tables.upsert_task(work.tasks[0])

    def _end(self, key: str, now_s: float) -> None:
        work = self._jobs[key].work
        gpus = float(work.tasks[0].gpu.devices)
        self._runs.append(PastRun(work.job, gpus, self._started[key], now_s, False, work.tasks[0]))
        self._tables.remove_task(work.tasks[0].uid)
        self._tables.remove_job(key)

    def _cycle(self, now_s: float) -> list[str]:
        """Who starts."""
        binds = Situation(self._tables.snapshot(), self._rules, now_s).result.plan.binds
        for bind in binds:
            own = self._jobs[bind.job].work
            self._started[bind.job] = now_s
            self._tables.upsert_job(msgspec.structs.replace(own.job, last_start_s=now_s))
            self._tables.upsert_task(
                msgspec.structs.replace(own.tasks[0], status=TaskStatus.RUNNING, node=bind.node)
            )
            self._judge(bind.job, now_s)
        return [bind.job for bind in binds]

    def _forecast(self, now_s: float) -> None:
        situation = Situation(self._tables.snapshot(), self._rules, now_s)
        past = Past.of(self._runs)
        calibration = calibration_of(self._scores) if self._calibrates else UNCALIBRATED
        found = when(situation, past, self._asked)
        limits = self._by_limits(situation)
        for key, one in found.items():
            if one.latest_s is not None:
                told = calibration.applied(one, now_s)
                open_ = _Open(told, calibration.widened(one, now_s), one, now_s, limits[key])
                self._open.setdefault(key, []).append(open_)

    def _judge(self, key: str, now_s: float) -> None:
        for one in self._open.pop(key, ()):
            if one.told.latest_s is not None:
                self._told.append(Told(one.told, one.at_s, now_s, one.by_limits_s))
            said, drawn = triple(one.said), triple(one.drawn)
            self._scores.append(Judged(one.drawn.of, one.at_s, now_s, said, drawn))

    def _by_limits(self, situation: Situation) -> dict[str, float]:
        """Slurm's way: limits as runtimes, nobody comes."""
        jobs = situation.snapshot.jobs
        count = len(jobs.live)
        ends_s, runs_s = np.full(count, np.inf), np.full(count, np.inf)
        for key, row in jobs.row.items():
            runs_s[row] = self._jobs[key].limit_s
            if key in self._started:
                ends_s[row] = max(self._started[key] + runs_s[row], situation.now_s)
        rows = [row for key, row in jobs.row.items() if key not in self._started]
        none = np.zeros(0, dtype=np.int64)
        far_s = 30 * DAY_S
        course = Course(
            situation.snapshot, none, self._rules, situation.now_s, far_s, 10.0, is_exact=True
        )
        future = Future(ends_s, np.full(count, np.inf), runs_s)
        found = player(course, rows)(future)
        return {jobs.keys[row]: float(np.nan_to_num(found[row], nan=far_s)) for row in rows}
