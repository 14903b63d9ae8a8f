"""Structured events: a constant message and fields, never a formatted sentence.

`log = Log("binder"); log.info("task bound", task=key, node=node)` prints one line, as text for
people or as JSON for machines. The engine never logs: what it has to say is in the explanation it
returns.

What an event happened within, such as a cycle, is said once (`with within(cycle="7")`): every event
has it then, those of tasks that are begun inside too.

To log is never an error: whatever a sink raises (a full disk, a pipe that nobody reads, a value
that cannot be shown), the event is dropped and counted, and whoever logged goes on.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum
from types import MappingProxyType
from typing import Protocol

from muster.base.clock import Clock, SystemClock


class Level(IntEnum):
    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40


_NOTHING: Mapping[str, str] = MappingProxyType({})
_surroundings: ContextVar[Mapping[str, str]] = ContextVar("surroundings", default=_NOTHING)


@contextmanager
def within(**fields: str) -> Iterator[None]:
    """What all that happens inside has in common; for the log, and for whoever else asks."""
    token = _surroundings.set({**_surroundings.get(), **fields})
    try:
        yield
    finally:
        _surroundings.reset(token)


def surroundings() -> Mapping[str, str]:
    """What we are in the middle of."""
    return _surroundings.get()


class Sink(Protocol):
    """Where events go."""

    def write(
        self, level: Level, logger: str, message: str, fields: Mapping[str, object]
    ) -> None: ...


class LineStream(Protocol):
    """What lines are written to: a file, `sys.stderr`, a `LogStream`."""

    def write(self, text: str, /) -> object: ...

    def flush(self) -> object: ...


class TextSink:
    """One readable line per event."""

    def __init__(self, stream: LineStream | None = None, clock: Clock | None = None) -> None:
        self._stream = stream
        self._clock = clock or SystemClock()

    @property
    def dropped(self) -> int:
        return _dropped(self._stream)

    def write(self, level: Level, logger: str, message: str, fields: Mapping[str, object]) -> None:
        at = datetime.fromtimestamp(self._clock.now_s(), UTC).strftime("%H:%M:%S.%f")[:-3]
        words = " ".join(f"{key}={_shown(value)}" for key, value in fields.items())
        line = f"{at} {level.name[0]} {logger}: {message}" + (f"  {words}" if words else "")
        _print(line, self._stream)


class JsonSink:
    """One JSON object per event."""

    def __init__(self, stream: LineStream | None = None, clock: Clock | None = None) -> None:
        self._stream = stream
        self._clock = clock or SystemClock()

    @property
    def dropped(self) -> int:
        return _dropped(self._stream)

    def write(self, level: Level, logger: str, message: str, fields: Mapping[str, object]) -> None:
        at = datetime.fromtimestamp(self._clock.now_s(), UTC).isoformat(timespec="milliseconds")
        event = {"ts": at, "level": level.name.lower(), "logger": logger, "msg": message, **fields}
        _print(json.dumps(event, default=str), self._stream)


class MemorySink:
    """Keeps events, for tests."""

    def __init__(self) -> None:
        self.events: list[tuple[Level, str, str, dict[str, object]]] = []

    def write(self, level: Level, logger: str, message: str, fields: Mapping[str, object]) -> None:
        self.events.append((level, logger, message, dict(fields)))

    def messages(self) -> list[str]:
        return [message for _, _, message, _ in self.events]


@dataclass(slots=True)
class _Family:
    """What a log and all its children share."""

    level: Level
    drops: int = 0


class Log:
    """Writes events of one part of the program."""

    def __init__(self, name: str, sink: Sink | None = None, level: Level = Level.INFO) -> None:
        self.name = name
        self._sink: Sink = sink or TextSink()
        self._family = _Family(level)

    def child(self, name: str) -> "Log":
        made = Log(f"{self.name}.{name}", self._sink)
        made._family = self._family
        return made

    @property
    def level(self) -> Level:
        """What is less than this is not written; of this log and all that belong to it."""
        return self._family.level

    @level.setter
    def level(self, level: Level) -> None:
        self._family.level = level

    @property
    def dropped(self) -> int:
        """Events that could not be written, of this log and all that belong to it."""
        return self._family.drops + _dropped(self._sink)

    def debug(self, message: str, /, **fields: object) -> None:
        self._event(Level.DEBUG, message, fields)

    def info(self, message: str, /, **fields: object) -> None:
        self._event(Level.INFO, message, fields)

    def warning(self, message: str, /, **fields: object) -> None:
        self._event(Level.WARNING, message, fields)

    def error(self, message: str, /, **fields: object) -> None:
        self._event(Level.ERROR, message, fields)

    def _event(self, level: Level, message: str, fields: Mapping[str, object]) -> None:
        if level < self._family.level:
            return
        try:
            self._sink.write(level, self.name, message, {**surroundings(), **fields})
        except Exception:  # noqa: BLE001 - whoever logs has other things to do
            self._family.drops += 1


def _dropped(by: object) -> int:
    """What a sink or a stream took and could not write, where it counts that."""
    return int(getattr(by, "dropped", 0))


def _print(line: str, stream: LineStream | None) -> None:
    """In one piece, so that lines of several threads do not mix."""
    written = stream if stream is not None else sys.stderr
    written.write(line + "\n")
    written.flush()


def _shown(value: object) -> str:
    text = str(value)
    return json.dumps(text) if not text or any(c.isspace() or c == '"' for c in text) else text
