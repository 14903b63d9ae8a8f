"""The next hours: when who waits starts, and what queues hold, as a mean over drawn futures."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from muster.engine.search_time import ElapsedS, no_time_passes
from muster.foresight.arrivals import Past
from muster.foresight.course import Future, OutOfTime
from muster.foresight.forward import player
from muster.foresight.situation import Situation
from muster.foresight.when import Asked, Futures
from muster.model.status import ACTIVE_ALLOCATED
from muster.numerics.arrays import Floats, Rows

MOMENTS = 8
"""So many moments of the horizon are looked at."""
SAMPLES = 10


@dataclass(frozen=True, slots=True)
class Outlook:
    """What comes, by one policy."""

    waits_s: Mapping[str, float]
    """How long each job that waits now still waits, at least the horizon where it is longer."""
    queues: Mapping[str, str]
    """The queue of each of them."""
    moments_s: tuple[float, ...]
    held: Mapping[str, tuple[float, ...]]
    """GPUs that each queue holds at these moments."""
    why_not: str = ""
    """Why nothing can be said; then all else is empty."""

    def mean_wait_s(self, jobs: Sequence[str]) -> float:
        return float(np.mean([self.waits_s[job] for job in jobs]))


def outlook(
    situation: Situation,
    past: Past,
    asked: Asked | None = None,
    elapsed_s: ElapsedS = no_time_passes,
) -> Outlook:
    """The queue of a situation played forward."""
    asked = asked or Asked(samples=SAMPLES)
    until_s = elapsed_s() + asked.budget_s
    futures = Futures(situation, past, asked)
    everybody = [*futures.rows, *futures.comes.tolist()]
    plays = player(futures.course, everybody, lambda: elapsed_s() >= until_s)
    drawn: list[tuple[Future, Floats]] = []
    with suppress(OutOfTime):
        for sample in range(asked.samples):
            if drawn and elapsed_s() >= until_s:
                break
            future = futures.drawn(sample)
            drawn.append((future, plays(future).copy()))
    if why_not := futures.why_nothing(len(drawn)):
        return Outlook({}, {}, (), {}, why_not)
    return _told(situation, futures, drawn, asked.horizon_s)


def _told(
    situation: Situation,
    futures: Futures,
    drawn: Sequence[tuple[Future, Floats]],
    horizon_s: float,
) -> Outlook:
    now_s, jobs = situation.now_s, futures.course.snapshot.jobs
    late_s = now_s + horizon_s
    moments = now_s + horizon_s * np.arange(MOMENTS + 1) / MOMENTS
    starts = np.stack([np.nan_to_num(found, nan=late_s) for _, found in drawn])
    waits = {
        key: float(np.median(starts[:, row])) - now_s
        for key, row in zip(futures.waiting, futures.rows, strict=True)
    }
    for key in _started_now(situation) - waits.keys():
        waits[key] = 0.0
    held = _held(futures, drawn, moments)
    queues = situation.snapshot.queues.names
    return Outlook(
        waits,
        {key: jobs.records[jobs.row[key]].queue for key in waits},
        tuple(moments.tolist()),
        {name: tuple(held[row].tolist()) for row, name in enumerate(queues)},
    )


def _started_now(situation: Situation) -> set[str]:
    plan = situation.result.plan
    return {one.job for one in plan.binds} | {one.job for one in plan.nominations}


def _held(futures: Futures, drawn: Sequence[tuple[Future, Floats]], moments: Floats) -> Floats:
    """GPUs by queue and moment; jobs count from their start, with all that they ask for."""
    snapshot, keys = futures.course.snapshot, futures.course.snapshot.jobs.keys
    gpus = np.array([futures.gpus.get(key, 0.0) for key in keys])
    runs = _running(futures)
    held = np.zeros((len(snapshot.queues.names), len(moments)))
    for future, starts in drawn:
        ends = np.where(runs, future.ends_s, starts + future.runs_s)
        begins = np.where(runs, -np.inf, starts)
        for at, moment in enumerate(moments.tolist()):
            there = (begins <= moment) & (moment < ends)
            np.add.at(held[:, at], snapshot.jobs.queue[there], gpus[there])
    return held / len(drawn)


def _running(futures: Futures) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    tasks = futures.course.snapshot.tasks
    rows: Rows = np.flatnonzero(tasks.live & (tasks.job >= 0))
    active = np.isin(tasks.status[rows], [int(status) for status in ACTIVE_ALLOCATED])
    found = np.zeros(len(futures.course.snapshot.jobs.live), dtype=np.bool_)
    found[tasks.job[rows[active]]] = True
    return found


def with_same_draws(asked: Asked, situation: Situation) -> Asked:
    """Two policies are compared in the same futures, so that chance is no difference."""
    return replace(asked, seed=situation.snapshot.generation)
