"""The functions that Kubernetes adds to CEL: lists, patterns, URLs, quantities, addresses.

A table of pure functions over plain values. CEL has no types of ours, so a quantity, an address or
a version travels as a map with one key that names its type (`{"quantity": "1500000000"}`): equal
amounts are equal maps, and the member functions find their meaning by that key.
"""

import ipaddress
import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qs, quote, unquote, urlsplit

import re2

from muster.api.quantity import BadQuantity, Quantity

Act = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Signature:
    takes: tuple[str, ...]
    gives: str
    act: Act


@dataclass(frozen=True, slots=True)
class Function:
    name: str
    is_member: bool
    signatures: tuple[Signature, ...]


def _function(name: str, takes: str, gives: str, act: Act) -> Function:
    return Function(name, False, (Signature(tuple(takes.split()), gives, act),))


def _member(name: str, takes: str, gives: str, act: Act) -> Function:
    return Function(name, True, (Signature(tuple(takes.split()), gives, act),))


def _succeeds(read: Callable[[str], object]) -> Callable[[str], bool]:
    """Whether a text can be read so."""

    def is_readable(text: str) -> bool:
        try:
            read(text)
        except ValueError:
            return False
        return True

    return is_readable


# -- lists ----------------------------------------------------------------------------------------


def _is_sorted(items: Sequence[Any]) -> bool:
    return all(before <= after for before, after in itertools.pairwise(items))


def _least(items: Sequence[Any]) -> Any:
    return min(_not_empty(items, "min"))


def _greatest(items: Sequence[Any]) -> Any:
    return max(_not_empty(items, "max"))


def _not_empty(items: Sequence[Any], function: str) -> Sequence[Any]:
    if not items:
        raise ValueError(f"{function} called on empty list")
    return items


def _first_index(items: Sequence[Any], item: Any) -> int:
    return next((at for at, seen in enumerate(items) if seen == item), -1)


def _last_index(items: Sequence[Any], item: Any) -> int:
    return next((at for at in range(len(items) - 1, -1, -1) if items[at] == item), -1)


def _contains_all(items: Sequence[Any], wanted: Sequence[Any]) -> bool:
    return all(item in items for item in wanted)


def _same_set(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return _contains_all(one, other) and _contains_all(other, one)


def _meets(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return any(item in other for item in one)


# -- regular expressions --------------------------------------------------------------------------


def _found(text: str, pattern: str) -> str:
    match = re2.search(pattern, text)
    return str(match.group(0)) if match else ""


def _found_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    matches = [match.group(0) for match in re2.finditer(pattern, text)]
    return matches if limit < 0 else matches[:limit]


# -- URLs -----------------------------------------------------------------------------------------


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    return text.startswith("/") or bool(parts.scheme and (parts.netloc or parts.path))


def _url(text: str) -> dict[str, str]:
    if not _is_url(text):
        raise ValueError(f'URL parse error during conversion from string: parse "{text}"')
    return {"url": text}


def _url_host(url: dict[str, str]) -> str:
    return urlsplit(url["url"]).netloc.rpartition("@")[2]


def _url_port(url: dict[str, str]) -> str:
    port = urlsplit(url["url"]).port
    return "" if port is None else str(port)


def _url_path(url: dict[str, str]) -> str:
    return quote(unquote(urlsplit(url["url"]).path), safe="/$&+,:;=@~!*'()")


# -- quantities and versions: both compare --------------------------------------------------------


def _quantity(text: str) -> dict[str, str]:
    try:
        return {"quantity": str(Quantity(text).nano)}
    except BadQuantity:
        # In Kubernetes' own words, because they reach the user as they are.
        pattern = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
        raise ValueError(f"quantities must match the regular expression '{pattern}'") from None


def _nano(value: Any) -> int:
    if isinstance(value, dict) and "quantity" in value:
        return int(value["quantity"])
    if isinstance(value, int) and not isinstance(value, bool):
        return value * 10**9
    raise ValueError("no such overload")


def _as_integer(value: Any) -> int:
    whole, rest = divmod(_nano(value), 10**9)
    if rest:
        raise ValueError("cannot convert value to integer")
    return whole


def _sign(value: Any) -> int:
    nano = _nano(value)
    return (nano > 0) - (nano < 0)


def _plus(one: Any, other: Any) -> dict[str, str]:
    return {"quantity": str(_nano(one) + _nano(other))}


def _minus(one: Any, other: Any) -> dict[str, str]:
    return {"quantity": str(_nano(one) - _nano(other))}


_SEMVER: Final = re.compile(
    r"(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?", re.ASCII
)


def _is_semver(text: str) -> bool:
    return _SEMVER.fullmatch(text) is not None


def _semver(text: str) -> dict[str, str]:
    if not _is_semver(text):
        raise ValueError(f"no semantic version: {text!r}")
    return {"semver": text}


def _semver_key(value: dict[str, str]) -> tuple[Any, ...]:
    match = _SEMVER.fullmatch(value["semver"])
    assert match is not None  # `_semver` made it
    numbers = tuple(int(match.group(place)) for place in (1, 2, 3))
    if match.group(4) is None:
        return (*numbers, 1)
    # Numeric identifiers sort below the others, by value; a release sorts above its candidates.
    parts = match.group(4).split(".")
    return (*numbers, 0, tuple((0, int(p), "") if p.isdigit() else (1, 0, p) for p in parts))


def _compared(one: Any, other: Any) -> int:
    is_version = isinstance(one, dict) and "semver" in one
    left: Any = _semver_key(one) if is_version else _nano(one)
    right: Any = _semver_key(other) if is_version else _nano(other)
    return int(left > right) - int(left < right)


# -- addresses ------------------------------------------------------------------------------------


def _address(text: str) -> dict[str, str]:
    return {"ip": str(ipaddress.ip_address(text))}


def _network(text: str) -> dict[str, str]:
    return {"cidr": str(ipaddress.ip_interface(text).with_prefixlen)}


def _is_network(text: str) -> bool:
    return "/" in text and _succeeds(_network)(text)


def _family(value: dict[str, str]) -> int:
    return ipaddress.ip_interface(value.get("ip") or value["cidr"]).version


def _holds_address(network: dict[str, str], address: Any) -> bool:
    text = address["ip"] if isinstance(address, dict) else address
    return ipaddress.ip_address(text) in ipaddress.ip_interface(network["cidr"]).network


def _holds_network(network: dict[str, str], other: Any) -> bool:
    text = other["cidr"] if isinstance(other, dict) else other
    inner = ipaddress.ip_interface(text).network
    outer = ipaddress.ip_interface(network["cidr"]).network
    return inner.version == outer.version and inner.subnet_of(outer)  # type: ignore[arg-type]


FUNCTIONS: Final[tuple[Function, ...]] = (
    _member("isSorted", "list", "bool", _is_sorted),
    _member("sum", "list", "dyn", sum),
    _member("min", "list", "dyn", _least),
    _member("max", "list", "dyn", _greatest),
    _member("indexOf", "list dyn", "int", _first_index),
    _member("lastIndexOf", "list dyn", "int", _last_index),
    _function("sets.contains", "list list", "bool", _contains_all),
    _function("sets.equivalent", "list list", "bool", _same_set),
    _function("sets.intersects", "list list", "bool", _meets),
    _member("find", "string string", "string", _found),
    Function(
        "findAll",
        True,
        (
            Signature(("string", "string"), "list", _found_all),
            Signature(("string", "string", "int"), "list", _found_all),
        ),
    ),
    _function("isURL", "string", "bool", _is_url),
    _function("url", "string", "dyn", _url),
    _member("getScheme", "dyn", "string", lambda url: urlsplit(url["url"]).scheme),
    _member("getHost", "dyn", "string", _url_host),
    _member("getHostname", "dyn", "string", lambda url: urlsplit(url["url"]).hostname or ""),
    _member("getPort", "dyn", "string", _url_port),
    _member("getEscapedPath", "dyn", "string", _url_path),
    _member("getQuery", "dyn", "dyn", lambda url: parse_qs(urlsplit(url["url"]).query, True)),
    _function("quantity", "string", "dyn", _quantity),
    _function("isQuantity", "string", "bool", _succeeds(_quantity)),
    _function("semver", "string", "dyn", _semver),
    _function("isSemver", "string", "bool", _is_semver),
    _member("sign", "dyn", "int", _sign),
    _member("isInteger", "dyn", "bool", lambda value: _nano(value) % 10**9 == 0),
    _member("asInteger", "dyn", "int", _as_integer),
    _member("asApproximateFloat", "dyn", "double", lambda value: _nano(value) / 1e9),
    _member("add", "dyn dyn", "dyn", _plus),
    _member("sub", "dyn dyn", "dyn", _minus),
    _member("isLessThan", "dyn dyn", "bool", lambda one, other: _compared(one, other) < 0),
    _member("isGreaterThan", "dyn dyn", "bool", lambda one, other: _compared(one, other) > 0),
    _member("compareTo", "dyn dyn", "int", _compared),
    _member("major", "dyn", "int", lambda value: _semver_key(value)[0]),
    _member("minor", "dyn", "int", lambda value: _semver_key(value)[1]),
    _member("patch", "dyn", "int", lambda value: _semver_key(value)[2]),
    _function("ip", "string", "dyn", _address),
    _function("isIP", "string", "bool", _succeeds(_address)),
    _function("cidr", "string", "dyn", _network),
    _function("isCIDR", "string", "bool", _is_network),
    _member("family", "dyn", "int", _family),
    _member("containsIP", "dyn dyn", "bool", _holds_address),
    _member("containsCIDR", "dyn dyn", "bool", _holds_network),
)
