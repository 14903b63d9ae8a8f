"""The table of commands, and what asking for a line of help may cost."""

import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from muster.cli.commands import COMMANDS, SERVICES
from muster.cli.main import app
from muster.cli.services import SERVICES as TABLE

_HEAVY = ("aiohttp", "numba", "numpy", "muster.engine", "muster.services", "muster.sim")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_says_of_a_command_what_it_says_of_itself(name: str) -> None:
    said = COMMANDS[name].load(name).help
    assert said.strip().splitlines()[0] == COMMANDS[name].help


def test_every_service_is_a_command() -> None:
    listed = {name for name, entry in COMMANDS.items() if entry.panel == SERVICES}
    assert listed == {service.name for service in TABLE}


def test_the_flags_of_a_command_are_shown_when_it_is_asked_about() -> None:
    result = CliRunner().invoke(app, ["replay", "--help"], env={"COLUMNS": "100"})
    assert result.exit_code == 0
    assert "--conf" in result.output


def test_a_wrong_word_is_answered_with_the_nearest_right_one() -> None:
    result = CliRunner().invoke(app, ["bindre"])
    assert result.exit_code == 2
    assert "Did you mean 'binder'?" in result.output


@pytest.mark.parametrize("asked", [["--version"], ["--help"]])
def test_whoever_asks_for_version_or_help_waits_for_no_import_of_the_engine(
    asked: list[str],
) -> None:
    assert _imported_by(asked) == []


@pytest.mark.parametrize("words", [["jobs", "-h"], ["why", "x", "--help"], ["submit", "--help"]])
def test_the_help_of_a_command_converts_no_values(words: list[str]) -> None:
    """To import what typer converts them with takes longer than the help."""
    heavy = ("pydantic", "rich.console", "aiohttp")
    assert not set(_imported_by(words, heavy=heavy))
    said = CliRunner().invoke(app, words)
    assert (said.exit_code, said.stdout[:13]) == (0, "Usage: muster")


def test_a_completion_imports_nothing_of_the_engine() -> None:
    environment = (
        "os.environ.update(_MUSTER_COMPLETE='complete_bash', COMP_WORDS='muster b', COMP_CWORD='1')"
    )
    assert _imported_by([], environment) == []


@pytest.mark.parametrize("words", ["muster jo", "muster jobs --st", "muster reasons NoR"])
@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_a_completion_imports_nothing_that_takes_longer_than_itself(shell: str, words: str) -> None:
    """pydantic and rich, which typer would have for values and markup that are not there."""
    asked = {
        "_MUSTER_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "_TYPER_COMPLETE_ARGS": words,
    }
    program = (
        "import sys\nfrom muster.cli.entry import main\nsys.argv = ['muster']\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print([one for one in ('pydantic', 'rich.console', 'aiohttp') if one in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    *offered, imported = done.stdout.splitlines()
    assert offered[0].split()[0] in ("jobs", "--state", "NoRoom")
    assert imported == "[]"


def test_no_service_but_the_scheduler_waits_for_the_engine() -> None:
    """Nor does the scheduler, to read its flags."""
    assert "numba" not in _imported_by(["binder", "--help"])
    assert "numba" not in _imported_by(["scheduler", "--help"])


def _imported_by(
    arguments: list[str], before: str = "", heavy: tuple[str, ...] = _HEAVY
) -> list[str]:
    """Those of the heavy modules that the command has imported when it ends."""
    program = (
        f"import os, sys; {before}\n"
        "from muster.cli.main import app\n"
        f"try: app({arguments!r}, prog_name='muster')\n"
        "except SystemExit: pass\n"
        f"print(*(name for name in {heavy!r} if name in sys.modules), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stderr.split()


def test_no_service_but_the_scheduler_loads_the_engine() -> None:
    """It is most of what there is to load, and a service that starts anew has no time to lose."""
    assert "numba" not in _imported_by(["binder", "--help"])


@pytest.mark.parametrize("one", ["job", "queue", "node", "reason"])
def test_what_lists_several_is_called_by_the_name_of_one_too(one: str) -> None:
    said = CliRunner().invoke(app, [one, "--help"])
    assert said.exit_code == 0
    assert said.stdout.startswith(f"Usage: muster {one}s")
    assert CliRunner().invoke(app, ["job-s"]).exit_code == 2
