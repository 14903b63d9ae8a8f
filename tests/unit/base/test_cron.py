"""Cron schedules: when is the next time."""

from datetime import UTC, datetime

import pytest

from muster.base.cron import BadSchedule, parsed


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("schedule", "after", "wanted"),
    [
        ("*/15 * * * *", "2026-01-01T00:00:00", "2026-01-01T00:15:00"),
        ("*/15 * * * *", "2026-01-01T23:50:00", "2026-01-02T00:00:00"),
        ("30 4 * * *", "2026-01-01T04:29:59", "2026-01-01T04:30:00"),
        ("0 0 1 * *", "2026-01-01T00:00:00", "2026-02-01T00:00:00"),
        ("0 12 29 2 *", "2026-01-01T00:00:00", "2028-02-29T12:00:00"),
        ("0 9 * * mon-fri", "2026-01-02T09:00:00", "2026-01-05T09:00:00"),
        ("0 0 13 * fri", "2026-01-01T00:00:00", "2026-01-02T00:00:00"),
        ("5,10-12 * * * *", "2026-01-01T00:05:00", "2026-01-01T00:10:00"),
        ("0 0 * * 7", "2026-01-01T00:00:00", "2026-01-04T00:00:00"),
        ("@hourly", "2026-01-01T00:00:01", "2026-01-01T01:00:00"),
        ("0 0 1 jan *", "2026-01-01T00:00:00", "2027-01-01T00:00:00"),
    ],
)
def test_a_cron_schedule_has_its_next_time(schedule: str, after: str, wanted: str) -> None:
    assert parsed(schedule).next_s(at(after)) == at(wanted)


def test_an_impossible_schedule_has_no_next_time() -> None:
    assert parsed("0 0 30 2 *").next_s(at("2026-01-01T00:00:00")) is None


def test_a_schedule_follows_its_time_zone() -> None:
    assert parsed("0 9 * * *", "Asia/Tokyo").next_s(at("2026-01-01T00:00:00")) == at(
        "2026-01-02T00:00:00"
    )


def test_an_hour_that_clocks_show_twice_has_its_times_twice() -> None:
    """At 01:00 UTC clocks in Berlin go from 03:00 back to 02:00. The next time is never past:
    whoever waits for it would not wait at all."""
    each, once = parsed("* * * * *", "Europe/Berlin"), parsed("30 2 * * *", "Europe/Berlin")
    for minute in range(180):
        now_s = at("2026-10-25T00:00:00") + 60 * minute
        assert each.next_s(now_s) == now_s + 60
        assert each.last_s(now_s) == now_s - 60
    assert once.next_s(at("2026-10-24T22:00:00")) == at("2026-10-25T00:30:00")
    assert once.next_s(at("2026-10-25T00:30:00")) == at("2026-10-25T01:30:00")
    assert once.next_s(at("2026-10-25T01:30:00")) == at("2026-10-26T01:30:00")
    assert once.last_s(at("2026-10-25T01:30:00")) == at("2026-10-25T00:30:00")


def test_a_time_that_clocks_leave_out_comes_an_hour_later() -> None:
    """At 01:00 UTC clocks in Berlin go from 02:00 to 03:00."""
    schedule = parsed("30 2 * * *", "Europe/Berlin")
    assert schedule.next_s(at("2026-03-28T12:00:00")) == at("2026-03-29T01:30:00")
    assert schedule.next_s(at("2026-03-29T01:30:00")) == at("2026-03-30T00:30:00")
    assert schedule.last_s(at("2026-03-29T01:31:00")) == at("2026-03-29T01:30:00")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("1," * 500_000 + "1 * * * *", id="long"),
        "",
        "* * * *",
        "60 * * * *",
        "* 24 * * *",
        "x * * * *",
        "*/0 * * * *",
        "9-5 * * * *",
    ],
)
def test_a_malformed_schedule_is_an_error(text: str) -> None:
    with pytest.raises(BadSchedule):
        parsed(text)


@pytest.mark.parametrize("zone", ["Nowhere/Here", "Europe", "x" * 5000, "a\x00", "zone.tab"])
def test_an_unknown_time_zone_is_an_error(zone: str) -> None:
    """ "Europe" is a folder of zones, and a long name is no file name: both are OSErrors."""
    with pytest.raises(BadSchedule, match="unknown time zone"):
        parsed("@daily", zone)


@pytest.mark.parametrize(
    ("schedule", "before", "wanted"),
    [
        ("*/15 * * * *", "2026-01-01T00:10:00", "2026-01-01T00:00:00"),
        ("*/15 * * * *", "2026-01-01T00:15:00", "2026-01-01T00:00:00"),
        ("*/15 * * * *", "2026-01-01T00:15:01", "2026-01-01T00:15:00"),
        ("30 4 * * *", "2026-01-01T04:29:59", "2025-12-31T04:30:00"),
        ("0 0 1 * *", "2026-01-01T00:00:00", "2025-12-01T00:00:00"),
        ("0 12 29 2 *", "2026-01-01T00:00:00", "2024-02-29T12:00:00"),
        ("0 9 * * mon-fri", "2026-01-04T10:00:00", "2026-01-02T09:00:00"),
    ],
)
def test_a_cron_schedule_has_its_last_time(schedule: str, before: str, wanted: str) -> None:
    assert parsed(schedule).last_s(at(before)) == at(wanted)


def test_an_impossible_schedule_has_no_last_time() -> None:
    assert parsed("0 0 30 2 *").last_s(at("2026-01-01T00:00:00")) is None
