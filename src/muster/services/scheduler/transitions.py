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

_WHY_LETTERS = 300
_BIND_BACKOFF_S = 10.0
"""How long a pod whose binding failed is held back, so that it does not starve the others."""
_EPSILON_S = 1e-3
_HEAP_SLACK = 1000


class Transitions:
    """Moments to come, each with the pod that it is about. Whoever waits for the first of them
    waits for `sooner` too, because a nearer one may be added meanwhile.
    """

    def __init__(self) -> None:
        self.sooner = asyncio.Event()
        """Set when a moment was added that comes before all others."""
        self._heap: list[tuple[float, str]] = []
        self._moments: dict[str, set[float]] = {}
        """Of each pod, those that are in the heap and still count."""

    def add(self, at_s: float, uid: str) -> None:
        moment = (at_s, uid)
        known = self._moments.setdefault(uid, set())
        if at_s in known:  # Every event of a pod says it again.
            return
        known.add(at_s)
        heapq.heappush(self._heap, moment)
        if self._heap[0] == moment:
            self.sooner.set()

    def forget(self, uid: str) -> None:
        """The pod is gone. What the heap holds of it goes with its moment, or when it is most."""
        self._moments.pop(uid, None)
        if len(self._heap) > 2 * sum(map(len, self._moments.values())) + _HEAP_SLACK:
            self._heap = [one for one in self._heap if self._counts(one)]
            heapq.heapify(self._heap)

    def _counts(self, moment: tuple[float, str]) -> bool:
        at_s, uid = moment
        return at_s in self._moments.get(uid, ())

    def next_s(self) -> float | None:
        """The first of them."""
        return self._heap[0][0] if self._heap else None

    def due(self, now_s: float) -> Iterator[str]:
        """Pods whose moment has come; each moment is given once."""
        while self._heap and self._heap[0][0] <= now_s:
            moment = heapq.heappop(self._heap)
            if not self._counts(moment):
                continue
            at_s, uid = moment
            self._moments[uid].discard(at_s)
            if not self._moments[uid]:
                del self._moments[uid]
            yield uid


def bind_backoff(record: TaskRecord, pod: Pod, now_s: float) -> TaskRecord:
    """A pod whose binding has just failed is held back for a while."""
    until_s, failed = _backoff_until_s(pod), pod.status.condition(names.CONDITION_POD_BOUND)
    if record.status is not TaskStatus.PENDING or until_s is None or now_s >= until_s:
        return record
    why = (failed.message if failed else "")[:_WHY_LETTERS] or "no reason given"
    return msgspec.structs.replace(record, status=TaskStatus.GATED, bind_failed=why)


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
