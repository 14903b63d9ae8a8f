"""When the mere passing of time changes what a pod counts as."""

import asyncio
import heapq
from collections.abc import Iterator

import msgspec

from muster.api import names
from muster.api.core import Pod
from muster.model.build import stuck_at_s
from muster.model.records import TaskRecord
from muster.model.status import TaskStatus

_BIND_BACKOFF_S = 10.0
"""How long a pod whose binding failed is held back, so that it does not starve the others."""
_EPSILON_S = 1e-3


class Transitions:
    """Moments to come, each with the pod that it is about. Whoever waits for the first of them
    waits for `sooner` too, because a nearer one may be added meanwhile.
    """

    def __init__(self) -> None:
        self.sooner = asyncio.Event()
        """Set when a moment was added that comes before all others."""
        self._heap: list[tuple[float, str]] = []
        self._known: set[tuple[float, str]] = set()

    def add(self, at_s: float, uid: str) -> None:
        moment = (at_s, uid)
        if moment in self._known:  # Every event of a pod says it again.
            return
        self._known.add(moment)
        heapq.heappush(self._heap, moment)
        if self._heap[0] == moment:
            self.sooner.set()

    def next_s(self) -> float | None:
        """The first of them."""
        return self._heap[0][0] if self._heap else None

    def due(self, now_s: float) -> Iterator[str]:
        """Pods whose moment has come; each moment is given once."""
        while self._heap and self._heap[0][0] <= now_s:
            moment = heapq.heappop(self._heap)
            self._known.discard(moment)
            yield moment[1]


def bind_backoff(record: TaskRecord, pod: Pod, now_s: float) -> TaskRecord:
    """A pod whose binding has just failed is held back for a while."""
    until_s = _backoff_until_s(pod)
    if record.status is not TaskStatus.PENDING or until_s is None or now_s >= until_s:
        return record
    return msgspec.structs.replace(record, status=TaskStatus.GATED)


def next_transitions(pod: Pod, stuck_after_s: float) -> Iterator[float]:
    """The times after which the pod counts as something else."""
    for at_s in (stuck_at_s(pod, stuck_after_s), _backoff_until_s(pod)):
        if at_s is not None:
            yield at_s + _EPSILON_S


def _backoff_until_s(pod: Pod) -> float | None:
    failed = pod.status.condition(names.CONDITION_POD_BOUND)
    if failed is None or failed.status != "False" or failed.last_transition_time is None:
        return None
    return failed.last_transition_time.timestamp() + _BIND_BACKOFF_S
