"""Reads again the pods about which a write failed, until it is known what became of them.

A lost answer says nothing about the write: the pod stays assumed until the API server has been
read, so that nothing is given twice. A pod is in the queue once; a read that fails is retried with
backoff.
"""

from collections.abc import Callable

from muster.api.core import Pod
from muster.api.kinds import POD
from muster.api.meta import Key
from muster.base.backoff import Backoff
from muster.base.clock import Clock
from muster.base.log import Log
from muster.client.errors import ApiError, NotFound, Unreachable
from muster.client.read import Reader
from muster.runtime.workqueue import Closed, WorkQueue
from muster.services.scheduler.bind_requests import Binder
from muster.services.scheduler.cache import SchedulerCache

_BACKOFF = Backoff(first_s=0.2, longest_s=30.0)
BINDER_LAG_S = 5.0
"""How far the binder may lag behind a withdrawn request before it has ended what it had begun."""


class Resync:
    """A part of the service: works until it is stopped."""

    name = "resync"

    def __init__(
        self, cache: SchedulerCache, reader: Reader, binder: Binder, clock: Clock, log: Log
    ) -> None:
        self._cache = cache
        self._reader = reader
        self._binder = binder
        self._log = log
        self._queue: WorkQueue[str] = WorkQueue(clock, _BACKOFF)
        self._withdrawn: dict[str, str] = {}
        """By uid, the node on which each was to run."""
        self._if_it_stays: dict[str, Callable[[Pod], None]] = {}

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
        while True:
            try:
                uid = await self._queue.get()
            except Closed:
                return
            await self._try(uid)
            self._queue.done(uid)

    def stop(self) -> None:
        self._queue.close()

    async def _try(self, uid: str) -> None:
        try:
            await self._reconcile(uid)
        except (ApiError, Unreachable) as trouble:
            retry_after_s = self._queue.retry(uid)
            self._log.debug(
                "pod state unknown", pod=uid, error=str(trouble), retry_after_s=retry_after_s
            )
        else:
            self._withdrawn.pop(uid, None)
            self._queue.forget(uid)

    async def _reconcile(self, uid: str) -> None:
        known = self._cache.pod(uid)
        if known is None:
            self._if_it_stays.pop(uid, None)
            return  # The watch has shown its end.
        before = self._cache.assumed(uid)
        node = self._withdrawn.get(uid)
        if node is not None and await self._withdraw(uid, known.key, node):
            self._queue.add_after(uid, BINDER_LAG_S)
            return
        try:
            found: Pod | None = await self._reader.get(POD, known.key)
        except NotFound:
            found = None
        if self._cache.assumed(uid) is before:  # else it was decided anew meanwhile
            self._cache.reconcile_with_server(uid, found)
        told = self._if_it_stays.pop(uid, None)
        if told is not None and found is not None and _stays(found, uid):
            told(found)

    async def _withdraw(self, uid: str, pod: Key, node: str) -> bool:
        """Whether there was, or may have been, a request that the binder could know of."""
        was_there = await self._binder.withdraw(pod, uid, node)
        return was_there or self._queue.failures(uid) > 0


def _stays(pod: Pod, uid: str) -> bool:
    return pod.metadata.uid == uid and pod.metadata.deletion_timestamp is None
