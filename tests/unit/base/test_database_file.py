"""A SQLite file of one writer: its format is checked, and a change is made whole or not at all."""

import sqlite3
from pathlib import Path

import pytest

from muster.base.database_file import BadFile, DatabaseFile

_TABLE = "CREATE TABLE IF NOT EXISTS things (name TEXT UNIQUE)"


def _opened(folder: Path, version: int = 1) -> DatabaseFile:
    return DatabaseFile(folder / "a" / "f.db", (_TABLE,), version, "the file", "another")


def test_a_file_of_another_format_is_refused_with_what_to_do(tmp_path: Path) -> None:
    _opened(tmp_path).close()
    said = "has format 1, this version writes 2: move the file away, or name another"
    with pytest.raises(BadFile, match=said):
        _opened(tmp_path, version=2)
    _opened(tmp_path).close()


def test_a_change_that_fails_leaves_nothing_and_the_next_one_goes_on(tmp_path: Path) -> None:
    file = _opened(tmp_path)
    with pytest.raises(sqlite3.Error), file.transaction():
        file.executemany("INSERT INTO things VALUES (?)", [("a",), ("a",)])
    assert file.execute("SELECT name FROM things").fetchall() == []
    with file.transaction():
        file.execute("INSERT INTO things VALUES ('b')")
    assert file.execute("SELECT name FROM things").fetchall() == [("b",)]


def test_a_disk_that_is_full_is_what_is_said_and_the_next_change_goes_on(tmp_path: Path) -> None:
    """SQLite takes such a change back by itself."""
    file = _opened(tmp_path)
    file.execute("PRAGMA max_page_count = 20")
    rows = [(f"{number:>2000}",) for number in range(100)]
    with pytest.raises(sqlite3.OperationalError, match="full"), file.transaction():
        file.executemany("INSERT INTO things VALUES (?)", rows)
    with file.transaction():
        file.execute("INSERT INTO things VALUES ('b')")
    assert file.execute("SELECT name FROM things").fetchall() == [("b",)]
