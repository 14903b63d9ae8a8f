"""Cron schedules: five fields, names of months and days, steps, ranges, `@daily` and the like."""

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_FIELDS: Final = (
    ("minute", 0, 59),
    ("hour", 0, 23),
    ("day", 1, 31),
    ("month", 1, 12),
    ("weekday", 0, 7),
)
_MONTHS: Final = (
    "jan",
    "feb",
    "mar",
    "apr",
    "may",
    "jun",
    "jul",
    "aug",
    "sep",
    "oct",
    "nov",
    "dec",
)
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_SHORT: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
# Four years hold every date that there is, so a time not found in them never comes.
_DAYS_MAX: Final = 4 * 366 + 1


class BadSchedule(ValueError):
    """The text is no cron schedule."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """The minutes at which something happens."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    # Cron's own rule: if both days are restricted, either will do.
    either_day: bool
    zone: tzinfo = UTC

    def next_s(self, after_s: float) -> float | None:
        """The first time after `after_s`; None: never."""
        at = datetime.fromtimestamp(after_s, self.zone).replace(second=0, microsecond=0)
        at += timedelta(minutes=1)
        for _ in range(_DAYS_MAX):
            if self._is_day(at):
                found = self._in_day(at)
                if found is not None:
                    return found.timestamp()
            at = (at + timedelta(days=1)).replace(hour=0, minute=0)
        return None

    def last_s(self, before_s: float) -> float | None:
        """The last time before `before_s`; None: there was none."""
        at = datetime.fromtimestamp(math.ceil(before_s / 60) * 60 - 60, self.zone)
        for _ in range(_DAYS_MAX):
            if self._is_day(at):
                found = self._in_day_backwards(at)
                if found is not None:
                    return found.timestamp()
            at = (at - timedelta(days=1)).replace(hour=23, minute=59)
        return None

    def _is_day(self, at: datetime) -> bool:
        if at.month not in self.months:
            return False
        of_month, of_week = at.day in self.days, at.isoweekday() % 7 in self.weekdays
        return of_month or of_week if self.either_day else of_month and of_week

    def _in_day(self, at: datetime) -> datetime | None:
        for hour in sorted(self.hours):
            if hour < at.hour:
                continue
            for minute in sorted(self.minutes):
                if (hour, minute) >= (at.hour, at.minute):
                    return at.replace(hour=hour, minute=minute)
        return None

    def _in_day_backwards(self, at: datetime) -> datetime | None:
        for hour in sorted(self.hours, reverse=True):
            if hour > at.hour:
                continue
            for minute in sorted(self.minutes, reverse=True):
                if (hour, minute) <= (at.hour, at.minute):
                    return at.replace(hour=hour, minute=minute)
        return None


def parsed(text: str, zone: str = "") -> Schedule:
    """A schedule from its text. Raises `BadSchedule`."""
    parts = _SHORT.get(text.strip().lower(), text).split()
    if len(parts) != len(_FIELDS):
        raise BadSchedule(f"{text!r}: expected exactly 5 fields, found {len(parts)}")
    sets = [_values(part, *field) for part, field in zip(parts, _FIELDS, strict=True)]
    weekdays = frozenset(day % 7 for day in sets[4])
    either = not parts[2].startswith(("*", "?")) and not parts[4].startswith(("*", "?"))
    return Schedule(sets[0], sets[1], sets[2], sets[3], weekdays, either, _zone(zone))


def _zone(name: str) -> tzinfo:
    if not name:
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # the last: "Europe", a folder of zones
        raise BadSchedule(f"unknown time zone {name!r}") from None


def _values(part: str, name: str, least: int, most: int) -> frozenset[int]:
    values: set[int] = set()
    for piece in part.split(","):
        span, _, step_text = piece.partition("/")
        try:
            step = int(step_text or 1)
            if span in ("*", "?"):
                first, last = least, most
            else:
                low, dash, high = span.partition("-")
                first = _number(low)
                last = _number(high) if dash else (most if step_text else first)
        except ValueError:
            raise BadSchedule(f"bad {name} {piece!r}") from None
        if step < 1 or not least <= first <= last <= most:
            raise BadSchedule(f"bad {name} {piece!r}: allowed are {least} to {most}")
        values.update(range(first, last + 1, step))
    return frozenset(values)


def _number(text: str) -> int:
    name = text.lower()[:3]
    if name in _MONTHS:
        return _MONTHS.index(name) + 1
    return _DAYS.index(name) if name in _DAYS else int(text)
