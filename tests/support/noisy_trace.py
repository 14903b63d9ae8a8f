"""A trace with noisy runtimes, played on the engine: what a forecast is judged by.

Jobs come by the hour of the day, from templates whose runtimes are lognormal. Only ends and
arrivals make a cycle. Nobody is evicted.
"""

import heapq
from dataclasses import dataclass, field

import msgspec
import numpy as np

from muster.foresight.runtimes import PastRun
from muster.foresight.situation import Situation, rules_of
from muster.foresight.when import Asked, Estimate, Past, when
from muster.model.status import TaskStatus
from muster.model.tables import ClusterTables
from muster.testing import make

DAY_S = 86400.0
_QUEUES = ("a", "b")


@dataclass(frozen=True, slots=True)
class Job:
    work: make.Workload
    runs_s: float


@dataclass(slots=True)
class Judged:
    """Estimates with what then happened."""

    pairs: list[tuple[Estimate, float, float]] = field(default_factory=list)
    """The estimate, when it was made, when the job started."""

    def coverage(self) -> float:
        inside = [
            e.earliest_s <= started_s <= e.latest_s
            for e, _, started_s in self.pairs
            if e.earliest_s is not None and e.latest_s is not None
        ]
        return float(np.mean(inside))

    def error_s(self) -> float:
        return float(np.median([abs((e.likely_s or 0) - s) for e, _, s in self.pairs]))


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
        found.append(Job(work, runs * float(rand.lognormal(0, 0.5))))
    return found


def judged(jobs: list[Job], nodes: int, forecasts_s: list[float], asked: Asked) -> Judged:
    """Play the trace, forecast at some moments, and judge by what happened then."""
    rules = rules_of("actions: allocate")
    tables = ClusterTables()
    for at in range(nodes):
        tables.upsert_node(make.node(f"n{at}", gpu=8))
    for name in _QUEUES:
        tables.upsert_queue(make.queue(name, quota_gpu=nodes * 4))
    by_key = {job.work.job.key: job for job in jobs}
    events = [(job.work.job.created_s, 1, job.work.job.key) for job in jobs]
    events += [(at_s, 2, "") for at_s in forecasts_s]
    heapq.heapify(events)
    started: dict[str, float] = {}
    runs: list[PastRun] = []
    made: list[tuple[Estimate, float]] = []
    while events:
        now_s, kind, key = heapq.heappop(events)
        if kind == 2:
            came = [(j.work.job, j.work.tasks) for j in jobs if j.work.job.created_s < now_s]
            situation = Situation(tables.snapshot(), rules, now_s)
            found = when(situation, Past(runs, came), asked)
            made += [(one, now_s) for one in found.values() if one.latest_s is not None]
            continue
        work = by_key[key].work
        if kind == 1:
            tables.upsert_job(work.job)
            tables.upsert_task(work.tasks[0])
        else:
            runs.append(PastRun(work.job, work.tasks[0].gpu.devices, started[key], now_s))
            tables.remove_task(work.tasks[0].uid)
            tables.remove_job(key)
        for bind in Situation(tables.snapshot(), rules, now_s).result.plan.binds:
            own = by_key[bind.job].work
            started[bind.job] = now_s
            tables.upsert_job(msgspec.structs.replace(own.job, last_start_s=now_s))
            tables.upsert_task(
                msgspec.structs.replace(own.tasks[0], status=TaskStatus.RUNNING, node=bind.node)
            )
            heapq.heappush(events, (now_s + by_key[bind.job].runs_s, 0, bind.job))
    return Judged([(e, at_s, started[e.job]) for e, at_s in made if e.job in started])
