"""Days that the cluster keeps, put into a file of this process."""

from typing import Any

import pytest

from muster.base.clock import VirtualClock
from muster.base.offload import inline
from muster.usage.days import DayUsage
from muster.usage.kept import UsageFolder


class SetClock(VirtualClock):
    """Says what it was set to."""

    at_s = 1e9

    def now_s(self) -> float:
        return self.at_s


class Counted:
    """In place of what the cluster keeps: how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    async def changed(self, now_s: float) -> list[DayUsage]:
        self.asked += 1
        return []


@pytest.mark.parametrize(("later_s", "asked"), [(5.0, 1), (30.0, 2), (-3600.0, 2)])
async def test_however_many_ask_the_cluster_is_read_now_and_then_by_any_clock(
    later_s: float, asked: int
) -> None:
    """A clock that was set back an hour does not make what was read last an hour."""
    kept: Any = Counted()
    clock = SetClock()
    folder = UsageFolder(kept, clock, inline)
    first = await folder.path()
    clock.at_s += later_s
    assert await folder.path() == first
    assert await folder.path() == first
    assert kept.asked == asked
    folder.close()
