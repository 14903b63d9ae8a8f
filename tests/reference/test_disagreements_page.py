"""What we answer otherwise than KAI is told to users, not to our tests alone."""

from pathlib import Path

import pytest
from tests.reference.differences import differences

_PAGE = Path(__file__).parents[2] / "docs/reference/kai-disagreements.md"


@pytest.mark.parametrize("kind", ["grouper", "admission"])
def test_every_chosen_difference_stands_on_the_page(kind: str) -> None:
    lines = _PAGE.read_text().splitlines()
    assert [why for why in differences(kind).values() if f"- {why}" not in lines] == []
