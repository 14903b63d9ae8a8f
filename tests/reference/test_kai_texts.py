"""Each text of KAI that the reference quotes is said by ours, whole and first, or differs for
a reason.
"""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.reference.kai_text_scenarios import SCENARIOS
from tests.support.cases import cases_folder

_TABLE: list[Mapping[str, Any]] = yaml.safe_load(
    Path(__file__).with_name("kai_texts.yaml").read_text()
)
_SAID = [row for row in _TABLE if "differs" not in row]
_NO_TEXTS = frozenset(yaml.safe_load(Path(__file__).with_name("kai_no_texts.yaml").read_text()))
"""What is quoted there and is nothing that KAI says of a workload or to a user."""


@cache
def _played(scenario: str) -> tuple[str, ...]:
    return tuple(SCENARIOS[scenario]())


@pytest.mark.parametrize("row", _SAID, ids=lambda row: f"{row['by']}: {row['said'][:50]}")
def test_what_tools_match_on_is_said_and_comes_first(row: Mapping[str, Any]) -> None:
    told = _played(row["by"])
    if row.get("within"):
        assert [one for one in told if row["said"] in one], told
    else:
        assert [one for one in told if one.startswith(row["said"])], told


def test_every_scenario_is_of_a_text() -> None:
    assert set(SCENARIOS) == {row["by"] for row in _SAID}


_NOTATION = re.compile(r"[{}=⇒]|->|\*\*|--|### ")


def _quoted() -> list[str]:
    """What looks like a sentence between quotes in the reference, in the order of its pages."""
    found: dict[str, None] = {}
    for page in ("kai-core", "kai-core-v017", "kai-services", "kai-services-v017"):
        path = cases_folder().parent / "reference" / f"{page}.md"
        text = re.sub(r"\s*\n\s*", " ", path.read_text()) if path.exists() else ""
        for quote, least in (('"', 3), ("`", 4)):
            for part in re.findall(f"{quote}([^{quote}]{{8,400}}?){quote}", text):
                is_sentence = re.match(r"[A-Za-z<….\\]\S", part) and part == part.strip()
                if is_sentence and len(part.split()) >= least and not _NOTATION.search(part):
                    found[part] = None
    return list(found)


@pytest.mark.cases
@pytest.mark.parametrize("quoted", _quoted())
def test_every_text_that_the_reference_quotes_is_in_the_table(quoted: str) -> None:
    assert quoted in {row["text"] for row in _TABLE} | _NO_TEXTS
