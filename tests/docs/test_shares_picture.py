"""The picture of shares over days shows what the simulator says."""

import pytest
from tools import shares_picture


def test_the_picture_of_shares_over_days_is_what_the_simulator_says() -> None:
    assert shares_picture.PICTURE.read_text() == shares_picture.drawn(shares_picture.lines())


def test_the_guide_tells_the_errors_of_the_picture() -> None:
    guide = (shares_picture.ROOT / "docs" / "guides" / "fair-share-over-time.md").read_text()
    for line in shares_picture.lines():
        told = " | ".join(f"{line.after(days):.2f}" for days in shares_picture.DAYS)
        assert f"| {line.name} | {told} |" in guide


@pytest.mark.row(33)
def test_equal_queues_are_closer_to_equal_usage_after_four_weeks_than_after_one() -> None:
    for line in shares_picture.lines():
        assert line.after(28) < 0.02 < line.after(1)
