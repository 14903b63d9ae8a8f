"""Informer events -> keys -> reconcile, with retry.

However many events name a key, it is reconciled once at a time, and again if something happened
meanwhile. What fails is tried again after a growing pause, for ever; nothing that one key does
stops the others. `Deposed` ends it: there is nothing left for it to do.
"""

import asyncio
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from muster.api.meta import Key
from muster.base.backoff import Backoff
from muster.base.clock import Clock
from muster.base.log import Log
from muster.client.errors import Conflict, Deposed, described
from muster.client.informer import Informer
from muster.client.kinds import header
from muster.runtime.lanes import Lanes, namespace_of
from muster.runtime.meters import ControllerMeters
from muster.runtime.reconciler import Reconciler
from muster.runtime.workqueue import WorkQueue, put_back, work_off

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

# Whether a change matters to a controller: called with (old, new) as handlers are.
Matters = Callable[[T | None, T | None], bool]


_BACKOFF = Backoff(first_s=0.005, longest_s=60.0)


@dataclass(frozen=True, slots=True)
class Pace:
    """How many keys are worked on at once, and how long to wait after a failure."""

    workers: int = 1
    backoff: Backoff = _BACKOFF
    timeout_s: float | None = None
    gather_s: float = 0.0
    """How long a change waits for others of its key, so that they are looked at once."""


STEADY_PACE = Pace()


class Controller(Generic[K]):
    """Calls one reconciler for every key that may need work."""

    def __init__(
        self,
        name: str,
        reconciler: Reconciler[K],
        *,
        clock: Clock,
        log: Log,
        meters: ControllerMeters,
        pace: Pace = STEADY_PACE,
    ) -> None:
        self.name = name
        self.queue: WorkQueue[K] = WorkQueue(clock, pace.backoff)
        self._reconciler = reconciler
        self._clock = clock
        self._log = log
        self._meters = meters
        self._pace = pace
        # One worker is a promise: never two keys at the same time.
        self._lanes: Lanes[K] | None = Lanes(namespace_of) if pace.workers > 1 else None
        self._runs = False
        self._look_at_all: list[Callable[[], None]] = []
        self._measure_queue()

    def watch(
        self,
        informer: Informer[T],
        keys_of: Callable[[T], Iterable[K]],
        matters: Matters[T] | None = None,
    ) -> None:
        """Whenever an object of `informer` changes, the keys it stands for may need work.

        Both versions are asked for their keys: what an object no longer belongs to must know too.
        A controller that does not run, because another process leads, keeps no list of what it
        misses: it looks at all that is there when its time comes.
        """

        def enqueue(old: T | None, new: T | None) -> None:
            if not self._runs or (matters is not None and not matters(old, new)):
                return
            for version in (old, new):
                if version is not None:
                    for key in keys_of(version):
                        self.queue.add_after(key, self._pace.gather_s)

        def look_at_all() -> None:
            for obj in list(informer.objects.values()):
                enqueue(None, obj)

        informer.add_handler(enqueue)
        self._look_at_all.append(look_at_all)
        if self._runs:
            look_at_all()

    async def run(self) -> None:
        """Work until `stop`; then finish what has been begun."""
        self._runs = True
        for look_at_all in self._look_at_all:
            look_at_all()
        await work_off(self.queue, self._pace.workers, self._reconcile, self._lanes)

    def stop(self) -> None:
        """Begin nothing new."""
        self.queue.close()

    async def _reconcile(self, key: K) -> None:
        started_s = self._clock.monotonic_s()
        try:
            async with asyncio.timeout(self._pace.timeout_s):
                result = await self._reconciler.reconcile(key)
        except Deposed:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the next key is not to blame
            self._failed(key, error)
        else:
            self.queue.forget(key)
            again_s = result.requeue_after_s
            if again_s is not None:
                self.queue.add_after(key, again_s)
            self._count("success" if again_s is None else "requeue_after")
        took_s = self._clock.monotonic_s() - started_s
        self._meters.seconds.labels(self.name).observe(took_s)

    def _failed(self, key: K, error: Exception) -> None:
        again_s = put_back(self.queue, key, error)
        self._count("error")
        self._meters.retried.labels(self.name).inc()
        # Somebody else wrote first: that is how writers find out, and no reason to worry anybody.
        tell = self._log.debug if isinstance(error, Conflict) else self._log.warning
        tell(
            "reconcile failed",
            controller=self.name,
            key=str(key),
            error=described(error),
            failures=self.queue.failures(key),
            retry_after_s=round(again_s, 3),
        )

    def _count(self, result: str) -> None:
        self._meters.reconciled.labels(self.name, result).inc()

    def _measure_queue(self) -> None:
        added, waited = self._meters.added.labels(self.name), self._meters.waited.labels(self.name)
        self.queue.on_added = lambda _: added.inc()
        self.queue.on_waited = waited.observe
        self._meters.depth.labels(self.name).set_function(lambda: float(len(self.queue)))
        if (lanes := self._lanes) is not None:
            self._meters.long.labels(self.name).set_function(lambda: float(lanes.long))
            self._meters.held.labels(self.name).set_function(lambda: float(lanes.held))


def own_key(obj: object) -> Iterable[Key]:
    """For `watch`: the key of the object itself."""
    return (header(obj).key,)
