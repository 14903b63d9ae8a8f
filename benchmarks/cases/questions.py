"""A scheduler that decides while people ask: ten questions a second in the process beside it."""

import multiprocessing
import time
from multiprocessing.synchronize import Event

import numpy as np

from benchmarks.cases.search_loads import mixed
from benchmarks.registry import Measured, case
from muster.foresight.situation import Situation, decided
from muster.foresight.why import Questions, State

_NOW_S = 1.7e9
_NODES, _PENDING, _QUEUES = 1000, 500, 50
_PER_SECOND = 10
_ROUNDS, _CYCLES = 4, 10


@case("questions-beside", why="a cycle while ten questions a second are asked, and without them")
def beside(nodes: int = _NODES, pending: int = _PENDING, rounds: int = _ROUNDS) -> Measured:
    """By turns in one run, so that the machine is the same one for both."""
    context = multiprocessing.get_context("spawn")
    ready, asks, ends = context.Event(), context.Event(), context.Event()
    answered = context.Value("i", 0)
    asker = context.Process(
        target=_ask, args=(nodes, pending, ready, asks, ends, answered), daemon=True
    )
    asker.start()
    situation = Situation.of(mixed(nodes, pending, _QUEUES), _NOW_S)
    _cycles(situation)  # kernels are there
    ready.wait()
    times: dict[bool, list[float]] = {False: [], True: []}
    asked_s = 0.0
    for _ in range(rounds):
        for is_asked in (False, True):
            (asks.set if is_asked else asks.clear)()
            began = time.perf_counter()
            times[is_asked] += _cycles(situation)
            asked_s += time.perf_counter() - began if is_asked else 0.0
    ends.set()
    asks.set()
    asker.join(30.0)
    quiet, busy = (float(np.median(times[is_asked])) for is_asked in (False, True))
    return {
        "seconds": busy,
        "times_slower": busy / quiet,
        "quiet_s": quiet,
        "answers_per_s": answered.value / asked_s,
    }


def _cycles(situation: Situation) -> list[float]:
    times = []
    for _ in range(_CYCLES):
        began = time.perf_counter()
        decided(situation.snapshot, situation.rules, situation.now_s)
        times.append(time.perf_counter() - began)
    return times


def _ask(
    nodes: int, pending: int, ready: Event, asks: Event, ends: Event, answered: "object"
) -> None:
    """What `muster web` does with questions."""
    questions = Questions(Situation.of(mixed(nodes, pending, _QUEUES), _NOW_S), time.perf_counter)
    waiting = [
        job
        for job in sorted(questions.situation.snapshot.jobs.row)
        if questions.job_state(job) is State.WAITING
    ]
    _ = questions.state, questions.places
    questions.why(waiting[0])
    ready.set()
    at = 0
    while not ends.is_set():
        asks.wait()
        began = time.perf_counter()
        questions.why(waiting[at % len(waiting)])
        at += 1
        answered.value = at  # type: ignore[attr-defined]
        time.sleep(max(1.0 / _PER_SECOND - (time.perf_counter() - began), 0.0))
