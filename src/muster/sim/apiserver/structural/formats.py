"""The `format` of strings, as the API server checks it. Unknown formats are ignored."""

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable, Mapping
from datetime import date
from typing import Final
from urllib.parse import urlsplit

_UUID: Final = r"[0-9a-f]{8}-?[0-9a-f]{4}-?%s-?%s-?[0-9a-f]{12}"
_HEX4: Final = "[0-9a-f]{4}"
_CLOCK: Final = re.compile(
    r"(\d{2}):(\d{2}):(\d{2})(\.\d+)?(z|[+-]\d{2}:\d{2})", re.IGNORECASE | re.ASCII
)
_DURATION: Final = re.compile(r"[+-]?((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+", re.ASCII)
# Also accepted: the long form "2 days", "3 hours 5 minutes".
_LONG_DURATION: Final = re.compile(
    r"\s*\d+\s*(nanos?|ns|micros?|us|µs|millis?|ms|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?"
    r"|d|days?|w|weeks?)",
    re.IGNORECASE | re.ASCII,
)
_DURATION_LENGTH_MAX: Final = 1024
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
# Go's has `\.?` inside the repetition, which backtracks without end in Python.
_HOST: Final = re.compile(
    r"[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?(\.[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?)*\.?",
    re.ASCII,
)


def is_formatted(name: str, text: str) -> bool:
    """Whether the text has the named format; `date-time` and `datetime` are one."""
    check = _CHECKS.get(name.replace("-", ""))
    return check is None or check(text)


def is_known(name: str) -> bool:
    """Whether the server checks this format; others are as if they were not there."""
    return name.replace("-", "") in _CHECKS


def _matches(pattern: str, flags: int = 0) -> Callable[[str], bool]:
    compiled = re.compile(pattern, flags | re.ASCII)
    return lambda text: compiled.fullmatch(text) is not None


def _parses(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return check


def _is_date(text: str) -> bool:
    return re.fullmatch(r"\d{4}-\d{2}-\d{2}", text) is not None and _parses(date.fromisoformat)(
        text
    )


def _is_date_time(text: str) -> bool:
    day, mark, clock = text.lower().partition("t")
    match = _CLOCK.search(clock) if mark and _is_date(day) else None
    return match is not None and all(
        int(match.group(place)) <= most for place, most in ((1, 23), (2, 59), (3, 59))
    )


def _is_duration(text: str) -> bool:
    if len(text) > _DURATION_LENGTH_MAX:
        return False
    return text == "0" or bool(_DURATION.fullmatch(text) or _LONG_DURATION.search(text))


def _is_uri(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return text.startswith("/") or bool(parts.scheme and (parts.netloc or parts.path))


def _is_email(text: str) -> bool:
    return re.fullmatch(r"(.*<)?[^@\s<>]+@[^@\s<>]+>?", text) is not None


def _is_hostname(text: str) -> bool:
    return len(text) <= 255 and _HOST.fullmatch(text) is not None


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _is_short_name(text: str) -> bool:
    return len(text) <= 63 and _LABEL.fullmatch(text) is not None


def _is_long_name(text: str) -> bool:
    return len(text) <= 253 and all(_LABEL.fullmatch(part) for part in text.split("."))


def _is_network(text: str) -> bool:
    return "/" in text and _parses(ipaddress.ip_interface)(text)


_IGNORE: Final = re.IGNORECASE
_CHECKS: Final[Mapping[str, Callable[[str], bool]]] = {
    "datetime": _is_date_time,
    "date": _is_date,
    "duration": _is_duration,
    "uri": _is_uri,
    "email": _is_email,
    "hostname": _is_hostname,
    "ipv4": _parses(ipaddress.IPv4Address),
    "ipv6": _parses(ipaddress.IPv6Address),
    "cidr": _is_network,
    "mac": _matches(r"([0-9a-f]{2}[:-]){5}([0-9a-f]{2})|([0-9a-f]{4}\.){2}[0-9a-f]{4}", _IGNORE),
    "byte": _is_base64,
    "uuid": _matches(_UUID % (_HEX4, _HEX4), _IGNORE),
    "uuid3": _matches(_UUID % ("3[0-9a-f]{3}", _HEX4), _IGNORE),
    "uuid4": _matches(_UUID % ("4[0-9a-f]{3}", "[89ab][0-9a-f]{3}"), _IGNORE),
    "uuid5": _matches(_UUID % ("5[0-9a-f]{3}", "[89ab][0-9a-f]{3}"), _IGNORE),
    "bsonobjectid": _matches("[0-9a-f]{24}", _IGNORE),
    "hexcolor": _matches("#?([0-9a-f]{3}|[0-9a-f]{6})", _IGNORE),
    "ssn": _matches(r"\d{3}[- ]?\d{2}[- ]?\d{4}"),
    "k8sshortname": _is_short_name,
    "k8slongname": _is_long_name,
}
