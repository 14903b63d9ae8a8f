"""The page about sizes holds figures that were measured, and only those."""

import re
from typing import Any

import pytest
import yaml
from tests.support.code_names import ROOT

_PAGE = ROOT / "docs" / "guides" / "size.md"
_KEPT: dict[str, Any] = yaml.safe_load((ROOT / "benchmarks" / "limits.yaml").read_text())
_ROW = re.compile(
    r"^\| .* \| (\d+) \| (\d+) \| ([\d.]+) \| `([\w-]+)` `([\w.-]+)` \|$", re.MULTILINE
)
_ROWS = _ROW.findall(_PAGE.read_text())


@pytest.mark.parametrize(
    ("nodes", "pods", "figure", "case", "measure"), _ROWS, ids=[f"{r[3]}-{r[4]}" for r in _ROWS]
)
def test_a_figure_is_the_one_that_was_kept(
    nodes: str, pods: str, figure: str, case: str, measure: str
) -> None:
    measured = _KEPT[case]["measured"]
    assert (int(nodes), int(pods)) == (measured["nodes"], measured["pods"])
    found = measured
    for step in measure.split("."):
        found = found[step]
    assert float(figure) == found


def test_every_row_is_looked_at() -> None:
    table = [line for line in _PAGE.read_text().splitlines() if line.startswith("| ")]
    assert len(_ROWS) == len(table) - 1
