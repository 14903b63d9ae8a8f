"""muster replay of a journal: the exit code says what is different, and a cycle becomes a test."""

from pathlib import Path

import pytest
from tests.support.busy_cluster import BusyCluster
from tests.unit.foresight.test_journal import damage, path_in, recorded
from typer.testing import CliRunner, Result

from muster.cli.main import app
from muster.foresight.journal.reader import JournalReader
from muster.foresight.journal.replay import situations
from muster.testing.run_scenario import problems
from muster.testing.scenario import read_scenario

_CYCLES = 40
_USUAL = "actions: allocate, consolidation, reclaim, preempt, stalegangeviction"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("journal")
    recorded(found, BusyCluster(7), _CYCLES).close()
    return found


def replay(*words: object) -> Result:
    return CliRunner().invoke(app, ["replay", *map(str, words)])


def test_where_all_is_the_same_it_ends_with_0(folder: Path) -> None:
    found = replay(folder)
    assert (found.exit_code, found.stdout) == (0, f"{_CYCLES} cycles decided again: 40 same\n")


@pytest.mark.parametrize(
    ("conf", "code", "said"),
    [
        (_USUAL, 0, "40 same"),
        (_USUAL.removesuffix(", stalegangeviction"), 3, "other notes"),
        (f"{_USUAL}\nplacement: spread", 3, "other nodes"),
        ("actions: allocate", 5, "other evictions"),
    ],
)
def test_against_another_configuration_the_worst_difference_counts(
    folder: Path, tmp_path: Path, conf: str, code: int, said: str
) -> None:
    file = tmp_path / "other.yaml"
    file.write_text(conf + "\n")
    found = replay(folder, "--against", file)
    assert found.exit_code == code, found.output
    assert said in found.stdout


def test_the_decisions_of_another_version_are_compared_with_those_of_this_one(
    folder: Path,
) -> None:
    assert replay(folder, "--against", "0.1.0").exit_code == 0
    unknown = replay(folder, "--against", "9.9.9")
    assert unknown.exit_code == 1
    assert "9.9.9 is no file, and no cycle" in " ".join(unknown.stderr.split())


def test_a_cycle_becomes_a_scenario_that_holds(folder: Path, tmp_path: Path) -> None:
    deciding = next(
        cycle.id for cycle, _ in situations(JournalReader(path_in(folder)).cycles()) if cycle.plan
    )
    file = tmp_path / "cycle.yaml"
    assert replay(folder, "--cycle", deciding, "--scenario", file).exit_code == 0
    assert problems(read_scenario(file)) == []
    assert replay(folder, "--cycle", 10**6, "--scenario", file).exit_code == 1
    assert replay(folder, "--cycle", 10**6).exit_code == 1


def test_a_damaged_journal_is_no_traceback(folder: Path, tmp_path: Path) -> None:
    path_in(tmp_path).write_bytes(path_in(folder).read_bytes())
    damage(path_in(tmp_path))
    found = replay(tmp_path)
    assert found.exit_code == 1
    assert "cannot be read" in found.stderr
