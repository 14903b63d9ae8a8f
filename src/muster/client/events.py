"""Events about objects, for the people who look at them.

Recording never waits and never fails: events go to a bounded buffer, and a task writes them when
the server has time. The same event again raises a count instead of a second object; many events of
one reason about one object are combined, and an object that never stops is cut short.
"""

import asyncio
import hashlib
from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from muster.api.coordination import ObjectReference
from muster.api.kinds import EVENT, Kind
from muster.api.meta import Key
from muster.api.names import ANNOTATION_CYCLE
from muster.base.clock import Clock
from muster.base.expiring import ExpiringMap
from muster.base.log import Log, surroundings
from muster.base.timefmt import rfc3339
from muster.base.visible import visible
from muster.client.errors import Deposed, NotFound, described
from muster.client.kinds import header
from muster.client.limits import LONG_S, Lane
from muster.client.write import Writer

_AT_ONCE = 8
"""What is said about pods is to be there soon after they are bound, and takes turns behind them."""
_MESSAGE_LENGTH_MAX = 1024  # what the API server takes


NO_NOTES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class EventLimits:
    """How much we say: buffered events, and per object and reason."""

    buffered: int = 10_000
    remembered: int = 4096
    told_within_s: float = 600.0
    distinct_messages: int = 10
    combined_for_s: float = 600.0
    burst: int = 25
    one_more_every_s: float = 300.0


USUAL_DISCRETION = EventLimits()


class _Same(NamedTuple):
    """Events that are one event with a count."""

    about: ObjectReference
    type: str
    reason: str
    message: str


@dataclass(slots=True)
class _Pending:
    count: int
    first_s: float
    last_s: float
    message: str
    notes: Mapping[str, str]
    heard_s: float
    """When it happened last, on the steady clock: the other may be set while it waits."""


@dataclass(frozen=True, slots=True)
class _Written:
    key: Key
    count: int


@dataclass(slots=True)
class _Subject:
    """What was said of one reason about one object of late."""

    messages: set[str] = field(default_factory=set)
    since_s: float = 0.0
    tokens: float = 0.0
    filled_s: float = 0.0


class Recorder:
    """Records events in the name of one component."""

    def __init__(
        self,
        writer: Writer,
        component: str,
        *,
        log: Log,
        instance: str = "",
        discretion: EventLimits = USUAL_DISCRETION,
    ) -> None:
        self.dropped = 0
        self._writer = writer
        self._clock: Clock = writer.connection.clock
        self._component = component
        self._instance = instance or component
        self._log = log
        self._discretion = discretion
        self._pending: OrderedDict[_Same, _Pending] = OrderedDict()
        most = discretion.remembered
        self._written: ExpiringMap[_Same, _Written] = ExpiringMap(self._clock, most)
        self._subjects: ExpiringMap[tuple[ObjectReference, str, str], _Subject]
        self._subjects = ExpiringMap(self._clock, most)
        self._writing: set[asyncio.Task[None]] = set()
        self._long: dict[asyncio.Task[None], str] = {}
        """Writes that have lasted long, and where: webhooks of one may take half a minute."""
        self._under_way: Counter[str] = Counter()
        """By namespace, how many are being written."""
        self._about: set[ObjectReference] = set()
        """About whom something is being written."""
        self._quick: set[str] = set()
        """Namespaces in which the last write was quick, and none lasts long."""
        self._failure: BaseException | None = None
        self._wanted = asyncio.Event()
        self._named = 0

    def speak_as(self, component: str) -> None:
        """From now on in the name of another component."""
        if self._instance == self._component:
            self._instance = component
        self._component = component

    def normal(
        self, about: ObjectReference, reason: str, message: str, notes: Mapping[str, str] = NO_NOTES
    ) -> None:
        self.record(about, "Normal", reason, message, notes)

    def warning(self, about: ObjectReference, reason: str, message: str) -> None:
        self.record(about, "Warning", reason, message)

    def record(
        self,
        about: ObjectReference,
        event_type: str,
        reason: str,
        message: str,
        notes: Mapping[str, str] = NO_NOTES,
        folds: bool = True,
    ) -> None:
        """Say that something happened to an object; returns at once. `notes` are annotations.

        Words of tenants in it are made visible: an administrator's terminal shows events as they
        are. Unless it `folds`, it is told by itself however much was said of the like before.
        """
        now_s, steady_s = self._clock.now_s(), self._clock.monotonic_s()
        message = visible(message)[:_MESSAGE_LENGTH_MAX]
        subject = self._subject(about, event_type, reason, steady_s)
        said = self._combined(subject, message) if folds else message
        same = _Same(about, event_type, reason, said)
        if waiting := self._pending.get(same):
            waiting.count += 1
            waiting.last_s, waiting.heard_s = now_s, steady_s
            waiting.message = message
        elif self._may_record(subject, steady_s) and len(self._pending) < self._discretion.buffered:
            all_notes = {**_cycle(), **notes}
            self._pending[same] = _Pending(1, now_s, now_s, message, all_notes, steady_s)
            self._wanted.set()
        else:
            self.dropped += 1

    async def run(self) -> None:
        """Write what was recorded, until cancelled."""
        try:
            while True:
                await self._wanted.wait()
                await self.flush()
        finally:
            self._end_all()

    async def flush(self) -> None:
        """Write what is buffered now; what cannot be written, or is no news any more, is dropped.

        (A replica that came to lead has what it saw since the last one stopped, and long before.)
        A write that lasts long goes on by itself; other events of its namespace wait for it.
        """
        try:
            while True:
                self._wanted.clear()
                self._raise_failure()
                while len(self._writing) < _AT_ONCE and (same := self._next()) is not None:
                    self._begin(same, self._pending.pop(same))
                if not self._writing:
                    return
                await self._wanted.wait()
        except BaseException:
            self._end_all()
            raise

    def _next(self) -> _Same | None:
        """The oldest that needs to wait for no other."""
        return next(filter(self._may_begin, self._pending), None)

    def _may_begin(self, same: _Same) -> bool:
        """Alone in its namespace, or where the last write was quick: several at once then, in
        order about each object.
        """
        namespace = same.about.namespace
        is_alone = not self._under_way[namespace]
        return is_alone or (namespace in self._quick and same.about not in self._about)

    def _begin(self, same: _Same, pending: _Pending) -> None:
        if self._clock.monotonic_s() - pending.heard_s > self._discretion.told_within_s:
            self.dropped += 1
            return
        loop = asyncio.get_running_loop()
        write = loop.create_task(self._tried(same, pending))
        self._writing.add(write)
        self._about.add(same.about)
        self._under_way[same.about.namespace] += 1
        late = loop.call_later(LONG_S, self._lasts_long, same.about.namespace, write)
        write.add_done_callback(partial(self._ended, same.about, late))

    def _lasts_long(self, namespace: str, write: "asyncio.Task[None]") -> None:
        """It goes on without taking the place of others, but for those of its namespace."""
        self._writing.discard(write)
        self._long[write] = namespace
        self._quick.discard(namespace)
        self._wanted.set()

    def _ended(
        self, about: ObjectReference, late: asyncio.TimerHandle, write: "asyncio.Task[None]"
    ) -> None:
        late.cancel()
        self._writing.discard(write)
        self._about.discard(about)
        namespace = about.namespace
        self._under_way[namespace] -= 1
        was_long = self._long.pop(write, None) is not None
        if not self._under_way[namespace]:
            del self._under_way[namespace]
        if not was_long and namespace not in self._long.values():
            if len(self._quick) >= self._discretion.remembered:
                self._quick.clear()
            self._quick.add(namespace)
        # Of one that lasted long it is `Deposed`, which whoever writes next is told too.
        failure = None if write.cancelled() else write.exception()
        self._failure = self._failure if was_long else self._failure or failure
        self._wanted.set()

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _end_all(self) -> None:
        for write in (*self._writing, *self._long):
            write.cancel()

    async def _tried(self, same: _Same, pending: _Pending) -> None:
        try:
            await self._write(same, pending)
        except Deposed:
            raise
        except Exception as error:  # noqa: BLE001 - one event is not worth a service
            self.dropped += 1
            about = f"{same.about.namespace}/{same.about.name}"
            self._log.debug(
                "event dropped", about=about, reason=same.reason, error=described(error)
            )

    def _subject(
        self, about: ObjectReference, event_type: str, reason: str, now_s: float
    ) -> _Subject:
        key = (about, event_type, reason)
        subject = self._subjects.get(key)
        if subject is None:
            subject = _Subject(since_s=now_s, tokens=self._discretion.burst, filled_s=now_s)
            self._subjects.put(key, subject)
        if now_s - subject.since_s > self._discretion.combined_for_s:
            subject.messages.clear()
            subject.since_s = now_s
        return subject

    def _combined(self, subject: _Subject, message: str) -> str:
        """The message, or one text for all further messages of a subject that said too many."""
        if message in subject.messages:
            return message
        if len(subject.messages) >= self._discretion.distinct_messages:
            return _COMBINED
        subject.messages.add(message)
        return message

    def _may_record(self, subject: _Subject, now_s: float) -> bool:
        earned = (now_s - subject.filled_s) / self._discretion.one_more_every_s
        subject.tokens = min(subject.tokens + earned, float(self._discretion.burst))
        subject.filled_s = now_s
        if subject.tokens < 1.0:
            return False
        subject.tokens -= 1.0
        return True

    async def _write(self, same: _Same, pending: _Pending) -> None:
        written = self._written.get(same)
        if written is not None:
            try:
                await self._bump(same, written, pending)
                return
            except NotFound:
                # Events live for an hour on the server; this one is over.
                self._written.pop(same)
        await self._create(same, pending)

    async def _bump(self, same: _Same, written: _Written, pending: _Pending) -> None:
        count = written.count + pending.count
        patch = {
            "count": count,
            "message": _message(same, pending),
            "lastTimestamp": rfc3339(pending.last_s),
        }
        await self._writer.patch(EVENT, written.key, patch, lane=Lane.BACKGROUND)
        self._written.put(same, _Written(written.key, count))

    async def _create(self, same: _Same, pending: _Pending) -> None:
        # Events about cluster-wide objects are kept in the namespace `default`.
        namespace = same.about.namespace or "default"
        key = Key(namespace, self._name(same, pending))
        body = self._body(same, pending, key)
        await self._writer.create(EVENT, body, namespace, lane=Lane.BACKGROUND)
        self._written.put(same, _Written(key, pending.count))

    def _name(self, same: _Same, pending: _Pending) -> str:
        self._named += 1
        told = (*same, self._instance, pending.first_s, self._named)
        digest = hashlib.blake2b(repr(told).encode(), digest_size=8).hexdigest()
        return f"{same.about.name[:230]}.{digest}"

    def _body(self, same: _Same, pending: _Pending, key: Key) -> dict[str, Any]:
        about = same.about
        reference = {
            "apiVersion": about.api_version,
            "kind": about.kind,
            "namespace": about.namespace,
            "name": about.name,
            "uid": about.uid,
            "resourceVersion": about.resource_version,
            "fieldPath": about.field_path,
        }
        metadata: dict[str, Any] = {"name": key.name, "namespace": key.namespace}
        if pending.notes:
            metadata["annotations"] = dict(pending.notes)
        return {
            "metadata": metadata,
            "involvedObject": {name: value for name, value in reference.items() if value},
            "type": same.type,
            "reason": same.reason,
            "message": _message(same, pending),
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
            "count": pending.count,
            "firstTimestamp": rfc3339(pending.first_s),
            "lastTimestamp": rfc3339(pending.last_s),
        }


def reference_to(kind: Kind[Any], obj: object) -> ObjectReference:
    """What an event about this object points to."""
    found = header(obj)
    return ObjectReference(
        api_version=kind.api_version,
        kind=kind.kind,
        namespace=found.key.namespace,
        name=found.key.name,
        uid=found.uid,
    )


_COMBINED = "\0combined"


def _message(same: _Same, pending: _Pending) -> str:
    if same.message != _COMBINED:
        return same.message
    return f"(combined from similar events): {pending.message}"[:_MESSAGE_LENGTH_MAX]


def _cycle() -> Mapping[str, str]:
    """Which cycle an event comes from, where it comes from one."""
    cycle = surroundings().get("cycle")
    return {ANNOTATION_CYCLE: cycle} if cycle else NO_NOTES
