"""The system's clock: durations count on while the machine sleeps."""

import time

import pytest

from muster.base.clock import SystemClock


def test_durations_count_the_time_that_the_machine_was_suspended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    readings = {time.CLOCK_MONOTONIC: 100.0, time.CLOCK_BOOTTIME: 3700.0}
    monkeypatch.setattr(time, "clock_gettime", readings.__getitem__)
    assert SystemClock().monotonic_s() == 3700.0
