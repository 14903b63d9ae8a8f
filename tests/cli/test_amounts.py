"""One way to write amounts, in every command and on every page of the dashboard."""

import pytest

from muster.cli.tables import amount


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0, "0"),
        (10, "10"),
        (1000, "1,000"),
        (0.25, "0.25"),
        (0.333, "0.33"),
        (7.1, "7.1"),
        (9.999, "10"),
        (17.453, "17.5"),
        (17.0, "17"),
        (-0.5, "-0.5"),
    ],
)
def test_small_amounts_have_hundredths_and_large_ones_tenths(
    value: float | None, text: str
) -> None:
    assert amount(value) == text
