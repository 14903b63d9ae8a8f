"""Queue -> workers -> API server. The cycle only puts updates in line and never waits for them.

Of several updates of one object only the newest is written; updates of different objects are
written at the same time. A conflict or an object that is gone drops the update, because the next
cycle decides anew; other trouble puts it back in line behind what has come since.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from muster.api.core import Pod
from muster.api.kinds import POD, Kind
from muster.api.meta import Key
from muster.base.backoff import Backoff
from muster.base.log import Log
from muster.client.errors import (
    ApiError,
    BadObject,
    BadRequest,
    Conflict,
    Invalid,
    NotFound,
    Unreachable,
)
from muster.client.kinds import header
from muster.client.write import PatchType, Writer

_BACKOFF = Backoff(first_s=0.2, longest_s=10.0)


@dataclass(frozen=True, slots=True)
class Ended:
    """What became of an update: the version it made, or why there is none."""

    version: str = ""
    problem: ApiError | None = None


CANCELLED = Ended()


@dataclass(frozen=True, slots=True)
class Update:
    """A patch of one object. Updates with the same slot replace each other while they wait."""

    kind: Kind[Any]
    key: Key
    slot: str
    patch: Mapping[str, Any] | Sequence[Mapping[str, Any]]
    subresource: str = ""
    merges_lists: bool = False
    on_end: Callable[[Ended], None] = lambda _: None
    uid: str = ""
    """Of the object, so that another of the same name does not get this one's update."""


def pod_condition(
    pod: Pod, condition: Mapping[str, Any], on_end: Callable[[Ended], None] = lambda _: None
) -> Update:
    """A condition of a pod; the newest replaces the one that waits."""
    patch = {"status": {"conditions": [condition]}}
    uid = pod.metadata.uid
    return Update(POD, pod.key, "condition", patch, "status", True, on_end, uid)


Slot = tuple[str, Key, str]


class StatusUpdater:
    """A part of the service: runs its workers until it is stopped."""

    name = "status updater"

    def __init__(self, writer: Writer, log: Log, workers: int = 5) -> None:
        self._writer = writer
        self._log = log
        self._workers = workers
        self._waiting: OrderedDict[Slot, Update] = OrderedDict()
        self._slot_names: set[str] = set()
        """The few topics of updates, so that an object's are found without a search."""
        self._is_waking = False
        self._in_flight: set[Slot] = set()
        self._failures: dict[Slot, int] = {}
        self._wanted = asyncio.Condition()
        self._stopped = False

    def put(self, update: Update) -> None:
        """In line; in place of an older update of the same thing that is still waiting."""
        slot = (update.kind.kind, update.key, update.slot)
        self._waiting[slot] = update
        self._slot_names.add(update.slot)
        if not self._is_waking:
            self._is_waking = True
            asyncio.get_running_loop().call_soon(self._wake)

    def cancel(self, kind: Kind[Any], key: Key) -> None:
        """What waits about this object is no longer true."""
        for name in self._slot_names:
            update = self._waiting.pop((kind.kind, key, name), None)
            if update is not None:
                update.on_end(CANCELLED)

    def __len__(self) -> int:
        return len(self._waiting) + len(self._in_flight)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as workers:
            for _ in range(self._workers):
                workers.create_task(self._work())

    def stop(self) -> None:
        self._stopped = True
        asyncio.get_running_loop().call_soon(self._wake)

    async def _work(self) -> None:
        while True:
            async with self._wanted:
                await self._wanted.wait_for(lambda: self._stopped or self._next() is not None)
                slot = self._next()
                if slot is None:
                    return
                update = self._waiting.pop(slot)
                self._in_flight.add(slot)
            try:
                await self._write(slot, update)
            finally:
                async with self._wanted:
                    self._in_flight.discard(slot)
                    self._wanted.notify_all()

    def _next(self) -> Slot | None:
        """The oldest update whose object nobody is writing to."""
        return next((slot for slot in self._waiting if slot not in self._in_flight), None)

    async def _write(self, slot: Slot, update: Update) -> None:
        how = PatchType.STRATEGIC if update.merges_lists else PatchType.MERGE
        if not isinstance(update.patch, Mapping):
            how = PatchType.JSON
        try:
            stored = await self._writer.patch(
                update.kind,
                update.key,
                update.patch,
                how,
                uid=update.uid,
                subresource=update.subresource,
            )
            update.on_end(Ended(header(stored).resource_version))
        except (NotFound, Conflict, Invalid, BadRequest) as refused:
            self._log.debug("status update dropped", about=str(update.key), error=str(refused))
            update.on_end(Ended(problem=refused))
        except BadObject as unread:  # written; what came back is another's mistake
            self._log.debug("response not decoded", about=str(update.key), error=str(unread))
            update.on_end(Ended())
        except (ApiError, Unreachable) as trouble:
            await self._requeue(slot, update, trouble)
            return
        self._failures.pop(slot, None)

    async def _requeue(self, slot: Slot, update: Update, trouble: Exception) -> None:
        failures = self._failures[slot] = self._failures.get(slot, 0) + 1
        delay_s = _BACKOFF.delay_s(failures)
        self._log.debug(
            "status update requeued",
            about=str(update.key),
            error=str(trouble),
            retry_after_s=delay_s,
        )
        await self._writer.connection.clock.sleep(delay_s)
        self._waiting.setdefault(slot, update)

    def _wake(self) -> None:
        """Once for all that was put in line in one go."""
        self._is_waking = False
        task = asyncio.ensure_future(self._notify())
        task.add_done_callback(lambda done: done.exception() if not done.cancelled() else None)

    async def _notify(self) -> None:
        async with self._wanted:
            self._wanted.notify_all()
