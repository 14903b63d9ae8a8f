"""Resource quantities as the server stores them: checked, exact, in canonical form.

`1000m` becomes `1`, `1024Ki` becomes `1Mi`; the family of the suffix (binary, decimal, exponent)
stays.
"""

import re
from decimal import Decimal
from functools import lru_cache

_FORM = re.compile(
    r"([+-]?(?:\d+(?:\.\d*)?|\.\d+))(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E|[eE][+-]?\d+)?", re.ASCII
)
_BINARY = {"": 1} | {
    s: 1 << (10 * i) for i, s in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)
}
_DECIMAL = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
}
# Nobody writes longer ones; and 10^huge must not be computed.
_LENGTH_MAX = 1024
_POWER_MAX = 2 * _LENGTH_MAX
_LARGEST = Decimal(2**63 - 1)


class BadQuantity(ValueError):
    def __init__(self, text: str) -> None:
        super().__init__(
            "quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        )
        self.text = text


@lru_cache(maxsize=8192)
def amount(text: str) -> Decimal:
    """The exact number; raises `BadQuantity`."""
    return _parsed(text)[0]


@lru_cache(maxsize=8192)
def canonical(text: str) -> str:
    """The form that Kubernetes writes; raises `BadQuantity`."""
    number, suffix = _parsed(text)
    if suffix in _BINARY and suffix:
        return _binary(number)
    if suffix[:1] in ("e", "E") and suffix != "E":
        return _exponent(number)
    return _decimal(number)


def _parsed(text: str) -> tuple[Decimal, str]:
    matched = _FORM.fullmatch(text) if len(text) <= _LENGTH_MAX else None
    if matched is None:
        raise BadQuantity(text)
    digits, suffix = matched[1], matched[2] or ""
    if suffix in _DECIMAL:
        return _within(Decimal(digits) * _DECIMAL[suffix]), suffix
    if suffix in _BINARY:
        return _within(Decimal(digits) * _BINARY[suffix]), suffix
    power = max(-_POWER_MAX, min(_POWER_MAX, int(suffix[1:])))
    return _within(Decimal(digits) * Decimal(10) ** power), suffix


def _within(number: Decimal) -> Decimal:
    """As in Kubernetes, amounts beyond 2^63-1 are that."""
    return max(-_LARGEST, min(_LARGEST, number))


def _binary(number: Decimal) -> str:
    if number != number.to_integral_value() or abs(number) < 1024:
        return _decimal(number)
    whole = int(number)
    for suffix in ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki"):
        if whole % _BINARY[suffix] == 0 and whole:
            return f"{whole // _BINARY[suffix]}{suffix}"
    return str(whole)


def _decimal(number: Decimal) -> str:
    if number == 0:
        return "0"
    for suffix in ("E", "P", "T", "G", "M", "k", "", "m", "u", "n"):
        scaled = number / _DECIMAL[suffix]
        if scaled == scaled.to_integral_value():
            return f"{int(scaled)}{suffix}"
    # Finer than a nano: rounded up, as Kubernetes does.
    return f"{int((number / _DECIMAL['n']).to_integral_value('ROUND_UP'))}n"


def _exponent(number: Decimal) -> str:
    if number == 0:
        return "0"
    for power in (18, 15, 12, 9, 6, 3, 0, -3, -6, -9):
        scaled = number.scaleb(-power)
        if scaled == scaled.to_integral_value():
            return f"{int(scaled)}e{power}" if power else str(int(scaled))
    return _decimal(number)
