"""Amounts of resources as Kubernetes writes them: `500m`, `64Gi`, `1e3`; exact, in integers.

Kubernetes knows nothing finer than a billionth, so an integer number of billionths holds every
quantity exactly. As in Kubernetes, finer digits round away from zero, and amounts beyond 2^63-1 are
that. Reading `milli` and `value` rounds up: who asks for something gets something.
"""

import re
from functools import lru_cache, total_ordering
from typing import Final, Literal

Format = Literal["binary", "decimal", "exponent"]

_NANO: Final = 10**9
_LARGEST: Final = 2**63 - 1
_DECIMAL: Final = dict(zip(("n", "u", "m", "", *"kMGTPE"), range(-9, 19, 3), strict=True))
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_PATTERN: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?"
    r"(?:[eE](?P<exponent>[+-]?[0-9]+)|(?P<suffix>[KMGTPE]i|[numkMGTPE]))?",
    re.ASCII,
)
# No amount between a billionth and 2^63 needs a power of ten beyond this.
_POWER_MAX: Final = 64
# Longer texts are not amounts but attacks: the work below grows with the square of the length.
_LENGTH_MAX: Final = 4096


class BadQuantity(ValueError):
    """The text is not an amount."""

    def __init__(self, text: object) -> None:
        shown = repr(text)
        shown = shown if len(shown) <= 60 else shown[:57] + "..."
        super().__init__(f"not a quantity: {shown} (write a number like 2, 500m or 64Gi)")


@total_ordering
class Quantity:
    """An exact amount. Equal amounts are equal however they are written (`1` is `1000m`)."""

    __slots__ = ("_format", "nano")

    nano: int
    _format: Format

    def __init__(self, text: "str | int | float | Quantity" = 0) -> None:
        parsed = text if isinstance(text, Quantity) else parse(text)
        object.__setattr__(self, "nano", parsed.nano)
        object.__setattr__(self, "_format", parsed._format)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Quantity cannot be changed: {name}")

    @property
    def value(self) -> int:
        """In whole units, rounded away from zero as Kubernetes does."""
        return _divided_up(self.nano, _NANO)

    @property
    def milli(self) -> int:
        """In thousandths, rounded away from zero: how CPU is counted."""
        return _divided_up(self.nano, _NANO // 1000)

    def __str__(self) -> str:
        return _canonical(self.nano, self._format)

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return self.nano == other.nano if isinstance(other, Quantity) else NotImplemented

    def __lt__(self, other: "Quantity") -> bool:
        return self.nano < other.nano

    def __hash__(self) -> int:
        return hash(self.nano)

    def __add__(self, other: "Quantity") -> "Quantity":
        return _quantity(self.nano + other.nano, self._format if self.nano else other._format)

    def __sub__(self, other: "Quantity") -> "Quantity":
        return _quantity(self.nano - other.nano, self._format if self.nano else other._format)

    def __mul__(self, count: int) -> "Quantity":
        return _quantity(self.nano * count, self._format)

    def __neg__(self) -> "Quantity":
        return _quantity(-self.nano, self._format)

    def __bool__(self) -> bool:
        return self.nano != 0


def parse(text: str | int | float) -> Quantity:
    """The amount that `text` names; raises BadQuantity."""
    if isinstance(text, str):
        return _parsed(text)
    if isinstance(text, bool) or not isinstance(text, int | float):
        raise BadQuantity(text)
    return _parsed(repr(text))


def from_milli(milli: int, format: Format = "decimal") -> Quantity:
    return _quantity(milli * (_NANO // 1000), format)


def from_value(value: int, format: Format = "decimal") -> Quantity:
    """A whole amount; memory is usually written with `format="binary"`."""
    return _quantity(value * _NANO, format)


# The same few dozen texts occur in every pod of a cluster: read each once, share the result.
@lru_cache(maxsize=8192)
def _parsed(text: str) -> Quantity:
    match = _PATTERN.fullmatch(text) if len(text) <= _LENGTH_MAX else None
    if match is None or not text:
        raise BadQuantity(text)
    # Kubernetes takes a lone sign, point or suffix for zero, and pods may hold such a text.
    digits, point = match["whole"] + (match["fraction"] or ""), len(match["fraction"] or "")
    suffix = match["suffix"] or ""
    mantissa = int(digits or "0") * (1 << _BINARY.get(suffix, 0))
    exponent = _exponent(match["exponent"]) if match["exponent"] else _DECIMAL.get(suffix, 0)
    nano = min(_scaled_up(mantissa, exponent - point + 9), _LARGEST * _NANO)
    format: Format = (
        "exponent" if match["exponent"] else "binary" if suffix in _BINARY else "decimal"
    )
    if format == "binary" and 0 < nano < _NANO:
        format = "decimal"
    return _quantity(-nano if match["sign"] == "-" else nano, format)


def _quantity(nano: int, format: Format) -> Quantity:
    made = object.__new__(Quantity)
    object.__setattr__(made, "nano", nano)
    object.__setattr__(made, "_format", format)
    return made


def _exponent(text: str) -> int:
    """The exponent, cut where a larger one changes nothing: 10^huge must not be computed."""
    bound = _POWER_MAX + _LENGTH_MAX
    return max(-bound, min(bound, int(text)))


def _scaled_up(mantissa: int, power: int) -> int:
    """mantissa * 10^power, rounded up."""
    return mantissa * 10**power if power >= 0 else _divided_up(mantissa, 10**-power)


def _divided_up(amount: int, unit: int) -> int:
    return -(-amount // unit) if amount >= 0 else amount // unit


def _canonical(nano: int, format: Format) -> str:
    if nano == 0:
        return "0"
    if format == "binary" and nano % _NANO == 0 and abs(nano) >= 1024 * _NANO:
        return _canonical_binary(nano // _NANO)
    mantissa, exponent = nano, -9
    while mantissa % 1000 == 0 and (exponent < 18 or format == "exponent"):
        mantissa, exponent = mantissa // 1000, exponent + 3
    if format == "exponent":
        return f"{mantissa}e{exponent}" if exponent else str(mantissa)
    return f"{mantissa}{_DECIMAL_SUFFIX[exponent]}"


def _canonical_binary(value: int) -> str:
    step = 0
    while value % 1024 == 0 and step < len(_BINARY_SUFFIX) - 1:
        value, step = value // 1024, step + 1
    return f"{value}{_BINARY_SUFFIX[step]}"
