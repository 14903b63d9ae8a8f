"""Questions about a cluster of 1,000 nodes and some 10,000 pods: why, plan, when."""

import time

import msgspec
import numpy as np

from benchmarks.cases.search_loads import mixed
from benchmarks.registry import Measured, case
from muster.foresight.arrivals import Past
from muster.foresight.plan import Submission, plan
from muster.foresight.situation import Situation
from muster.foresight.variants import Variants
from muster.foresight.when import Asked, when
from muster.foresight.why import Questions, State
from muster.model.records import ClusterRecords
from muster.testing import make

_NOW_S = 1.7e9
_NODES, _QUEUES = 1000, 50
_FUTURES = 10


def _questions(pending: int = 500) -> Questions:
    situation = Situation.of(mixed(_NODES, pending, _QUEUES), _NOW_S)
    questions = Questions(situation, time.process_time)
    _ = questions.state, questions.places
    return questions


def _timed(times: list[float]) -> Measured:
    return {
        "seconds": float(np.quantile(times, 0.95)),
        "median_s": float(np.median(times)),
        "worst_s": max(times),
        "questions": len(times),
    }


@case("why", why="a question with its smallest changes; the 95th percentile")
def why() -> Measured:
    questions = _questions()
    waiting = [
        job
        for job in sorted(questions.situation.snapshot.jobs.row)
        if questions.job_state(job) is State.WAITING
    ]
    times = []
    for job in waiting[:: max(len(waiting) // 32, 1)]:
        began = time.process_time()
        questions.why(job)
        times.append(time.process_time() - began)
    return _timed(times)


@case("plan", why="a manifest planned on the live state; the 95th percentile")
def planned() -> Measured:
    questions = _questions()
    state, times = Variants(questions.situation.records), []
    for size in (1, 1, 2, 4, 8, 16, 32, 64):
        work = make.gang(f"new-{size}", size, gpu=1, queue="queue-007")
        began = time.process_time()
        plan(questions.situation, state, Submission((work.job,), work.tasks, "m"))
        times.append(time.process_time() - began)
    return _timed(times)


@case("when", why="estimates for all that wait, 24 hours ahead, in ten futures")
def whens() -> Measured:
    records = _with_runtimes(mixed(_NODES, 2000, _QUEUES))
    situation = Situation.of(records, _NOW_S)
    _ = situation.left
    when(situation, Past(), Asked(samples=1, horizon_s=60.0))  # kernels are there
    began = time.process_time()
    found = when(situation, Past(), Asked(samples=_FUTURES))
    return {
        "seconds": time.process_time() - began,
        "samples": _FUTURES,
        "jobs": len(found),
        "answered": sum(one.latest_s is not None for one in found.values()),
    }


def _with_runtimes(records: ClusterRecords) -> ClusterRecords:
    rand = np.random.default_rng(1)
    lengths = rand.lognormal(np.log(4 * 3600), 0.8, len(records.jobs))
    jobs = tuple(
        msgspec.structs.replace(
            job, expected_runtime_s=float(length), last_start_s=_NOW_S - float(length) / 2
        )
        for job, length in zip(records.jobs, lengths, strict=True)
    )
    return msgspec.structs.replace(records, jobs=jobs)
