"""Text exactly as the original writes it, because users and tools compare it.

Two things only: the YAML of the top-owner annotation, and durations in Go's notation.
"""

import re

from muster.api.duration import LENGTH_MAX

_NANOSECONDS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_INT64_MAX = 2**63 - 1

# What a YAML 1.1 reader would take for something other than text.
_YAML_WORDS = frozenset(
    word
    for forms in (
        ("~", "<<", "=", "null", "Null", "NULL"),
        ("true", "True", "TRUE", "false", "False", "FALSE"),
        ("y", "Y", "yes", "Yes", "YES", "n", "N", "no", "No", "NO"),
        ("on", "On", "ON", "off", "Off", "OFF"),
        (".nan", ".NaN", ".NAN"),
        (f"{sign}{word}" for sign in ("", "+", "-") for word in (".inf", ".Inf", ".INF")),
    )
    for word in forms
)
_YAML_NUMBER = re.compile(
    r"[-+]?(0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|[0-9][0-9_]*"
    r"|(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"
    r"|[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?)"
)
_YAML_DATE = re.compile(
    r"\d{4}-\d{1,2}-\d{1,2}([Tt ]\d{1,2}:\d{1,2}:\d{1,2}(\.\d+)?(Z|[-+]\d\d:\d\d)?)?"
)


def yaml_scalar(value: str) -> str:
    """`value` as a YAML scalar: plain where it reads back as text, else in double quotes."""
    looks_typed = (
        value in _YAML_WORDS or _YAML_NUMBER.fullmatch(value) or _YAML_DATE.fullmatch(value)
    )
    return f'"{value}"' if looks_typed or not value else value


def duration_nanoseconds(value: str) -> int:
    """Go's `time.ParseDuration`; raises ValueError with its words."""
    sign, rest = (-1, value[1:]) if value[:1] == "-" else (1, value.removeprefix("+"))
    if rest == "0":
        return 0
    if not rest or len(rest) > LENGTH_MAX or _PART.sub("", rest):
        raise ValueError(f'time: invalid duration "{value[:LENGTH_MAX]}"')
    total = 0
    for number, unit in _PART.findall(rest):
        whole, _, fraction = number.partition(".")
        total += int(whole or 0) * _NANOSECONDS[unit]
        if fraction:
            total += int(fraction) * _NANOSECONDS[unit] // 10 ** len(fraction)
    if total > _INT64_MAX:
        raise ValueError(f'time: invalid duration "{value}"')
    return sign * total


def duration_text(nanoseconds: int) -> str:
    """Go's `Duration.String()`: `1h30m0s`, `100µs`, `0s`."""
    sign = "-" if nanoseconds < 0 else ""
    size = abs(nanoseconds)
    if size == 0:
        return "0s"
    if size < 10**9:
        unit, scale = next(
            (unit, scale)
            for unit, scale in (("ms", 10**6), ("µs", 10**3), ("ns", 1))
            if size >= scale
        )
        return f"{sign}{_decimal(size, scale)}{unit}"
    minutes, rest = divmod(size, 60 * 10**9)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{_decimal(rest, 10**9)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{seconds}"
    return f"{sign}{minutes}m{seconds}" if minutes else f"{sign}{seconds}"


def _decimal(amount: int, scale: int) -> str:
    whole, rest = divmod(amount, scale)
    digits = str(rest).rjust(len(str(scale)) - 1, "0").rstrip("0") if rest else ""
    return f"{whole}.{digits}" if digits else str(whole)
