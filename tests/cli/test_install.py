"""muster install and uninstall: what is refused before a cluster is asked."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from muster.cli.main import app


def _output(*arguments: str) -> str:
    result = CliRunner().invoke(app, [*arguments], env={"COLUMNS": "300"})
    assert result.exit_code != 0
    return " ".join(result.output.split())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("spec: {binder: {metricsPort: 0}}", "spec.binder.metricsPort: 0 is no port"),
        ("spec: {binder: 3}", "spec.binder"),
        ("- 1", "write a Config as YAML"),
        ("a: [", "--config"),
        ("spec: {namespace: elsewhere}", "the Config says elsewhere; write that"),
    ],
)
def test_a_config_that_cannot_be_used_is_named_with_its_field(
    text: str, says: str, tmp_path: Path
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    assert says in _output("install", "--config", str(file))


@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_without_a_cluster_the_command_says_where_it_looked(command: str, tmp_path: Path) -> None:
    missing = tmp_path / "no-such-kubeconfig"
    assert str(missing) in _output(command, "--kubeconfig", str(missing))
