"""Cron schedules: five fields, names of months and days, steps, ranges, `@daily` and the like."""

from collections.abc import Iterator
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

LENGTH_MAX: Final = 1000
"""All minutes, hours, days and months of a year, each written out, are half of it."""


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
        day = self._day_of(after_s)
        for _ in range(_DAYS_MAX):
            if found := [at_s for at_s in self._times(day) if at_s > after_s]:
                return min(found)
            day += timedelta(days=1)
        return None

    def last_s(self, before_s: float) -> float | None:
        """The last time before `before_s`; None: there was none."""
        day = self._day_of(before_s)
        for _ in range(_DAYS_MAX):
            if found := [at_s for at_s in self._times(day) if at_s < before_s]:
                return max(found)
            day -= timedelta(days=1)
        return None

    def _day_of(self, at_s: float) -> datetime:
        at = datetime.fromtimestamp(at_s, self.zone)
        return at.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)

    def _times(self, day: datetime) -> Iterator[float]:
        """Of one day. Where clocks are put back an hour is there twice, and so are its times; what
        is left out where they are put forward comes an hour later."""
        if not self._is_day(day):
            return
        is_even = day.utcoffset() == (day + timedelta(days=1)).utcoffset()
        begin_s = day.timestamp()
        for hour in self.hours:
            for minute in self.minutes:
                if is_even:
                    yield begin_s + hour * 3600 + minute * 60
                    continue
                at = day.replace(hour=hour, minute=minute)
                once_s = at.timestamp()
                yield from {once_s, max(once_s, at.replace(fold=1).timestamp())}

    def _is_day(self, at: datetime) -> bool:
        if at.month not in self.months:
            return False
        of_month, of_week = at.day in self.days, at.isoweekday() % 7 in self.weekdays
        return of_month or of_week if self.either_day else of_month and of_week


def parsed(text: str, zone: str = "") -> Schedule:
    """A schedule from its text. Raises `BadSchedule`."""
    if len(text) > LENGTH_MAX:
        raise BadSchedule(f"{len(text)} letters are more than {LENGTH_MAX}")
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
