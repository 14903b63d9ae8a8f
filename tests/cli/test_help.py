"""Every command's help can be read on a terminal of 80 columns."""

from typing import Any

import pytest
from typer.testing import CliRunner

from muster.cli.commands import COMMANDS
from muster.cli.main import app


def _flags(command: Any) -> list[str]:
    return [flag for one in command.params for flag in (*one.opts, *one.secondary_opts)]


@pytest.mark.parametrize("name", list(COMMANDS))
def test_help_of_80_columns_names_every_flag_whole(name: str) -> None:
    result = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "80"})
    assert result.exit_code == 0
    # An example is pasted, and so is not broken.
    told = [line for line in result.stdout.splitlines() if not line.startswith("  muster ")]
    assert [line for line in told if len(line) > 80] == []
    words = result.stdout.replace(",", " ").replace("/", " ").split()
    flags = [flag for flag in _flags(COMMANDS[name].load(name)) if flag.startswith("-")]
    assert [flag for flag in flags if flag not in words] == []
    assert "…" not in result.stdout
