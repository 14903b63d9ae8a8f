"""Timestamps as text. Pure: what time it is, is `clock.py`'s affair."""

from datetime import UTC, datetime
from typing import Final

_FIRST_S: Final = datetime(1, 1, 1, tzinfo=UTC).timestamp()
_LAST_S: Final = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()


def rfc3339(at_s: float) -> str:
    """A timestamp as Kubernetes writes it: whole seconds, UTC.

    Users write dates and durations whose sum no calendar has: such a moment is the first or the
    last of those that have a text.
    """
    within_s = min(max(at_s, _FIRST_S), _LAST_S)
    return datetime.fromtimestamp(within_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")


_UNITS: Final = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def duration(for_s: float) -> str:
    """A length of time in its two largest units: 3h12m, 45s."""
    left, parts = max(round(for_s), 0), []
    for size, unit in _UNITS:
        if left >= size:
            parts.append(f"{left // size}{unit}")
            left %= size
    return "".join(parts[:2]) or "0s"
