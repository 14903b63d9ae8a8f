"""Past usage from our own store, folded here: the source for clusters without Prometheus."""

from functools import partial
from pathlib import Path

import numpy as np

from muster.base.offload import Offload
from muster.model.usage import QueueUsage, UsageWindow
from muster.numerics.axis import QUEUE_RESOURCES
from muster.numerics.decay import decayed_usage
from muster.usage.accrual import BUCKET_S
from muster.usage.source import SHARE_MAX
from muster.usage.store import UsageReader, amounts_of
from muster.usage.windows import window_start_s

Bucket = tuple[bytes, ...]


class EmbeddedUsage:
    """A `Source`. Buckets that have ended are read once and kept."""

    def __init__(self, path: Path, window: UsageWindow, offload: Offload) -> None:
        self._path = path
        self._window = window
        self._offload = offload
        self._reader: UsageReader | None = None
        self._kept: dict[int, Bucket] = {}
        self._since_s = 0.0
        """All that the file has from then on is kept."""

    async def read(self, now_s: float) -> QueueUsage:
        return await self._offload(partial(self._read, now_s))

    async def close(self) -> None:
        if self._reader is not None:
            self._reader.close()

    def _read(self, now_s: float) -> QueueUsage:
        reader = self._opened()
        begin_s = window_start_s(self._window, now_s)
        if begin_s < self._since_s:
            self._kept.clear()  # The clock was set back: what was let go of counts again.
        self._since_s = begin_s
        self._kept = {at: one for at, one in self._kept.items() if at > begin_s - BUCKET_S}
        # The newest bucket may have grown since, and the one before it by sums that came late. One
        # that has not begun was written by a clock that went ahead: what comes before it grows.
        known_s = max((at for at in self._kept if at <= now_s), default=begin_s) - BUCKET_S
        self._kept.update(reader.buckets(max(begin_s, known_s)))
        names = reader.queues()
        if not self._kept:
            return QueueUsage(now_s)  # The store is new: nobody is known to have used anything.
        return folded(names, self._kept, self._window, now_s)

    def _opened(self) -> UsageReader:
        """Of the file that has the name now: another one may have been put in its place."""
        if self._reader is not None and self._reader.is_outdated():
            self._reader.close()
            self._reader = None
            self._kept.clear()
        if self._reader is None:
            self._reader = UsageReader(self._path)
        return self._reader


def folded(
    names: list[str], buckets: dict[int, Bucket], window: UsageWindow, now_s: float
) -> QueueUsage:
    """The part of the cluster that each queue held. The first of the names is the cluster's."""
    begin_s = window_start_s(window, now_s)
    starts = np.array(sorted(buckets), dtype=np.float64)
    first_s, last_s = np.maximum(starts, begin_s), np.minimum(starts + BUCKET_S, now_s)
    # A bucket that has only begun holds what was in the part that is over.
    over_s = np.minimum(starts + BUCKET_S, now_s) - starts
    inside = np.clip((last_s - first_s) / np.maximum(over_s, 1e-9), 0.0, 1.0)
    age_s = now_s - (first_s + last_s) / 2
    by_queue: dict[str, dict[str, float]] = {name: {} for name in names[1:]}
    for resource, name in enumerate(QUEUE_RESOURCES):
        held = amounts_of([buckets[int(start)][resource] for start in starts], len(names))
        held *= inside[:, np.newaxis]
        used = decayed_usage(held[:, 1:], held[:, 0], age_s, window.half_life_s)
        used = np.minimum(used, SHARE_MAX)
        for queue, part in zip(names[1:], used.tolist(), strict=True):
            by_queue[queue][name] = part
    return QueueUsage(now_s, by_queue)
