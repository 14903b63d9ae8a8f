"""JobsByQueue: queues in their order, which is looked at again after every job, and their jobs."""

import heapq
from collections.abc import Iterable

from muster.engine.tiers.fold import Tiers
from muster.model.reasons import Reason, Refusal


class JobsByQueue:
    """Jobs that wait for their turn."""

    def __init__(self, tiers: Tiers, jobs: Iterable[int]) -> None:
        self._tiers = tiers
        self._queue_of = tiers.groups.snapshot.jobs.queue
        self._heaps: dict[int, list[tuple[tuple[float, ...], int]]] = {}
        for job in jobs:
            self.push_job(job)
        self._open = set(self._heaps)

    def pop_queue(self) -> int | None:
        """The queue that is first now and has jobs."""
        self._open = {queue for queue in self._open if self._heaps[queue]}
        if not self._open:
            return None
        queue = self._tiers.first_queue(sorted(self._open))
        self._open.discard(queue)
        return queue

    def push_queue(self, queue: int) -> None:
        self._open.add(queue)

    def pop_job(self, queue: int) -> int:
        return heapq.heappop(self._heaps[queue])[1]

    def push_job(self, job: int) -> None:
        heap = self._heaps.setdefault(int(self._queue_of[job]), [])
        heapq.heappush(heap, (self._tiers.job_key(job), job))

    def close(self, queue: int) -> None:
        """The queue gets nothing more: its jobs wait."""
        name = self._tiers.groups.snapshot.queues.names[queue]
        for _, job in self._heaps[queue]:
            self._tiers.session.refuse(job, (Refusal(Reason.OVER_SHARE, subject=name),))
