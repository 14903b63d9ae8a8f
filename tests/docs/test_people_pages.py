"""Pages, pictures and schemas that are made from the code are those that it makes now."""

import hashlib
import re
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from tests.support.code_names import ROOT
from tools import dashboard_picture, people_pages

from muster.model.reason_codes import CODES

_PICTURES = ROOT / "docs" / "pictures"
_COMPARISON = ROOT / "docs" / "guides" / "comparison.md"
_OLDEST_DAYS = 180


def test_every_page_that_is_made_is_what_make_docs_would_write() -> None:
    assert people_pages.stale() == [], "make docs"


def test_there_is_a_page_for_each_code_and_for_nothing_else() -> None:
    pages = {page.stem for page in (ROOT / "docs" / "reference" / "reasons").glob("*.md")}
    assert pages == set(map(str, CODES))


def test_pictures_of_the_dashboard_were_drawn_from_these_sources() -> None:
    drawn = (_PICTURES / "drawn-from.txt").read_text()
    assert drawn == dashboard_picture.drawn_from(), "python -m tools.dashboard_picture"


def test_the_first_page_is_short_and_shows_an_answer_and_the_dashboard_first() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 120
    whole = "\n".join(lines)
    assert whole.index("dashboard-light.png") < whole.index("muster why")
    assert whole.index("muster why") < whole.index("\n## ")


@pytest.mark.parametrize("page", [*sorted(ROOT.glob("docs/guides/*.md")), ROOT / "README.md"])
def test_every_picture_of_a_page_exists(page: Path) -> None:
    for target in re.findall(r'(?:src|srcset)="([^"]+)"', page.read_text()):
        assert (page.parent / target).exists(), target


def test_rows_of_the_comparison_are_dated_and_not_too_old() -> None:
    """Others move too: a row that nobody looked at for half a year says nothing."""
    rows = [line for line in _COMPARISON.read_text().splitlines() if re.match(r"\| [A-Z]", line)]
    dates = [re.findall(r"\d{4}-\d\d-\d\d", row) for row in rows]
    assert len(rows) >= 12
    assert [row for row, found in zip(rows, dates, strict=True) if len(found) != 1] == []
    today = datetime.now(UTC).date()
    old = [row for row, (at,) in zip(rows, dates, strict=True)
           if (today - date.fromisoformat(at)).days > _OLDEST_DAYS]  # fmt: skip
    assert old == [], "look again, and write the new date"


def test_a_picture_that_is_not_looked_at_again_is_noticed() -> None:
    """What is compared changes with every source of the pages."""
    one = dashboard_picture.drawn_from()
    assert re.fullmatch(r"[0-9a-f]{64}\n", one)
    assert one != hashlib.sha256(b"").hexdigest() + "\n"
