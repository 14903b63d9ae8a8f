"""JobsByQueue: queues in their order, which is looked at again after every job, and their jobs."""

import heapq
from collections.abc import Iterable
from typing import Any

from muster.engine.tiers.fold import Tiers
from muster.model.reasons import Reason, Refusal


class _InOrder:
    """A queue that compares with others as they are at this moment."""

    def __init__(self, tiers: Tiers, queue: int) -> None:
        self._tiers, self._queue = tiers, queue

    def __lt__(self, other: "_InOrder") -> bool:
        return self._tiers.queue_order(self._queue, other._queue) < 0


class JobsByQueue:
    """Jobs that wait for their turn."""

    def __init__(self, tiers: Tiers, jobs: Iterable[int]) -> None:
        self._tiers = tiers
        self._queue_of = tiers.groups.snapshot.jobs.queue
        self._heaps: dict[int, list[tuple[tuple[float, ...], int]]] = {}
        listed = list(jobs)
        for job, key in zip(listed, tiers.job_keys(listed) if listed else (), strict=True):
            self._heaps.setdefault(int(self._queue_of[job]), []).append((key, job))
        for heap in self._heaps.values():
            heapq.heapify(heap)
        self._open: list[int] = []
        self._heap: list[tuple[Any, int]] = []
        for queue in sorted(self._heaps):
            self.push_queue(queue)

    def pop_queue(self) -> int | None:
        """The queue that is first now and has jobs."""
        if self._tiers.has_tree:
            return self._first_of_all()
        while self._heap:
            queue = heapq.heappop(self._heap)[1]
            if self._heaps[queue]:
                return queue
        return None

    def _first_of_all(self) -> int | None:
        """In a tree what one queue gets may change the order of others."""
        self._open = [queue for queue in self._open if self._heaps[queue]]
        if not self._open:
            return None
        queue = self._tiers.first_queue(self._open)
        self._open.remove(queue)
        return queue

    def push_queue(self, queue: int) -> None:
        if self._tiers.has_tree:
            self._open.append(queue)
        else:
            heapq.heappush(self._heap, (_InOrder(self._tiers, queue), queue))

    def pop_job(self, queue: int) -> int:
        """The job that is first now. What others got since can only have moved one back."""
        heap = self._heaps[queue]
        # Once for each job: a key that is no number is not even as small as itself.
        for _ in range(len(heap) if self._tiers.job_keys_move else 0):
            key, job = heap[0]
            now = self._tiers.job_key(job)
            if now <= key:
                break
            heapq.heapreplace(heap, (now, job))
        return heapq.heappop(heap)[1]

    def push_job(self, job: int) -> None:
        heap = self._heaps.setdefault(int(self._queue_of[job]), [])
        heapq.heappush(heap, (self._tiers.job_key(job), job))

    def close(self, queue: int) -> None:
        """The queue gets nothing more: its jobs wait."""
        name = self._tiers.groups.snapshot.queues.names[queue]
        for _, job in self._heaps[queue]:
            self._tiers.session.refuse(job, (Refusal(Reason.OVER_SHARE, subject=name),))
