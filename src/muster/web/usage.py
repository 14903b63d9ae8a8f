"""Who used how much: the accounts and the series of the usage store, as the API tells them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from muster.base.offload import Offload
from muster.numerics.arrays import Floats
from muster.numerics.axis import QUEUE_GPU
from muster.usage.accounts import Account, Question, read_accounts
from muster.usage.accrual import BUCKET_S
from muster.usage.kept import UsageFolder
from muster.usage.source import NoUsage
from muster.usage.store import UsageReader, amounts_of

POINTS_MAX: Final = 600
_HOUR_S: Final = 3600.0


class UsageView(msgspec.Struct, frozen=True):
    """A line of `usage`. None: it is not known, or does not belong to what was asked by."""

    name: str
    queue: str | None
    user: str | None
    job: str | None
    day: str | None
    gpu_hours: float
    of_quota: float | None
    """GPU-hours in parts of those that its quota of now guarantees in the time that is counted."""
    borrowed_gpu_hours: float | None
    """Those above its quota of now."""
    idle: float | None
    """The part of them that did no work; None: nothing was used."""
    jobs: int
    wait_p50_s: float
    wait_p95_s: float
    evictions: int
    lost_gpu_hours: float


class Series(msgspec.Struct, frozen=True):
    """Averages between one moment and the next: `lines` has a value for each of `t`."""

    what: str
    t: list[float]
    lines: dict[str, list[float | None]]


@dataclass(frozen=True, slots=True)
class UsageFile:
    """The store of the queue controller, read only. Raises `NoUsage` where there is none."""

    path: Path | None
    offload: Offload
    kept: UsageFolder | None = None
    """What the queue controller keeps in the cluster: read where no file is named."""

    async def usage(self, question: Question, quotas: Mapping[str, float | None]) -> list[Any]:
        path = await self._path()
        return await self.offload(lambda: _usage(path, question, quotas))

    async def series(
        self, since_s: float, until_s: float, names: Sequence[str], points: int
    ) -> Series:
        """GPUs that queues held; "" among the names: what the nodes have."""
        path = await self._path()
        return await self.offload(lambda: _series(path, since_s, until_s, names, points))

    async def _path(self) -> Path:
        if self.path is not None:
            return self.path
        if self.kept is not None:
            return await self.kept.path()
        raise NoUsage(
            "no usage store is read here: start muster web with --usage-store, the file that "
            "the queue controller writes (its --usage-store)"
        )


def _usage(path: Path, question: Question, quotas: Mapping[str, float | None]) -> list[Any]:
    held = _Held.read(path, question.since_s, question.until_s)
    hours = max(question.until_s - question.since_s, 1.0) / _HOUR_S
    by_queue = tuple(question.by) == ("queue",)
    return [
        _view(one, held if by_queue else None, quotas.get(one.queue or ""), hours)
        for one in read_accounts(path, question)
    ]


def _view(one: Account, held: "_Held | None", quota: float | None, hours: float) -> UsageView:
    knows = held is not None and quota is not None
    return UsageView(
        name=" ".join(filter(None, (one.day, one.queue, one.user, one.job))),
        queue=one.queue,
        user=one.user,
        job=one.job,
        day=one.day,
        gpu_hours=one.gpu_hours,
        of_quota=one.gpu_hours / (quota * hours) if knows and quota else None,
        borrowed_gpu_hours=held.above(one.queue or "", quota)  # type: ignore[union-attr, arg-type]
        if knows
        else None,
        idle=one.idle_gpu_hours / one.gpu_hours if one.gpu_hours else None,
        jobs=one.jobs,
        wait_p50_s=one.wait_p50_s,
        wait_p95_s=one.wait_p95_s,
        evictions=one.evictions,
        lost_gpu_hours=one.lost_gpu_hours,
    )


@dataclass(frozen=True, slots=True)
class _Held:
    """GPU-seconds of each queue, bucket by bucket."""

    start_s: Floats
    """[B]"""
    over_s: Floats
    """[B]: how much of each is over; of the newest only a part."""
    by_queue: Mapping[str, Floats]
    """[B] by queue."""

    @classmethod
    def read(cls, path: Path, since_s: float, until_s: float) -> "_Held":
        reader = UsageReader(path)
        try:
            names = reader.queues()
            rows = [row for row in reader.buckets(since_s) if row[0] < until_s]
            last_s = reader.last_s()
        finally:
            reader.close()
        table = amounts_of([blobs[QUEUE_GPU] for _, blobs in rows], len(names))
        starts = np.array([start_s for start_s, _ in rows], dtype=float)
        # A clock that was set back leaves buckets that begin after all that is known: they count.
        over_s = np.where(last_s > starts, np.minimum(last_s - starts, BUCKET_S), BUCKET_S)
        return cls(starts, over_s, {name: table[:, at] for at, name in enumerate(names)})

    def above(self, queue: str, quota: float) -> float:
        """GPU-hours beyond a quota."""
        found = self.by_queue.get(queue)
        if found is None:
            return 0.0
        return float(np.maximum(found - quota * self.over_s, 0.0).sum()) / _HOUR_S


def _series(
    path: Path, since_s: float, until_s: float, names: Sequence[str], points: int
) -> Series:
    held = _Held.read(path, since_s, until_s)
    points = min(max(points, 1), POINTS_MAX)
    step_s = max(BUCKET_S, -(-(until_s - since_s) // (points * BUCKET_S)) * BUCKET_S)
    first_s = since_s // step_s * step_s
    size = max(int(-(-(until_s - first_s) // step_s)), 1)
    slot = ((held.start_s - first_s) // step_s).astype(int)
    is_in = (slot >= 0) & (slot < size)
    # A slot without any bucket is no zero: nobody looked then.
    seen_s = np.bincount(slot[is_in], held.over_s[is_in], minlength=size)
    lines: dict[str, list[float | None]] = {}
    for name in names:
        sums = (
            np.bincount(slot[is_in], held.by_queue[name][is_in], minlength=size)
            if name in held.by_queue
            else np.zeros(size)
        )
        lines[name] = [
            round(total / known_s, 3) if known_s else None
            for total, known_s in zip(sums.tolist(), seen_s.tolist(), strict=True)
        ]
    return Series("used", [first_s + at * step_s for at in range(size)], lines)
