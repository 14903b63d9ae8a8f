"""The table of what went wrong in other schedulers names tests that there are, each probe some."""

import ast
from functools import cache
from pathlib import Path

import pytest
import yaml

_ROOT = Path(__file__).resolve().parents[2]
_TABLE = yaml.safe_load((_ROOT / "tests/probes.yaml").read_text())
_PROBES = [probe for probes in _TABLE.values() for probe in probes]


@cache
def _functions(file: str) -> frozenset[str]:
    tree = ast.parse((_ROOT / file).read_text())
    return frozenset(one.name for one in tree.body if isinstance(one, ast.FunctionDef))


@pytest.mark.parametrize("probe", _PROBES, ids=lambda probe: probe["seen"][:60])
def test_every_probe_of_the_table_is_shown_by_tests_that_there_are(
    probe: dict[str, list[str]],
) -> None:
    assert probe["shown"]
    for shown in probe["shown"]:
        file, name = shown.split("::")
        assert name in _functions(file), f"{file} has no {name}"


def test_every_test_of_the_probes_is_in_the_table() -> None:
    """So that a probe that gets a test gets its line."""
    file = "tests/unit/engine/tiers/test_full_cluster.py"
    named = {shown for probe in _PROBES for shown in probe["shown"]}
    assert {f"{file}::{name}" for name in _functions(file) if name.startswith("test_")} <= named
