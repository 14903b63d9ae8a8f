"""Times are formatted as RFC 3339, whatever somebody adds to a date."""

import pytest

from muster.base.timefmt import rfc3339
from muster.model.public_reasons import public_reason
from muster.model.reasons import Reason, Refusal


@pytest.mark.parametrize(
    ("at_s", "text"),
    [
        (0.0, "1970-01-01T00:00:00Z"),
        (1_700_000_000.9, "2023-11-14T22:13:20Z"),
        (-62_135_596_800.0, "0001-01-01T00:00:00Z"),
        (253_402_300_799.0, "9999-12-31T23:59:59Z"),
        (253_402_300_799.0 + 9.2e9, "9999-12-31T23:59:59Z"),
        (float("inf"), "9999-12-31T23:59:59Z"),
        (-1e300, "0001-01-01T00:00:00Z"),
    ],
)
def test_a_time_beyond_the_calendar_is_formatted_as_its_nearest_end(at_s: float, text: str) -> None:
    assert rfc3339(at_s) == text


def test_a_refusal_until_after_the_year_9999_has_a_sentence() -> None:
    refused = Refusal(Reason.PREEMPTION_DELAY, until_s=253_402_300_799.0 + 9.2e9)
    said = public_reason(refused).sentence
    assert said == "It may not cause evictions before 9999-12-31T23:59:59Z."
