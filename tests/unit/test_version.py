from typer.testing import CliRunner

from muster import __version__
from muster.cli.main import app


def test_the_command_prints_its_version() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert result.exit_code == 0
    assert result.output.strip() == f"muster {__version__}"
