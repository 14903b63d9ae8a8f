"""An API server for one kind that retains all versions and misbehaves on demand."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support.scripted import Answer, refused, said

from muster.api.kinds import Kind
from muster.api.meta import ObjectMeta, Struct
from muster.client.errors import Interrupted, Unreachable
from muster.client.transport import Request, Response


class Thing(Struct):
    metadata: ObjectMeta
    size: int = 0


THINGS = Kind(Thing, "muster.test", "v1", "Thing", "things", True)


@dataclass(frozen=True)
class Recorded:
    """One line of the history."""

    version: int
    change: str
    name: str
    uid: str
    size: object

    def object(self) -> dict[str, Any]:
        meta = {
            "name": self.name,
            "namespace": "here",
            "uid": self.uid,
            "resourceVersion": str(self.version),
        }
        return {"metadata": meta, "size": self.size}


@dataclass
class Fault:
    """What goes wrong with the next request of a kind; `after` events have been sent."""

    what: str  # unreachable, throttled, unavailable, break, cut, end, gone
    after: int = 0


@dataclass
class HistoryServer:
    """Objects by name, every change in order, and faults that wait for their moment."""

    version: int = 1
    history: list[Recorded] = field(default_factory=list)
    stored: dict[str, Recorded] = field(default_factory=dict)
    compacted: int = 0
    list_faults: deque[Fault] = field(default_factory=deque)
    watch_faults: deque[Fault] = field(default_factory=deque)
    lists: int = 0
    watches: int = 0
    gets: int = 0
    generation: int = 0
    deafened: int = 0
    _moved: asyncio.Event = field(default_factory=asyncio.Event)

    def write(self, name: str, size: object) -> None:
        old = self.stored.get(name)
        uid = old.uid if old else f"uid-{name}-{self.version + 1}"
        self._record("MODIFIED" if old else "ADDED", name, uid, size)

    def delete(self, name: str) -> None:
        if old := self.stored.get(name):
            self._record("DELETED", name, old.uid, old.size)

    def pass_by(self) -> None:
        """Something else in the cluster changes: the version moves, our kind does not."""
        self.version += 1
        self._wake()

    def compact(self) -> None:
        self.compacted = self.version

    def drop(self) -> None:
        """Break every running watch."""
        self.generation += 1
        self._wake()

    def deafen(self) -> None:
        """Running watches stay open, and nothing comes over them any more."""
        self.deafened += 1
        self._wake()

    async def handle(self, request: Request) -> Response:
        query = dict(request.query)
        if query.get("watch"):
            return self._watch(query)
        if not request.path.endswith("/things"):
            self.gets += 1
            found = self.stored.get(request.path.rpartition("/")[2])
            return said(found.object()) if found else refused(404, "NotFound")
        return self._list(query)

    def _record(self, change: str, name: str, uid: str, size: object) -> None:
        self.version += 1
        recorded = Recorded(self.version, change, name, uid, size)
        self.history.append(recorded)
        if change == "DELETED":
            del self.stored[name]
        else:
            self.stored[name] = recorded
        self._wake()

    def _wake(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()

    def _list(self, query: Mapping[str, str]) -> Answer:
        self.lists += 1
        fault = self.list_faults.popleft() if self.list_faults else None
        if fault and (refusal := _refusal(fault)):
            return refusal
        at, _, start = query.get("continue", f"{self.version}:").partition(":")
        version, after = int(at), start
        if version < self.compacted:
            return refused(410, "Expired", "the continue token is too old")
        found = sorted(self.state_at(version).values(), key=lambda one: one.name)
        rest = [one for one in found if one.name > after]
        limit = int(query.get("limit", "0")) or len(rest)
        page, more = rest[:limit], rest[limit:]
        meta = {"resourceVersion": str(version)}
        if more:
            meta["continue"] = f"{version}:{page[-1].name}"
        if fault and fault.what == "cut":
            return Answer(200, [b'{"metadata": {', Interrupted("cut")])
        return said({"metadata": meta, "items": [one.object() for one in page]})

    def state_at(self, version: int) -> dict[str, Recorded]:
        state: dict[str, Recorded] = {}
        for one in self.history:
            if one.version > version:
                break
            if one.change == "DELETED":
                state.pop(one.name, None)
            else:
                state[one.name] = one
        return state

    def _watch(self, query: Mapping[str, str]) -> Response:
        self.watches += 1
        fault = self.watch_faults.popleft() if self.watch_faults else None
        if fault and (refusal := _refusal(fault)):
            return refusal
        start = int(query["resourceVersion"])
        if start < self.compacted:
            return refused(410, "Expired", "too old resource version")
        return _Watch(self, start, fault, self.generation, self.deafened)


@dataclass
class _Watch:
    """A running watch: what happened since, then what happens, until its fault strikes."""

    server: HistoryServer
    seen: int
    fault: Fault | None
    generation: int
    deafened: int
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)

    async def read(self) -> bytes:
        raise AssertionError("a watch is read in chunks")

    async def close(self) -> None:
        """Nothing to let go of."""

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        sent = 0
        while True:
            moved = self.server._moved
            if self.deafened != self.server.deafened:
                await asyncio.Event().wait()
            if self.generation != self.server.generation:
                raise Interrupted("connection reset")
            for one in [one for one in self.server.history if one.version > self.seen]:
                line = json.dumps({"type": one.change, "object": one.object()}).encode() + b"\n"
                if self.fault and sent >= self.fault.after:
                    if self.fault.what == "cut":
                        yield line[: len(line) // 2]
                    if self.fault.what == "gone":
                        yield _GONE
                    if self.fault.what in ("cut", "break"):
                        raise Interrupted("connection reset")
                    return
                self.seen = one.version
                sent += 1
                # Cut where it hurts: an event rarely arrives in one piece.
                yield line[: len(line) // 3]
                yield line[len(line) // 3 :]
            if self.server.version > self.seen:
                self.seen = self.server.version
                meta = {"metadata": {"resourceVersion": str(self.seen)}}
                yield json.dumps({"type": "BOOKMARK", "object": meta}).encode() + b"\n"
            await moved.wait()


_GONE = json.dumps({"type": "ERROR", "object": {"code": 410, "reason": "Expired"}}).encode() + b"\n"


def _refusal(fault: Fault) -> Answer | None:
    match fault.what:
        case "unreachable":
            raise Unreachable("connection refused")
        case "throttled":
            return Answer(429, [b"{}"], {"retry-after": "2"})
        case "unavailable":
            return refused(503, "ServiceUnavailable")
        case "forgotten":
            return refused(410, "Expired", "too old resource version")
        case _:
            return None
