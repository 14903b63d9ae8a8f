"""Moments and ages, as tables show them and as flags name them."""

from datetime import UTC, datetime

import typer

from muster.api.duration import BadDuration, Duration
from muster.base.clock import SystemClock
from muster.cli.tables import age


def now_s() -> float:
    return SystemClock().now_s()


def parsed(text: str | None) -> float | None:
    """Seconds since 1970 of what the API writes (RFC 3339)."""
    if not text:
        return None
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def clock_time(at_s: float | None) -> str:
    """14:32 of today, else with the day; local time."""
    if at_s is None:
        return "-"
    at = datetime.fromtimestamp(at_s, UTC).astimezone()
    today = datetime.fromtimestamp(now_s(), UTC).astimezone()
    return f"{at:%H:%M}" if at.date() == today.date() else f"{at:%m-%d %H:%M}"


def with_zone(at_s: float | None) -> str:
    """The same where it may be read elsewhere: on pages."""
    if at_s is None:
        return "-"
    zone = datetime.fromtimestamp(at_s, UTC).astimezone().tzname()
    return f"{clock_time(at_s)} {zone}"


def ago_s(text: str, flag: str) -> float | None:
    """The moment that `24h` or `2026-11-15T14:00:00Z` names; "": none."""
    if not text:
        return None
    try:
        return now_s() - Duration(text).seconds
    except BadDuration:
        pass
    try:
        return parsed(text)
    except ValueError:
        raise typer.BadParameter(
            f"{flag} {text!r}: write how long ago (24h, 7d) or a moment (2026-11-15T14:00:00Z)"
        ) from None


def for_so_long(since_s: float | None) -> str:
    """ " for 2h", behind what lasts; "" where nobody knows since when."""
    return "" if since_s is None else f" for {age(now_s() - since_s)}"


def lasted(seconds: float | None) -> str:
    return "-" if seconds is None else age(seconds)
