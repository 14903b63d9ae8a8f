"""Lengths of time as Kubernetes users write them: `1h30m`, `500ms`, and also `1d`, `2w`.

Everything that Go's time.ParseDuration reads is read alike, with days of 24 hours and weeks of
seven days added; anything else is refused. Exact, in integer nanoseconds.
"""

import re
from functools import total_ordering
from typing import Final

_UNIT_NS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # micro sign
    "μs": 1_000,  # Greek mu, which Go takes for the same
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
    "w": 604_800_000_000_000,
}
_PART: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h|d|w)", re.ASCII)
_LARGEST_NS: Final = 2**63 - 1
LENGTH_MAX: Final = 256
"""Longer texts are no durations: looking for units in digits takes the square of the length."""


class BadDuration(ValueError):
    """The text is not a length of time."""

    def __init__(self, text: object, why: str = "") -> None:
        shown = repr(text)
        shown = shown if len(shown) <= 60 else shown[:57] + "..."
        super().__init__(
            f"not a duration: {shown}{' ' + why if why else ''}"
            " (write a number with a unit, like 90s, 1h30m or 1d)"
        )


@total_ordering
class Duration:
    """An exact length of time; negative ones exist."""

    __slots__ = ("ns",)

    ns: int

    def __init__(self, text: "str | Duration" = "0s") -> None:
        object.__setattr__(self, "ns", text.ns if isinstance(text, Duration) else _parsed_ns(text))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Duration cannot be changed: {name}")

    @property
    def seconds(self) -> float:
        return self.ns / 1e9

    def __str__(self) -> str:
        return _canonical(self.ns)

    def __repr__(self) -> str:
        return f"Duration({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return self.ns == other.ns if isinstance(other, Duration) else NotImplemented

    def __lt__(self, other: "Duration") -> bool:
        return self.ns < other.ns

    def __hash__(self) -> int:
        return hash(self.ns)


def _parsed_ns(text: object) -> int:
    if not isinstance(text, str) or not text or len(text) > LENGTH_MAX:
        raise BadDuration(text)
    negative, rest = text[0] == "-", text[1:] if text[0] in "+-" else text
    if rest == "0":
        return 0
    total = sum(_parts_ns(text, rest))
    if total > _LARGEST_NS + negative:
        raise BadDuration(text, "is longer than 292 years")
    return -total if negative else total


def _parts_ns(text: str, rest: str) -> list[int]:
    parts: list[int] = []
    at = 0
    while at < len(rest) or not parts:
        match = _PART.match(rest, at)
        if match is None or not (match[1] or match[2]):
            raise BadDuration(text)
        unit = _UNIT_NS[match[3]]
        fraction = match[2] or ""
        # What is finer than a nanosecond is cut off, as in Go.
        finer = int(fraction or "0") * unit // 10 ** len(fraction)
        parts.append(int(match[1] or "0") * unit + finer)
        at = match.end()
    return parts


def _canonical(ns: int) -> str:
    """As Go prints it: hours, minutes, seconds; below a second in the largest fitting unit."""
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    if ns == 0:
        return "0s"
    if ns < 1_000_000_000:
        unit = next(unit for unit in ("ms", "µs", "ns") if ns >= _UNIT_NS[unit])
        return f"{sign}{_decimal(ns, _UNIT_NS[unit])}{unit}"
    minutes, rest = divmod(ns, _UNIT_NS["m"])
    hours, minutes = divmod(minutes, 60)
    seconds = _decimal(rest, _UNIT_NS["s"]) + "s"
    if hours:
        return f"{sign}{hours}h{minutes}m{seconds}"
    return f"{sign}{minutes}m{seconds}" if minutes else f"{sign}{seconds}"


def _decimal(ns: int, unit: int) -> str:
    whole, rest = divmod(ns, unit)
    digits = str(rest).zfill(len(str(unit)) - 1).rstrip("0")
    return f"{whole}.{digits}" if rest else str(whole)
