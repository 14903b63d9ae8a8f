"""What jobs hold, times how long they hold it: exact sums from one change to the next.

Whoever watches jobs says what a job holds whenever that changes (`set_job`), and takes the sums
from time to time (`take`). Sums are cut at the edges of buckets and of days, so that taking them
more often adds nothing. No clock, no files: moments are arguments.

A stretch longer than `GAP_MAX_S` in which nothing was taken is no knowledge: the process stood
still, or the machine slept. Nothing accrues in it, neither use nor capacity.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from muster.numerics.arrays import Floats
from muster.numerics.axis import QUEUE_GPU, QUEUE_WIDTH

BUCKET_S: Final = 300
DAY_S: Final = 86_400
GAP_MAX_S: Final = 600.0
CLUSTER: Final = ""
"""Under this name stands what the nodes have."""


@dataclass(frozen=True, slots=True)
class JobLevel:
    """What is so of a job between two changes. Amounts are by `axis.QUEUE_RESOURCES`, in cores,
    bytes and GPUs."""

    queue: str
    user: str = ""
    held: tuple[float, ...] = (0.0,) * QUEUE_WIDTH
    idle_gpus: float = 0.0
    """Those of them that do no work."""
    is_waiting: bool = False
    work_since_s: float | None = None
    """When it started, or last saved its work: an eviction loses what came after."""
    evicted_s: float | None = None
    """When it was last evicted."""


@dataclass(frozen=True, slots=True)
class AccountKey:
    day: int
    """Days since 1970, UTC."""
    queue: str
    user: str
    job: str


@dataclass(slots=True)
class AccountSums:
    """What one job did in one day, in seconds and GPU-seconds."""

    gpu_s: float = 0.0
    idle_gpu_s: float = 0.0
    wait_s: float = 0.0
    evictions: int = 0
    lost_gpu_s: float = 0.0

    def add(self, other: "AccountSums") -> None:
        self.gpu_s += other.gpu_s
        self.idle_gpu_s += other.idle_gpu_s
        self.wait_s += other.wait_s
        self.evictions += other.evictions
        self.lost_gpu_s += other.lost_gpu_s


@dataclass(slots=True)
class Sums:
    """What accrued: by start of bucket and queue (float64[queue resources]), and by account."""

    held: dict[tuple[int, str], Floats] = field(default_factory=dict)
    accounts: dict[AccountKey, AccountSums] = field(default_factory=dict)

    def add(self, other: "Sums") -> None:
        for at, amounts in other.held.items():
            self.held[at] = self.held[at] + amounts if at in self.held else amounts
        for key, sums in other.accounts.items():
            self.accounts.setdefault(key, AccountSums()).add(sums)

    def keep_newest(self, most: int) -> None:
        """At most so many of each."""
        for at in sorted(self.held)[: max(0, len(self.held) - most)]:
            del self.held[at]
        by_day = sorted(self.accounts, key=lambda key: key.day)
        for key in by_day[: max(0, len(by_day) - most)]:
            del self.accounts[key]


@dataclass(slots=True)
class _Running:
    level: JobLevel
    since_s: float
    loses: tuple[float, float] | None = None
    """After an eviction, until its pods go: the work lost by each of its GPUs, and how many GPUs it
    held. Which of them go is seen when they do."""


class Accruals:
    """Levels in, sums out. `ancestry` gives a queue and those above it."""

    def __init__(self, ancestry: Callable[[str], Sequence[str]], since_s: float) -> None:
        self._ancestry = ancestry
        self._since_s = since_s
        self._jobs: dict[str, _Running] = {}
        self._capacity: tuple[Floats, float] = (np.zeros(QUEUE_WIDTH), since_s)
        self._sums = Sums()

    def set_capacity(self, amounts: Floats, now_s: float) -> None:
        self._accrue_capacity(now_s)
        self._capacity = (amounts, now_s)

    def set_job(self, job: str, level: JobLevel | None, now_s: float) -> None:
        """What is so of a job from now on; None: it is gone."""
        running = self._jobs.get(job)
        if running is not None:
            self._accrue_job(job, running, now_s)
            self._count_loss(job, running, level, now_s)
        if level is None:
            self._jobs.pop(job, None)
            return
        loses = None if running is None else running.loses
        evicted_s = level.evicted_s
        known_s = running.level.evicted_s if running is not None else None
        # Of what happened before we looked, only what no one before us can have counted.
        is_news = known_s is None or (evicted_s or 0.0) > known_s
        if evicted_s is not None and is_news and evicted_s > self._since_s:
            held = level.held[QUEUE_GPU] if running is None else running.level.held[QUEUE_GPU]
            worked_s = evicted_s - (level.work_since_s or evicted_s)
            loses = (max(worked_s, 0.0), held)
            self._account(job, level, evicted_s).evictions += 1
        self._jobs[job] = _Running(level, now_s, loses)
        self._count_loss(job, self._jobs[job], level, now_s)

    def retain_only(self, jobs: Mapping[str, object], now_s: float) -> None:
        for job in [job for job in self._jobs if job not in jobs]:
            self.set_job(job, None, now_s)

    def take(self, now_s: float) -> Sums:
        """All that accrued since it was last taken."""
        self._accrue_capacity(now_s)
        for job, running in self._jobs.items():
            self._accrue_job(job, running, now_s)
        taken, self._sums = self._sums, Sums()
        return taken

    def _accrue_capacity(self, now_s: float) -> None:
        amounts, since_s = self._capacity
        for bucket, length_s in _pieces(since_s, now_s, BUCKET_S):
            self._hold(bucket, CLUSTER, amounts * length_s)
        self._capacity = (amounts, now_s)

    def _accrue_job(self, job: str, running: _Running, now_s: float) -> None:
        level, since_s = running.level, running.since_s
        running.since_s = now_s
        if any(level.held):
            amounts = np.array(level.held)
            for bucket, length_s in _pieces(since_s, now_s, BUCKET_S):
                for queue in self._ancestry(level.queue):
                    self._hold(bucket, queue, amounts * length_s)
        if not level.held[QUEUE_GPU] and not level.is_waiting:
            return
        for day, length_s in _pieces(since_s, now_s, DAY_S):
            account = self._account(job, level, day)
            account.gpu_s += level.held[QUEUE_GPU] * length_s
            account.idle_gpu_s += min(level.idle_gpus, level.held[QUEUE_GPU]) * length_s
            account.wait_s += length_s if level.is_waiting else 0.0

    def _count_loss(
        self, job: str, running: _Running, level: JobLevel | None, now_s: float
    ) -> None:
        if running.loses is None:
            return
        worked_s, had = running.loses
        has = 0.0 if level is None else level.held[QUEUE_GPU]
        if has < had:
            account = self._account(job, running.level, running.level.evicted_s or now_s)
            account.lost_gpu_s += (had - has) * worked_s
            running.loses = None

    def _hold(self, bucket: int, queue: str, amounts: Floats) -> None:
        held = self._sums.held
        at = (bucket, queue)
        held[at] = held[at] + amounts if at in held else amounts

    def _account(self, job: str, level: JobLevel, at_s: float) -> AccountSums:
        key = AccountKey(int(at_s // DAY_S), level.queue, level.user, job)
        return self._sums.accounts.setdefault(key, AccountSums())


def _pieces(from_s: float, to_s: float, width_s: int) -> Iterator[tuple[int, float]]:
    """The stretch cut at multiples of a width: (start of the piece's slot, length)."""
    if to_s - from_s > GAP_MAX_S:
        return
    while from_s < to_s:
        slot = math.floor(from_s / width_s) * width_s
        end_s = min(slot + width_s, to_s)
        yield slot, end_s - from_s
        from_s = end_s
