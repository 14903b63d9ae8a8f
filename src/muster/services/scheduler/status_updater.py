"""Queue -> workers -> API server. The cycle only puts updates in line and never waits for them.

Of several updates of one object only the newest is written; updates of different objects are
written at the same time. A conflict or an object that is gone drops the update, because the next
cycle decides anew; other trouble puts it aside for a while that grows with each failure. What waits
so holds no worker, nor does a write that takes long, and nothing that goes wrong with one update is
felt by another.
"""

import asyncio
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
    Deposed,
    Invalid,
    NotFound,
    asked_wait_s,
)
from muster.client.kinds import header
from muster.client.limits import LONG_S, Lane
from muster.client.write import PatchType, Writer
from muster.runtime.workqueue import Closed, WorkQueue
from muster.services.scheduler.slow_namespaces import SlowNamespaces

_BACKOFF = Backoff(first_s=0.2, longest_s=10.0)
_BACKOFF_REFUSED = Backoff(first_s=0.2, longest_s=300.0)
"""Where somebody would have to change a permission first."""


@dataclass(frozen=True, slots=True)
class Written:
    """The update is in the API server."""

    version: str = ""
    """The resource version that it made; empty where the answer could not be read."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """The API server refused it, and it is not repeated."""

    problem: ApiError


@dataclass(frozen=True, slots=True)
class Cancelled:
    """It was no longer true before it was written."""


Ended = Written | Dropped | Cancelled
"""What became of an update."""


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
    pod: Pod,
    condition: Mapping[str, Any],
    on_end: Callable[[Ended], None] = lambda _: None,
    slot: str = "condition",
) -> Update:
    """A condition of a pod; the newest replaces the one that waits."""
    patch = {"status": {"conditions": [condition]}}
    return Update(POD, pod.key, slot, patch, "status", True, on_end, pod.metadata.uid)


Slot = tuple[str, Key, str]


@dataclass(frozen=True, slots=True)
class _Waiting:
    """The newest update of its slot."""

    update: Update
    since_s: float
    """Since when the slot has something unwritten: an update that replaces another does not begin
    anew."""


class StatusUpdater:
    """A part of the service: runs its workers until it is stopped."""

    name = "status updater"

    def __init__(self, writer: Writer, log: Log, workers: int = 5) -> None:
        self._writer = writer
        self._log = log
        self._workers = workers
        self._clock = writer.connection.clock
        self._queue: WorkQueue[Slot] = WorkQueue(self._clock)
        self._waiting: dict[Slot, _Waiting] = {}
        self._slot_names: set[str] = set()
        """The few topics of updates, so that an object's are found without a search."""
        self._in_flight: set[Slot] = set()
        self._revoked: set[Slot] = set()
        """Of those in flight: cancelled meanwhile, so not written again if that fails."""
        self._failures: dict[Slot, int] = {}
        """Of slots whose last write failed and is to be repeated; no others."""
        self._slow: SlowNamespaces[Slot] = SlowNamespaces()
        self._stopped = False

    def put(self, update: Update) -> None:
        """In line; in place of an older update of the same thing that is still waiting."""
        slot = (update.kind.kind, update.key, update.slot)
        known = self._waiting.get(slot)
        since_s = self._clock.monotonic_s() if known is None else known.since_s
        self._waiting[slot] = _Waiting(update, since_s)
        self._slot_names.add(update.slot)
        # One that is being written, or put aside, comes into line when that has ended.
        if slot not in self._in_flight and slot not in self._failures:
            self._queue.add(slot)

    def cancel(self, kind: Kind[Any], key: Key) -> None:
        """What waits about this object is no longer true."""
        for name in self._slot_names:
            slot = (kind.kind, key, name)
            if slot in self._in_flight:
                self._revoked.add(slot)
            waiting = self._waiting.pop(slot, None)
            if waiting is not None:
                self._failures.pop(slot, None)
                self._end(waiting.update, Cancelled())

    def __len__(self) -> int:
        return len(self._waiting) + len(self._in_flight)

    @property
    def oldest_s(self) -> float:
        """For how long the oldest update that waits has waited; 0 where none does."""
        since_s = min((one.since_s for one in self._waiting.values()), default=None)
        return 0.0 if since_s is None else self._clock.monotonic_s() - since_s

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(self._workers):
                tasks.create_task(self._work(tasks))

    def stop(self) -> None:
        """What waits is tried once more; nothing is repeated."""
        self._stopped = True
        self._queue.close()

    async def _work(self, tasks: asyncio.TaskGroup) -> None:
        while (slot := await self._next()) is not None:
            try:
                await self._write_waiting(slot, tasks)
            finally:
                self._queue.done(slot)

    async def _write_waiting(self, slot: Slot, tasks: asyncio.TaskGroup) -> None:
        """Returns when it is written, or goes on by itself."""
        namespace = slot[1].namespace
        if slot not in self._waiting or not (self._stopped or self._slow.begins(namespace, slot)):
            return
        waiting = self._waiting.pop(slot)
        self._in_flight.add(slot)
        writing = tasks.create_task(self._write_out(slot, waiting))
        done, _ = await asyncio.wait((writing,), timeout=LONG_S)
        if done:
            self._ended(namespace, was_long=False)
        else:
            self._slow.lasts_long(namespace)
            writing.add_done_callback(lambda _: self._ended(namespace, was_long=True))

    def _ended(self, namespace: str, was_long: bool) -> None:
        if not self._stopped:
            for slot in self._slow.ended(namespace, was_long):
                self._queue.add(slot)

    async def _write_out(self, slot: Slot, waiting: _Waiting) -> None:
        try:
            trouble = await self._write(waiting.update)
        finally:
            self._in_flight.discard(slot)
        self._put_back(slot, waiting, trouble)

    async def _next(self) -> Slot | None:
        """What to write next; None when all is written and nothing more will come."""
        try:
            return await self._queue.get()
        except Closed:
            return next((slot for slot in self._waiting if slot not in self._in_flight), None)

    def _put_back(self, slot: Slot, written: _Waiting, trouble: Exception | None) -> None:
        """After a write: in line again if there is more to write, later if there was trouble."""
        is_revoked = slot in self._revoked
        self._revoked.discard(slot)
        if trouble is not None and is_revoked:
            self._end(written.update, Cancelled())
        elif trouble is not None and not self._stopped:
            newest = self._waiting.get(slot, written).update
            self._waiting[slot] = _Waiting(newest, written.since_s)
            self._set_aside(slot, trouble)
            return
        self._failures.pop(slot, None)
        if slot in self._waiting:
            self._queue.add(slot)

    async def _write(self, update: Update) -> Exception | None:
        """None when that was the end of it, well or badly; else why it is to be written again."""
        try:
            version = await self._patch(update)
        except (NotFound, Conflict, Invalid, BadRequest) as refused:
            self._log.debug("status update dropped", about=str(update.key), error=str(refused))
            self._end(update, Dropped(refused))
        except BadObject as unread:  # written; what came back is another's mistake
            self._log.debug("response not decoded", about=str(update.key), error=str(unread))
            self._end(update, Written())
        except Deposed:
            raise
        except Exception as trouble:  # noqa: BLE001 - of one update, whatever it is
            return trouble
        else:
            self._end(update, Written(version))
        return None

    async def _patch(self, update: Update) -> str:
        how = PatchType.STRATEGIC if update.merges_lists else PatchType.MERGE
        if not isinstance(update.patch, Mapping):
            how = PatchType.JSON
        stored = await self._writer.patch(
            update.kind,
            update.key,
            update.patch,
            how,
            uid=update.uid,
            subresource=update.subresource,
            lane=Lane.BACKGROUND,
        )
        return header(stored).resource_version

    def _set_aside(self, slot: Slot, trouble: Exception) -> None:
        failures = self._failures[slot] = self._failures.get(slot, 0) + 1
        is_lasting = isinstance(trouble, ApiError) and not trouble.is_passing
        backoff = _BACKOFF_REFUSED if is_lasting else _BACKOFF
        delay_s = max(backoff.delay_s(failures), asked_wait_s(trouble))
        self._queue.add_after(slot, delay_s)
        self._log.debug(
            "status update requeued",
            about=str(slot[1]),
            error=str(trouble) or repr(trouble),
            retry_after_s=delay_s,
        )

    def _end(self, update: Update, end: Ended) -> None:
        try:
            update.on_end(end)
        except Exception as error:  # noqa: BLE001 - the asker's mistake must not end the worker
            self._log.error("end of status update", about=str(update.key), error=repr(error))
