"""Durable state: what is acknowledged is in SQLite before the acknowledgement leaves.

Writes of one moment share a commit (and its fsync), made in a thread of its own so that the event
loop goes on. A write is seen by watchers before it is durable; so that nobody mistakes a lost
version for a later one, versions jump ahead when the data is opened again, and older watches start
over.
"""

import asyncio
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from muster.sim.apiserver.store import Key, Store, StoredEntry

_FORMAT = 1
# More versions than can be assigned between two commits.
_JUMP = 100_000
_Change = tuple[str, Key, int, bytes | None]


class BadData(Exception):
    """The data cannot be read, or no longer be written."""


class SqliteJournal:
    """The `Journal` of a store, and how to fill a store from it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pending: list[_Change] = []
        self._flush: asyncio.Task[None] | None = None
        self._broken: BadData | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="journal")
        self._database = self._thread.submit(_opened, path).result()

    def opened_store(self) -> Store:
        """A store with everything in the journal."""
        version, rows = self._thread.submit(_read, self._database, self._path).result()
        store = Store(self, version + _JUMP if rows else 1)
        by_storage: dict[str, list[StoredEntry]] = {}
        for storage, namespace, name, at, body in rows:
            obj = msgspec.json.decode(body)
            by_storage.setdefault(storage, []).append(StoredEntry((namespace, name), at, obj, body))
        for storage, entries in by_storage.items():
            store.load(storage, entries)
        return store

    def note(self, storage: str, key: Key, version: int, body: bytes | None) -> None:
        self._pending.append((storage, key, version, body))

    async def sync(self) -> None:
        """Returns when everything noted before this call is on disk."""
        if self._broken is not None:
            raise self._broken
        # A flush under way took its notes already; ours may only be in the next.
        if self._flush is not None and self._pending:
            await asyncio.wait([self._flush])
        if self._pending and self._flush is None:
            self._flush = asyncio.get_running_loop().create_task(self._commit())
        if self._flush is not None:
            await asyncio.wait([self._flush])
        if self._broken is not None:
            raise self._broken

    def close(self) -> None:
        """Write what is left and let go of the file."""
        if self._pending and self._broken is None:
            self._thread.submit(_write, self._database, self._drain()).result()
        self._thread.submit(self._database.close).result()
        self._thread.shutdown()

    async def _commit(self) -> None:
        changes = self._drain()
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._thread, _write, self._database, changes)
        except sqlite3.Error as error:
            self._broken = BadData(f"cannot write {self._path}: {error}")
        finally:
            self._flush = None

    def _drain(self) -> list[_Change]:
        changes, self._pending = self._pending, []
        return changes


def _opened(path: Path) -> sqlite3.Connection:
    try:
        database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        if database.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
            raise BadData(f"{path} is corrupt: {_HELP}")
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=FULL")
        database.execute("CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value INTEGER)")
        database.execute(
            "CREATE TABLE IF NOT EXISTS objects (storage TEXT, namespace TEXT, name TEXT,"
            " version INTEGER, body BLOB, PRIMARY KEY (storage, namespace, name)) WITHOUT ROWID"
        )
        database.execute("INSERT OR IGNORE INTO facts VALUES ('format', ?)", (_FORMAT,))
    except sqlite3.Error as error:
        raise BadData(f"{path} is corrupt or no database ({error}): {_HELP}") from None
    return database


_HELP = "restore it from a backup, or start with an empty data directory"


def _read(
    database: sqlite3.Connection, path: Path
) -> tuple[int, list[tuple[str, str, str, int, bytes]]]:
    try:
        facts = dict(database.execute("SELECT name, value FROM facts"))
        rows = database.execute("SELECT storage, namespace, name, version, body FROM objects")
        found = rows.fetchall()
    except sqlite3.Error as error:
        raise BadData(f"{path} is corrupt ({error}): {_HELP}") from None
    if facts.get("format") != _FORMAT:
        raise BadData(f"{path} has format {facts.get('format')}; this version reads {_FORMAT}")
    return int(facts.get("version", 1)), found


def _write(database: sqlite3.Connection, changes: list[_Change]) -> None:
    database.execute("BEGIN IMMEDIATE")
    try:
        database.executemany(
            "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?)", _upserts(_last(changes))
        )
        database.executemany(
            "DELETE FROM objects WHERE storage = ? AND namespace = ? AND name = ?",
            [(storage, *key) for storage, key, _, body in _last(changes) if body is None],
        )
        database.execute("INSERT OR REPLACE INTO facts VALUES ('version', ?)", (changes[-1][2],))
        database.execute("COMMIT")
    except BaseException:
        database.execute("ROLLBACK")
        raise


def _last(changes: list[_Change]) -> list[_Change]:
    """The last note about each object: what came before in the same commit does not matter."""
    return list(
        {(storage, key): (storage, key, at, body) for storage, key, at, body in changes}.values()
    )


def _upserts(changes: list[_Change]) -> Iterator[tuple[str, str, str, int, bytes]]:
    for storage, (namespace, name), version, body in changes:
        if body is not None:
            yield storage, namespace, name, version, body
