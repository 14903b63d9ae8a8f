"""The journal's file: SQLite, one for each process that writes, bounded by age and by size.

A cycle is one transaction: its row, its events, and what changed in its input since the cycle
before. Every so often the whole input is kept, so that cycles can be made again from there. The
oldest go first; an input whose beginning is gone goes with it.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from muster.api.codec import to_wire
from muster.base.database_file import DatabaseFile
from muster.engine.holds import Hold
from muster.engine.plan import Plan
from muster.foresight.journal.bounds import Bounds
from muster.foresight.journal.delta import encoded
from muster.foresight.journal.events import Event
from muster.model.record_changes import Delta

FORMAT: Final = 1
_SCHEMA: Final = (
    "CREATE TABLE IF NOT EXISTS rules (id INTEGER PRIMARY KEY, version TEXT, conf TEXT, "
    "settings TEXT, UNIQUE (version, conf, settings))",
    "CREATE TABLE IF NOT EXISTS cycles (id INTEGER PRIMARY KEY, at_s REAL, writer TEXT, "
    "generation INTEGER, rules INTEGER, is_cut_short INTEGER, plan BLOB, holds BLOB)",
    "CREATE TABLE IF NOT EXISTS inputs (cycle INTEGER PRIMARY KEY, is_whole INTEGER, body BLOB)",
    "CREATE TABLE IF NOT EXISTS events (id INTEGER PRIMARY KEY, cycle INTEGER, at_s REAL, "
    "kind TEXT, job TEXT, queue TEXT, user TEXT, code TEXT, actor TEXT, body BLOB)",
    "CREATE TABLE IF NOT EXISTS event_nodes (event INTEGER, node TEXT, "
    "PRIMARY KEY (node, event)) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS runs (id INTEGER PRIMARY KEY, ended_s REAL, job TEXT, body BLOB)",
    *(
        f"CREATE INDEX IF NOT EXISTS events_{column} ON events ({column}, at_s)"
        for column in ("job", "queue", "user", "actor", "at_s")
    ),
    "CREATE INDEX IF NOT EXISTS cycles_at ON cycles (at_s)",
)


@dataclass(frozen=True, slots=True)
class RecordedRules:
    """By what a cycle decided."""

    version: str
    conf: str
    settings: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Recorded:
    """A cycle to be kept."""

    at_s: float
    generation: int
    rules: RecordedRules
    plan: Plan
    holds: tuple[Hold, ...]
    events: tuple[Event, ...]
    delta: Delta
    is_whole: bool
    is_cut_short: bool = False
    """Whether searches ended for want of time: then it may be decided otherwise when made again."""
    acted_s: Mapping[str, float] = field(default_factory=dict)
    """When plugins had acted before, by name."""


class Before(msgspec.Struct, frozen=True):
    """What earlier cycles told one, where that is more than holds."""

    holds: tuple[Hold, ...] = ()
    acted_s: Mapping[str, float] = {}


class JournalStore:
    """The file, for the one process that writes it."""

    def __init__(self, path: Path, writer: str, bounds: Bounds | None = None) -> None:
        self._bounds = bounds or Bounds()
        self._writer = writer
        self._database = DatabaseFile(
            path, _SCHEMA, FORMAT, what="the journal", instead="another folder"
        )

    def close(self) -> None:
        self._database.close()

    def add(self, cycle: Recorded) -> int:
        """Keep a cycle, all of it or nothing; its number. Raises sqlite3.Error."""
        with self._database.transaction():
            number = self._insert(
                "INSERT INTO cycles VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)",
                cycle.at_s,
                self._writer,
                cycle.generation,
                self._rules(cycle.rules),
                cycle.is_cut_short,
                _json(cycle.plan) if cycle.plan != Plan() else None,
                _told(cycle),
            )
            if cycle.is_whole or cycle.delta != Delta():
                body = _packed(cycle.delta)
                self._insert("INSERT INTO inputs VALUES (?, ?, ?)", number, cycle.is_whole, body)
            for event in cycle.events:
                self._add_event(number, event)
        return number

    def add_run(self, ended_s: float, job: str, body: bytes) -> None:
        """Keep how long a job ran."""
        self._insert("INSERT INTO runs VALUES (NULL, ?, ?, ?)", ended_s, job, body)

    def settle(self, cycle: int, job: str, outcome: str) -> None:
        """What became of a job's events of a cycle."""
        rows = self._database.execute(
            "SELECT id, body FROM events WHERE cycle = ? AND job = ?", (cycle, job)
        ).fetchall()
        for number, body in rows:
            event = msgspec.structs.replace(decoded_event(body), outcome=outcome)
            self._database.execute(
                "UPDATE events SET body = ? WHERE id = ?", (msgspec.msgpack.encode(event), number)
            )

    def prune(self, now_s: float) -> None:
        """Let go of what is too old, and of the oldest inputs, then decisions, while it is too
        large.
        """
        self._forget_inputs(now_s - self._bounds.inputs_s)
        self._forget_decisions(now_s - self._bounds.decisions_s)
        self._database.keep_within(
            self._bounds.size_max_bytes, lambda: self._halve_inputs() or self._halve_decisions()
        )

    def is_too_large(self) -> bool:
        return self.size_bytes() > self._bounds.size_max_bytes

    def size_bytes(self) -> int:
        return self._database.size_bytes()

    def _halve_inputs(self) -> bool:
        """Let go of the older half of the inputs; of all where none can be made again without the
        first. Whether there was something to let go of.
        """
        wholes = [
            number
            for (number,) in self._database.execute(
                "SELECT cycle FROM inputs WHERE is_whole ORDER BY cycle"
            )
        ]
        middle = wholes[(len(wholes) + 1) // 2] if len(wholes) > 1 else None
        where, values = ("", ()) if middle is None else (" WHERE cycle < ?", (middle,))
        with self._database.transaction():
            return self._database.execute(f"DELETE FROM inputs{where}", values).rowcount > 0

    def _halve_decisions(self) -> bool:
        first, last = self._database.execute("SELECT min(at_s), max(at_s) FROM cycles").fetchone()
        if first is None or first == last:
            return False
        self._forget_decisions(first + (last - first) / 2)
        return True

    def _forget_inputs(self, before_s: float) -> None:
        """Inputs before the last whole one that is old enough: later ones begin there."""
        found = self._database.execute(
            "SELECT max(i.cycle) FROM inputs i JOIN cycles c ON c.id = i.cycle "
            "WHERE i.is_whole AND c.at_s <= ?",
            (before_s,),
        ).fetchone()[0]
        if found is None:
            newer = self._database.execute(
                "SELECT min(cycle) FROM inputs i JOIN cycles c ON c.id = i.cycle "
                "WHERE i.is_whole AND c.at_s > ?",
                (before_s,),
            ).fetchone()[0]
            found = newer if newer is not None else 0
        with self._database.transaction():
            self._database.execute("DELETE FROM inputs WHERE cycle < ?", (found,))

    def _forget_decisions(self, before_s: float) -> None:
        with self._database.transaction():
            self._database.execute(
                "DELETE FROM event_nodes WHERE event IN (SELECT id FROM events WHERE at_s < ?)",
                (before_s,),
            )
            for table, column in (("events", "at_s"), ("runs", "ended_s")):
                self._database.execute(f"DELETE FROM {table} WHERE {column} < ?", (before_s,))
            self._database.execute(
                "DELETE FROM inputs WHERE cycle IN (SELECT id FROM cycles WHERE at_s < ?)",
                (before_s,),
            )
            self._database.execute("DELETE FROM cycles WHERE at_s < ?", (before_s,))

    def _add_event(self, cycle: int, event: Event) -> None:
        number = self._insert(
            "INSERT INTO events VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            cycle,
            event.at_s,
            event.kind,
            event.job,
            event.queue,
            event.user,
            event.code,
            event.actor,
            msgspec.msgpack.encode(event),
        )
        self._database.executemany(
            "INSERT INTO event_nodes VALUES (?, ?)", [(number, node) for node in event.nodes]
        )

    def _rules(self, rules: RecordedRules) -> int:
        values = (rules.version, rules.conf, _json(dict(rules.settings)).decode())
        self._database.execute("INSERT OR IGNORE INTO rules VALUES (NULL, ?, ?, ?)", values)
        found = self._database.execute(
            "SELECT id FROM rules WHERE version = ? AND conf = ? AND settings = ?", values
        ).fetchone()
        return int(found[0])

    def _insert(self, statement: str, *values: object) -> int:
        return self._database.execute(statement, values).lastrowid or 0


def decoded_event(body: bytes) -> Event:
    return msgspec.msgpack.decode(body, type=Event)


def _told(cycle: Recorded) -> bytes | None:
    if cycle.acted_s:
        return _json(Before(cycle.holds, cycle.acted_s))
    return _json(cycle.holds) if cycle.holds else None


def _json(value: object) -> bytes:
    return msgspec.json.encode(value, enc_hook=to_wire)


def _packed(delta: Delta) -> bytes:
    packer = zlib.compressobj(1)
    parts = [packer.compress(part) for part in encoded(delta)]
    return b"".join((*parts, packer.flush()))
