"""A killed server loses nothing that it had acknowledged."""

import asyncio
import multiprocessing
import sqlite3
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conformance.acknowledging import write_until_killed

from muster.base.rand import Rand
from muster.sim.apiserver.data_dir import DataDir, InUse
from muster.sim.apiserver.embedded import Embedded, EmbeddedDependencies, EmbeddedSettings
from muster.sim.apiserver.journal import BadData, SqliteJournal

_TRIES = 200
_Values = dict[str, str | None]


@pytest.mark.slow
def test_sigkill_loses_no_acknowledged_write(tmp_path: Path) -> None:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.conformance.acknowledging"])
    rand = Rand(7)
    known: _Values = {}
    for number in range(_TRIES):
        # Each try goes on with the data that the last one left behind.
        ours, theirs = context.Pipe(duplex=False)
        child = context.Process(
            target=write_until_killed, args=(str(tmp_path), theirs, number), daemon=True
        )
        child.start()
        theirs.close()
        _read_then_kill(child, ours, rand.randrange(1, 60), known)
        _check_kept(tmp_path, known)
        if number % 20 == 19:
            known.clear()
            _empty(tmp_path)


def test_a_restart_retains_objects_and_never_reuses_resource_versions(tmp_path: Path) -> None:
    async def life() -> tuple[list[str], int]:
        with DataDir(tmp_path) as data:
            store = data.journal.opened_store()
            async with Embedded(EmbeddedSettings(), EmbeddedDependencies(store=store)) as cluster:
                namespaces = [key[1] for key in cluster.store.table("namespaces").keys]
                return namespaces, cluster.store.version

    first, at = asyncio.run(life())
    again, later = asyncio.run(life())
    assert first == again
    # Versions that were handed out and not kept must never come back as something else.
    assert later > at + 1000


def test_a_data_directory_in_use_is_refused(tmp_path: Path) -> None:
    with DataDir(tmp_path), pytest.raises(InUse, match="in use"), DataDir(tmp_path):
        pass
    with DataDir(tmp_path):
        pass


def test_a_data_directory_that_cannot_be_created_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(BadData, match="cannot use"), DataDir(tmp_path / "file" / "data"):
        pass


@settings(max_examples=20, deadline=None)
@given(st.binary(min_size=1, max_size=2000))
def test_a_corrupt_database_is_an_error_with_advice(junk: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "state.db")
        path.write_bytes(b"SQLite format 3\0" + junk)
        with pytest.raises(BadData, match="restore it from a backup"):
            SqliteJournal(path).opened_store()


def test_a_damaged_database_page_is_detected(tmp_path: Path) -> None:
    async def fill() -> None:
        with DataDir(tmp_path) as data:
            async with Embedded(
                EmbeddedSettings(), EmbeddedDependencies(store=data.journal.opened_store())
            ):
                pass

    asyncio.run(fill())
    path = tmp_path / "state.db"
    content = bytearray(path.read_bytes())
    content[4096 : 4096 + 400] = b"\xff" * 400
    path.write_bytes(content)
    with pytest.raises(BadData, match="corrupt"):
        SqliteJournal(path).opened_store()


def _read_then_kill(
    child: multiprocessing.process.BaseProcess, answers: Connection, count: int, known: _Values
) -> None:
    for _ in range(count):
        name, value = answers.recv()
        known[name] = value
    child.kill()
    child.join()
    try:
        while True:  # what was acknowledged up to the kill
            name, value = answers.recv()
            known[name] = value
    except EOFError:
        answers.close()


def _check_kept(folder: Path, known: _Values) -> None:
    with DataDir(folder) as data:
        table = data.journal.opened_store().table("configmaps").entries
        kept = {key[1]: entry.obj["data"]["v"] for key, entry in table.items()}
    for name, value in known.items():
        # A change that was under way when the kill came may be there without its answer.
        assert kept.get(name) in _possible(value), f"{name}: {kept.get(name)}, acknowledged {value}"


def _possible(value: str | None) -> tuple[str | None, ...]:
    return {"1": ("1", "2", None), "2": ("2",), None: (None,)}[value]


def _empty(folder: Path) -> None:
    with sqlite3.connect(folder / "state.db") as database:
        database.execute("DELETE FROM objects WHERE storage = 'configmaps'")
    database.close()
