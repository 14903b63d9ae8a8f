"""Pictures of the dashboard show what its pages show now."""

from pathlib import Path

import pytest
from tools import dashboard_picture

pytestmark = pytest.mark.browser


async def test_pages_say_what_they_said_when_they_were_drawn(tmp_path: Path) -> None:
    """Compared in words: pixels are another with each version of the browser and its fonts."""
    said = (dashboard_picture.FOLDER / "words.txt").read_text()
    assert await dashboard_picture.said(tmp_path) == said, "python -m tools.dashboard_picture"
