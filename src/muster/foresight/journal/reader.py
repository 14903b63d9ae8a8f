"""What happened: questions to the journals of a folder, whoever wrote them.

Each scheduler process writes a file of its own, so a leader that changes leaves several; they are
read as one, by time.
"""

import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec

from muster.api.codec import from_wire
from muster.api.group_names import groups_of
from muster.base.database_file import ReadFile
from muster.engine.holds import Hold
from muster.foresight.journal.delta import decoded
from muster.foresight.journal.events import Event
from muster.foresight.journal.store import FORMAT, Before, RecordedRules, decoded_event
from muster.foresight.runtimes import PastRun
from muster.model.record_changes import Delta

SUFFIX: Final = ".journal.db"
_LIMIT: Final = 1000


class NoJournal(Exception):
    """There is nothing to read; the text says where it was looked for."""


@dataclass(frozen=True, slots=True)
class Query:
    """Which events; "" and None: all."""

    job: str = ""
    queue: str = ""
    user: str = ""
    node: str = ""
    kinds: tuple[str, ...] = ()
    code: str = ""
    actor: str = ""
    actor_queue: str = ""
    since_s: float | None = None
    until_s: float | None = None
    limit: int = _LIMIT


@dataclass(frozen=True, slots=True)
class RecordedCycle:
    """A cycle as it was kept."""

    id: int
    at_s: float
    writer: str
    generation: int
    rules: RecordedRules
    plan: Any
    """As plain values; None: nothing was decided."""
    holds: tuple[Hold, ...]
    is_cut_short: bool
    delta: Delta
    is_whole: bool
    acted_s: Mapping[str, float] = field(default_factory=dict)


def journal_files(folder: Path) -> list[Path]:
    """Raises `NoJournal` where there are none."""
    found = [folder] if folder.is_file() else sorted(folder.glob(f"*{SUFFIX}"))
    if not found:
        raise NoJournal(
            f"there is no journal in {folder}: see that the scheduler writes there "
            "(--journal-folder) and that this process may read it"
        )
    return found


class JournalReader:
    """One file, read only."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._reading():
            self._database, found = _opened(path)
        if found != (FORMAT,):
            shown = found[0] if found else "none"
            raise NoJournal(f"{path} has format {shown}; this version reads {FORMAT}")

    def close(self) -> None:
        self._database.close()

    def events(self, query: Query) -> list[Event]:
        """The newest first."""
        where, values = _conditions(query)
        with self._reading():
            rows = self._database.execute(
                f"SELECT cycle, body FROM events{where} ORDER BY at_s DESC, id DESC", values
            )
            found = (
                msgspec.structs.replace(decoded_event(body), cycle=cycle) for cycle, body in rows
            )
            # In no column of its own: few events have it.
            meant = (one for one in found if query.actor_queue in ("", one.actor_queue))
            return list(islice(meant, query.limit))

    def cycles(self) -> Iterator[RecordedCycle]:
        """Those that can be made again, oldest first: from the first whole input on."""
        with self._reading():
            rows = self._database.execute(
                "SELECT c.id, c.at_s, c.writer, c.generation, r.version, r.conf, r.settings, "
                "c.plan, c.holds, c.is_cut_short, i.body, i.is_whole FROM cycles c "
                "JOIN rules r ON r.id = c.rules LEFT JOIN inputs i ON i.cycle = c.id "
                "WHERE c.id >= (SELECT min(cycle) FROM inputs WHERE is_whole) ORDER BY c.id"
            )
        while True:
            with self._reading():
                row = rows.fetchone()
                if row is None:
                    return
                cycle = _cycle(row)
            yield cycle

    def runs(self, since_s: float, most: int) -> list[PastRun]:
        """So many of the newest that ended since then, oldest first."""
        return self.runs_of(Query(since_s=since_s), most)[::-1]

    def runs_of(self, query: Query, most: int) -> list[PastRun]:
        """Those that ended, the newest first; by job and time only."""
        asked = Query(job=query.job, since_s=query.since_s, until_s=query.until_s)
        where, values = _conditions(asked, at="ended_s")
        with self._reading():
            rows = self._database.execute(
                f"SELECT body FROM runs{where} ORDER BY ended_s DESC LIMIT ?", (*values, most)
            )
            return [msgspec.json.decode(body, type=PastRun, dec_hook=from_wire) for (body,) in rows]

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """What cannot be read, or is not what a journal holds, is a `NoJournal` of this file."""
        try:
            yield
        except (sqlite3.Error, zlib.error, msgspec.DecodeError, ValueError) as error:
            raise NoJournal(f"the journal {self._path} cannot be read ({error})") from None


def _opened(path: Path) -> tuple[sqlite3.Connection, Any]:
    """The file, and which format it says that it has. Raises sqlite3.Error."""
    database = ReadFile(path).database
    return database, database.execute("SELECT value FROM facts WHERE name = 'format'").fetchone()


def history(folder: Path, query: Query) -> list[Event]:
    """What was decided, by all files of a folder; the newest first."""
    found: list[Event] = []
    for path in journal_files(folder):
        reader = JournalReader(path)
        try:
            found += reader.events(query)
        finally:
            reader.close()
    return sorted(found, key=lambda event: -event.at_s)[: query.limit]


def _conditions(query: Query, at: str = "at_s") -> tuple[str, tuple[object, ...]]:
    parts: list[str] = []
    values: list[object] = []
    for column in ("job", "queue", "user", "code", "actor"):
        if value := getattr(query, column):
            owned = groups_of(value) if column in ("job", "actor") else ""
            parts.append(f"({column} = ? OR {column} GLOB ?)" if owned else f"{column} = ?")
            values += [value, owned] if owned else [value]
    if query.kinds:
        parts.append(f"kind IN ({', '.join('?' * len(query.kinds))})")
        values += query.kinds
    if query.node:
        parts.append("id IN (SELECT event FROM event_nodes WHERE node = ?)")
        values.append(query.node)
    if query.since_s is not None:
        parts.append(f"{at} >= ?")
        values.append(query.since_s)
    if query.until_s is not None:
        parts.append(f"{at} <= ?")
        values.append(query.until_s)
    return (f" WHERE {' AND '.join(parts)}" if parts else ""), tuple(values)


def _cycle(row: tuple[Any, ...]) -> RecordedCycle:
    number, at_s, writer, generation, version, conf, settings, plan, holds, cut, body, whole = row
    before = _before(holds)
    return RecordedCycle(
        number,
        at_s,
        writer,
        generation,
        RecordedRules(version, conf, msgspec.json.decode(settings)),
        None if plan is None else msgspec.json.decode(plan),
        before.holds,
        bool(cut),
        Delta() if body is None else decoded(zlib.decompress(body)),
        bool(whole),
        before.acted_s,
    )


def _before(holds: bytes | None) -> Before:
    if holds is None:
        return Before()
    told: tuple[Hold, ...] | Before = msgspec.json.decode(
        holds, type=tuple[Hold, ...] | Before, dec_hook=from_wire
    )
    return told if isinstance(told, Before) else Before(told)
