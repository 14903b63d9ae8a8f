"""How long jobs run: what their owners say, or what others of their kind did.

Classes go from fine to coarse, and the finest with enough runs counts. Jobs that still run are part
of it: they are longer than those that ended (Kaplan-Meier), and a job that has run for a while is
drawn from those that ran longer than that.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from math import log

import msgspec
import numpy as np

from muster.model.records import JobRecord, TaskRecord
from muster.numerics.arrays import Floats

ENOUGH = 5
NEWEST = 40
_CRASH_S = 60.0
_TAIL = 0.3
"""How much longer than it has run already, on average, what outlasted all others runs on."""
_TRUSTED = np.linspace(0.75, 1.25, 9)
"""What owners say, of whom nothing is known: nobody ends on the second."""
_OF_LIMIT = np.linspace(0.25, 1.0, 9)
"""Which part of a limit is used, where nothing is known: limits are far too long."""
_LEAST = 1e-4
_SERVICES = frozenset({"Deployment", "StatefulSet", "InferenceService", "Service", "Notebook"})
_SUFFIX = re.compile(r"[-_.](?:[0-9a-f]{8,}|[0-9]+|(?=[a-z0-9]*\d)[a-z0-9]{5,10})$")


class Basis(StrEnum):
    """What an estimate rests on."""

    GIVEN = "given"
    LEARNED = "learned"
    LIMIT = "limit"
    """Only after how long it would be ended."""
    NONE = "none"


class PastRun(msgspec.Struct, frozen=True):
    """A job that ran: from all of its minimum running to its end."""

    job: JobRecord
    gpus: float
    started_s: float
    ended_s: float
    failed: bool = False
    task: TaskRecord | None = None
    """One of its pods."""
    pods: int = 1

    @property
    def ran_s(self) -> float:
        return max(self.ended_s - self.started_s, 0.0)

    @property
    def limit_s(self) -> float:
        return ended_after_s(() if self.task is None else (self.task,))


@dataclass(frozen=True, slots=True)
class Durations:
    """A distribution of runtimes: sorted lengths, and which part of all runs ended by then."""

    lengths_s: Floats
    ended: Floats
    basis: Basis

    def drawn(self, ages_s: Floats, rand: np.random.Generator) -> Floats:
        """Lengths, each longer than the age: float64[len(ages_s)]."""
        chance, tail = rand.random(len(ages_s)), rand.exponential(_TAIL, len(ages_s))
        ended = self._resampled(rand)
        below = np.searchsorted(self.lengths_s, ages_s, side="right")
        reached = np.append(0.0, ended)[below]
        at = np.searchsorted(ended, reached + (1.0 - reached) * chance)
        last = len(self.lengths_s) - 1
        least = ages_s * (1.0 + _LEAST) + _LEAST * self.lengths_s[-1]
        known = np.maximum(self.lengths_s[np.minimum(at, last)], least)
        longer = np.maximum(self.lengths_s[-1], ages_s) * (1.0 + tail)
        outlasts = np.maximum(ages_s * (1.0 + tail), least)
        found = np.where(at > last, longer, known)
        outlives = (below > last) | (reached >= 1.0)
        return np.asarray(np.where(outlives, outlasts, found), dtype=np.float64)

    def median_after(self, age_s: float) -> float:
        """How long half of those run that have run for so long."""
        below = int(np.searchsorted(self.lengths_s, age_s, side="right"))
        reached = 0.0 if below == 0 else float(self.ended[below - 1])
        at = int(np.searchsorted(self.ended, reached + (1.0 - reached) / 2))
        if below == len(self.lengths_s) or at == len(self.lengths_s):
            return max(float(self.lengths_s[-1]), age_s) * (1.0 + _TAIL * log(2.0))
        return float(self.lengths_s[at])

    def _resampled(self, rand: np.random.Generator) -> Floats:
        """`ended` as other runs of the same kind might have shown it (Bayesian bootstrap): a few
        past runs say only about how long such jobs run, and all jobs of a future share the error.
        """
        parts = np.diff(self.ended, prepend=0.0) * rand.exponential(1.0, len(self.ended))
        found: Floats = np.cumsum(parts) * (self.ended[-1] / parts.sum())
        found[-1] = self.ended[-1]
        return found

    def quantile_s(self, part: float) -> float:
        at = min(int(np.searchsorted(self.ended, part)), len(self.lengths_s) - 1)
        return float(self.lengths_s[at])


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of one job: a distribution that jobs share, in units of so many seconds."""

    durations: Durations
    unit_s: float = 1.0
    limit_s: float = np.inf
    """After which it is ended."""

    @property
    def basis(self) -> Basis:
        return self.durations.basis

    def quantile_s(self, part: float) -> float:
        return min(self.durations.quantile_s(part) * self.unit_s, self.limit_s)

    def median_after_s(self, age_s: float) -> float:
        """How long half of those run that have run for so long."""
        length_s = self.durations.median_after(age_s / self.unit_s) * self.unit_s
        return max(min(length_s, self.limit_s), age_s)


def stem(name: str) -> str:
    """A name without what was generated: digits, hashes, suffixes."""
    short = name
    for _ in range(3):
        cut = _SUFFIX.sub("", short)
        if not cut or cut == short:
            break
        short = cut
    return short


def is_service(job: JobRecord) -> bool:
    """Whether it never ends by itself."""
    return job.owner_kind in _SERVICES


def ended_after_s(tasks: Iterable[TaskRecord]) -> float:
    """When the last of them would be ended; inf: one of them never, or there are none."""
    limits = [np.inf if task.ends_after_s is None else task.ends_after_s for task in tasks]
    return max(limits, default=np.inf)


class Runtimes:
    """What is known of all classes."""

    def __init__(
        self, past: Iterable[PastRun], running: Iterable[tuple[JobRecord, float, float]] = ()
    ) -> None:
        """`running`: jobs with their GPUs and how long they have run."""
        self._ended: dict[object, list[float]] = {}
        self._ages: dict[object, list[float]] = {}
        self._ratios: dict[str, list[float]] = {}
        self._parts: list[float] = []
        self._learned: dict[object, Durations] = {}
        self._said: dict[str, Durations] = {}
        for run in past:
            if run.failed and run.ran_s < _CRASH_S:
                continue  # What crashes at once says nothing of those that run.
            for key in _classes(run.job, run.gpus):
                self._ended.setdefault(key, []).append(run.ran_s)
            if run.job.expected_runtime_s:
                ratio = run.ran_s / run.job.expected_runtime_s
                self._ratios.setdefault(run.job.user, []).append(ratio)
            if (limit_s := run.limit_s) < np.inf:
                self._parts.append(min(run.ran_s / limit_s, 1.0))
        for job, gpus, age_s in running:
            for key in _classes(job, gpus):
                self._ages.setdefault(key, []).append(age_s)

    def of(self, job: JobRecord, gpus: float, limit_s: float = np.inf) -> Known | None:
        """None: nothing is known. `limit_s`: after which it is ended."""
        if job.expected_runtime_s:
            return Known(self._said_by(job.user), job.expected_runtime_s, limit_s)
        for key in _classes(job, gpus):
            if len(self._ended.get(key, ())) >= ENOUGH:
                if key not in self._learned:
                    ended = self._ended[key][-NEWEST:]
                    self._learned[key] = kaplan_meier(ended, self._ages.get(key, ()))
                return Known(self._learned[key], 1.0, limit_s)
        return None if limit_s == np.inf else Known(self._of_limits, limit_s, limit_s)

    @cached_property
    def _of_limits(self) -> Durations:
        """Which part of their limits jobs use."""
        return _parts(self._parts[-NEWEST:], _OF_LIMIT, Basis.LIMIT)

    def _said_by(self, user: str) -> Durations:
        """What comes of what this owner says, as parts of it: by how true it was before."""
        if user not in self._said:
            ratios = self._ratios.get(user, ())[-NEWEST:]
            self._said[user] = _parts(ratios, _TRUSTED, Basis.GIVEN)
        return self._said[user]


def _parts(seen: Sequence[float], otherwise: Floats, basis: Basis) -> Durations:
    """Parts of something that was said; `otherwise` where too little was seen."""
    parts = np.sort(np.array(seen)) if len(seen) >= ENOUGH else otherwise
    ended = np.arange(1, len(parts) + 1) / len(parts)
    return Durations(np.maximum(parts, _LEAST), ended, basis)


def kaplan_meier(ended_s: Sequence[float], running_s: Sequence[float]) -> Durations:
    """Lengths of what ended, weighted so that what still runs counts as longer."""
    lengths = np.unique(np.array(ended_s))
    deaths = np.array([np.sum(np.array(ended_s) == length) for length in lengths])
    everything = np.concatenate([np.array(ended_s), np.array(running_s, dtype=np.float64)])
    at_risk = np.array([np.sum(everything >= length) for length in lengths])
    ended = 1.0 - np.cumprod(1.0 - deaths / at_risk)
    return Durations(lengths, ended, Basis.LEARNED)


def _classes(job: JobRecord, gpus: float) -> tuple[object, ...]:
    name = stem(job.key.partition("/")[2])
    return (
        (job.owner_kind, job.queue, name, gpus),
        (job.owner_kind, job.queue, name),
        (job.queue, gpus),
        (),
    )
