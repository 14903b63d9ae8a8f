"""From when on the past counts: sliding, tumbling and cron windows."""

from datetime import UTC, datetime

import pytest

from muster.model.usage import UsageWindow
from muster.usage.windows import window_start_s

HOUR_S = 3600.0


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def test_a_sliding_window_ends_now() -> None:
    assert window_start_s(UsageWindow(size_s=HOUR_S), 10_000.0) == 6_400.0


@pytest.mark.parametrize(
    ("now_s", "began_s"),
    [
        (1_000.0, 1_000.0),  # the moment it begins: nothing counts yet
        (900.0, 900.0),  # it has not begun
        (1_001.0, 1_000.0),
        (4_600.0, 1_000.0),  # the edge still belongs to the window that ends
        (4_600.5, 4_600.0),
        (1_000.0 + 10 * HOUR_S + 1, 1_000.0 + 10 * HOUR_S),
    ],
)
def test_tumbling_windows_follow_each_other_from_the_first_on(now_s: float, began_s: float) -> None:
    window = UsageWindow(kind="tumbling", size_s=HOUR_S, start_s=1_000.0)
    assert window_start_s(window, now_s) == began_s


@pytest.mark.parametrize(
    ("now", "began"),
    [
        ("2026-11-16T22:32:10", "2026-11-16T00:00:00"),  # a Monday
        ("2026-11-16T00:00:00", "2026-11-09T00:00:00"),  # strictly before now
        ("2026-11-16T00:00:01", "2026-11-16T00:00:00"),
        ("2026-11-15T23:59:59", "2026-11-09T00:00:00"),
    ],
)
def test_a_cron_window_began_when_its_schedule_last_came(now: str, began: str) -> None:
    window = UsageWindow(kind="cron", cron="0 0 * * 1")
    assert window_start_s(window, at(now)) == at(began)
