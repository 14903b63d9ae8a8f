"""Reads again the pods of which it is not known what became of a write, until it is.

A lost answer says nothing about the write: the pod stays assumed until the API server has been
read, so that nothing is given twice. Nor is anything assumed for ever: what the watch has not
confirmed in time is read as well. A pod is in the queue once; a read that fails, in whatever way,
is retried with backoff, and holds up no other.
"""

import asyncio
from collections.abc import Callable

from muster.api.core import Pod
from muster.api.kinds import BIND_REQUEST, POD
from muster.api.meta import Key
from muster.base.backoff import Backoff
from muster.base.clock import Clock
from muster.base.log import Log
from muster.client.errors import ApiError, Deposed, NotFound, Unreachable
from muster.client.read import Reader
from muster.model.status import TaskStatus
from muster.runtime.parts import ended
from muster.runtime.workqueue import WorkQueue, put_back, work_off
from muster.services.scheduler.assumptions import Assumption
from muster.services.scheduler.bind_requests import Binder
from muster.services.scheduler.cache import SchedulerCache
from muster.services.scheduler.meters import SchedulerMeters

_BACKOFF = Backoff(first_s=0.2, longest_s=30.0)
_WORKERS = 8
"""Reads at once: one that gets no answer must not hold up the others."""
BINDER_LAG_S = 5.0
"""How far the binder may lag behind a withdrawn request before it has ended what it had begun."""
ASSUMED_AT_MOST_S = 60.0
"""How long an assumption is believed that nothing confirms, counted from the end of its write."""
_LOOK_EVERY_S = 10.0


class Resync:
    """A part of the service: works until it is stopped."""

    name = "resync"

    def __init__(
        self,
        cache: SchedulerCache,
        reader: Reader,
        binder: Binder,
        clock: Clock,
        log: Log,
        meters: SchedulerMeters,
    ) -> None:
        self._cache = cache
        self._reader = reader
        self._binder = binder
        self._clock = clock
        self._log = log
        self._meters = meters
        self._queue: WorkQueue[str] = WorkQueue(clock, _BACKOFF)
        self._withdrawn: dict[str, str] = {}
        """By uid, the node on which each was to run."""
        self._if_it_stays: dict[str, Callable[[Pod], None]] = {}

    def __len__(self) -> int:
        """Pods that wait to be read."""
        return len(self._queue)

    def enqueue(self, uid: str, if_it_stays: Callable[[Pod], None] | None = None) -> None:
        """Read the pod again, and reconcile the cache with it. `if_it_stays` is called with the
        pod as it was read, unless it is gone or about to go.
        """
        if if_it_stays is not None:
            self._if_it_stays[uid] = if_it_stays
        self._queue.add(uid)

    def withdraw(self, uid: str, node: str) -> None:
        """Withdraw a decision about a pod, however far it was written; then read it again."""
        self._withdrawn[uid] = node
        self._queue.add(uid)

    async def run(self) -> None:
        looking = asyncio.ensure_future(self._look_for_overdue())
        try:
            await work_off(self._queue, _WORKERS, self._try)
        finally:
            await ended((looking,))

    def stop(self) -> None:
        self._queue.close()

    async def _look_for_overdue(self) -> None:
        """What should have been confirmed by now is not kept on trust."""
        while True:
            await self._clock.sleep(_LOOK_EVERY_S)
            overdue = self._cache.assumptions.overdue(ASSUMED_AT_MOST_S)
            for uid in overdue:
                self._queue.add(uid)
            if overdue:
                self._meters.overdue.inc(len(overdue))
                self._log.warning("assumptions not confirmed", pods=len(overdue))

    async def _try(self, uid: str) -> None:
        try:
            await self._reconcile(uid)
        except Deposed:
            raise
        except Exception as trouble:  # noqa: BLE001 - nothing that a read meets makes it unneeded
            self._retry(uid, trouble)
        else:
            self._withdrawn.pop(uid, None)
            self._queue.forget(uid)

    def _retry(self, uid: str, trouble: Exception) -> None:
        retry_after_s = put_back(self._queue, uid, trouble)
        is_expected = isinstance(trouble, ApiError | Unreachable)
        tell = self._log.debug if is_expected else self._log.error
        tell("pod state unknown", pod=uid, error=repr(trouble), retry_after_s=retry_after_s)

    async def _reconcile(self, uid: str) -> None:
        known = self._cache.pod(uid)
        if known is None:
            self._if_it_stays.pop(uid, None)
            return  # The watch has shown its end.
        before = self._cache.assumptions.get(uid)
        node = self._withdrawn.get(uid)
        if node is not None and await self._withdraw(uid, known.key, node):
            self._queue.add_after(uid, BINDER_LAG_S)
            return
        try:
            found: Pod | None = await self._reader.get(POD, known.key)
        except NotFound:
            found = None
        is_asked_for = await self._is_asked_for(uid, found, before)
        if self._cache.assumptions.get(uid) is not before:
            return  # It was decided anew meanwhile.
        if is_asked_for:
            self._cache.assumptions.renew(uid)
        else:
            self._cache.reconcile_with_server(uid, found)
        told = self._if_it_stays.pop(uid, None)
        if told is not None and found is not None and _stays(found, uid):
            told(found)

    async def _withdraw(self, uid: str, pod: Key, node: str) -> bool:
        """Whether there was, or may have been, a request that the binder could know of."""
        was_there = await self._binder.withdraw(pod, uid, node)
        return was_there or self._queue.failures(uid) > 0

    async def _is_asked_for(self, uid: str, found: Pod | None, before: Assumption | None) -> bool:
        """Whether the binder is asked to bind the pod, though the watch does not show it."""
        if found is None or found.spec.node_name or before is None or before.is_withdrawn:
            return False
        if before.status is not TaskStatus.BINDING:
            return False
        try:
            request = await self._reader.get(BIND_REQUEST, found.key)
        except NotFound:
            return False
        return request.is_live_for(uid)


def _stays(pod: Pod, uid: str) -> bool:
    return pod.metadata.uid == uid and pod.metadata.deletion_timestamp is None
