"""Where `muster` starts: one command is loaded, and it is the same as among all of them."""

import subprocess
import sys

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from muster.cli.entry import ALONE, SERVICES, only
from muster.cli.main import app


def _flags(command: object) -> set[str]:
    return {flag for parameter in command.params for flag in parameter.opts}  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", [*ALONE, *SERVICES])
def test_a_command_alone_is_the_same_as_among_the_others(name: str) -> None:
    whole = get_command(app).commands[name]  # type: ignore[attr-defined]
    alone = get_command(only(name)).commands[name]  # type: ignore[attr-defined]
    assert _flags(alone) == _flags(whole)
    assert alone.help == whole.help


def test_every_service_can_be_started_alone() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    panels = {name for name, one in commands.items() if one.rich_help_panel == "Services"}
    assert panels == set(SERVICES)


def test_a_flag_that_is_not_known_is_an_error_with_the_name_of_the_command() -> None:
    done = CliRunner().invoke(only("binder"), ["binder", "--nonsense"])
    assert done.exit_code == 2
    assert "--nonsense" in done.output


def test_no_other_service_loads_the_engine() -> None:
    """Of all that there is to load it is the most; nobody but the scheduler needs it to start."""
    script = (
        "import sys; from muster.cli.entry import only; only('binder');"
        "print([name for name in sys.modules if name.startswith(('numba', 'muster.lab'))])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
