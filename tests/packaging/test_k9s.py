"""The plugin for k9s runs commands that there are."""

import shlex
from pathlib import Path
from typing import Any

import yaml
from typer.testing import CliRunner

from muster.cli.main import app

_FILE = Path(__file__).resolve().parents[2] / "deploy" / "k9s" / "plugins.yaml"


def _plugins() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.safe_load(_FILE.read_text())["plugins"]
    return found


def test_one_key_on_a_pod_or_a_pod_group_asks_why() -> None:
    plugins = _plugins().values()
    assert sorted(scope for one in plugins for scope in one["scopes"]) == ["podgroups", "pods"]
    assert {one["shortCut"] for one in plugins} == {"Shift-W"}


def test_what_it_runs_is_a_command_of_ours_with_flags_that_it_has() -> None:
    help_text = CliRunner().invoke(app, ["why", "--help"]).stdout
    for one in _plugins().values():
        assert (one["command"], one["args"][0]) == ("sh", "-c")
        words = shlex.split(one["args"][1].partition(" 2>&1")[0])
        assert words[:3] == ["kubectl", "muster", "why"]
        assert all(flag in help_text for flag in words if flag.startswith("-"))
