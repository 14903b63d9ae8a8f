"""A SQLite file that one process writes: opened, changed all or nothing, kept within a size.

What goes first where it grows too large is known to whoever keeps something in it. A second process
that would write it is refused, until the first has ended: each adds to what it wrote before.
"""

import errno
import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_FACTS: Final = "CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value) WITHOUT ROWID"
IN_MEMORY: Final = Path(":memory:")
"""No file, and nobody else's."""
_LOG_MAX_BYTES: Final = 16 * 2**20
"""What the write-ahead log beside the file is cut back to after it was longer."""


class BadFile(Exception):
    """The file cannot be used; the text says why and what to do."""


class FileInUse(BadFile):
    """Another process writes it, or has not ended yet."""


class NamedFile:
    """Which file had a name when this was made: whoever holds one open does not see that it was
    moved away, and goes on with what nobody else will ever find."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._is = _file_of(path)

    def is_replaced(self) -> bool:
        """Whether the name means another file now, or none."""
        return self._is != _file_of(self._path)


class ReadFile:
    """The same file, for whoever reads it: also in a folder in which he may make no file."""

    def __init__(self, path: Path) -> None:
        """Raises sqlite3.Error."""
        self._log = path.with_name(f"{path.name}-wal")
        self._named = NamedFile(path)
        may_write = os.access(
            path.parent, os.W_OK, effective_ids=os.access in os.supports_effective_ids
        )
        # Nobody writes it, and we may not make the file by which SQLite would watch for writers.
        self._is_still = not may_write and not self._log.exists()
        asked = "mode=ro&immutable=1" if self._is_still else "mode=ro"
        uri = f"{path.absolute().as_uri()}?{asked}"
        self.database = sqlite3.connect(uri, uri=True, check_same_thread=False)

    def is_outdated(self) -> bool:
        """Whether the name means another file now, or somebody writes it who did not then."""
        return self._named.is_replaced() or (self._is_still and self._log.exists())


def _file_of(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


class DatabaseFile:
    """Opened, with its tables. `what` and `instead` are for people: the journal, another folder."""

    def __init__(
        self, path: Path, tables: Iterable[str], version: int, what: str, instead: str
    ) -> None:
        fix = f"move the file away, or name {instead}"
        self._lock = -1
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._lock = _locked(path)
        except BlockingIOError:
            said = f"{what} {path} is written by another process"
            raise FileInUse(f"{said}: name {instead}") from None
        except OSError as error:
            raise BadFile(f"{what} {path} cannot be used ({error}): {fix}") from None
        try:
            self._open(path, tables, version, what, fix)
        except BadFile:
            self._unlock()
            raise

    def _open(self, path: Path, tables: Iterable[str], version: int, what: str, fix: str) -> None:
        try:
            self._database = _connected(path)
            for statement in (_FACTS, *tables):
                self._database.execute(statement)
            self._database.execute("INSERT OR IGNORE INTO facts VALUES ('format', ?)", (version,))
            found = self.fact("format")
        except (sqlite3.Error, OSError) as error:
            raise BadFile(f"{what} {path} cannot be used ({error}): {fix}") from None
        self._named = NamedFile(path)
        if found != version:
            said = f"{what} {path} has format {found}, this version writes {version}"
            raise BadFile(f"{said}: {fix}")

    def close(self) -> None:
        self._database.close()
        self._unlock()

    def is_replaced(self) -> bool:
        return self._named.is_replaced()

    def _unlock(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def execute(self, statement: str, values: Iterable[object] = ()) -> sqlite3.Cursor:
        return self._database.execute(statement, tuple(values))

    def executemany(self, statement: str, rows: Iterable[tuple[object, ...]]) -> None:
        self._database.executemany(statement, rows)

    def fact(self, name: str) -> int | None:
        found = self.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return found[0] if found else None

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All of it or nothing."""
        self.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.execute("COMMIT")
        except BaseException:
            # Where the disk is full SQLite has done it already, and would complain of this instead.
            if self._database.in_transaction:
                self.execute("ROLLBACK")
            raise

    def size_bytes(self) -> int:
        """What the file needs, without pages that are free."""
        pages, free, size = (
            self.execute(f"PRAGMA {what}").fetchone()[0]
            for what in ("page_count", "freelist_count", "page_size")
        )
        return int((pages - free) * size)

    def keep_within(self, size_max_bytes: int, let_go: Callable[[], bool]) -> None:
        """Let go until the rest fits, or nothing more goes; then hand back what is free."""
        while self.size_bytes() > size_max_bytes and let_go():
            pass
        # As a script, which goes on until it is through: each step hands back one page only.
        self._database.executescript("PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(PASSIVE)")


def _locked(path: Path) -> int:
    """Held until it is closed, or the process ends. Beside the file, which SQLite locks itself.

    Raises BlockingIOError where another holds it; file systems without locks lock nobody out.
    """
    if path == IN_MEMORY:
        return -1
    lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            os.close(lock)
            raise BlockingIOError from None
    return lock


def _connected(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5)
    for setting in (
        "auto_vacuum=INCREMENTAL",
        "journal_mode=WAL",
        "synchronous=NORMAL",
        f"journal_size_limit={_LOG_MAX_BYTES}",
    ):
        database.execute(f"PRAGMA {setting}")
    return database
