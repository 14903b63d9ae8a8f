"""Quantities and durations against exact fractions."""

from contextlib import suppress
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.duration import BadDuration, Duration
from muster.api.quantity import BadQuantity, Quantity

_SUFFIXES = {
    **{
        s: Fraction(10) ** p
        for s, p in zip("numkMGTPE", (-9, -6, -3, 3, 6, 9, 12, 15, 18), strict=True)
    },
    **{f"{s}i": Fraction(1024) ** (i + 1) for i, s in enumerate("KMGTPE")},
    "": Fraction(1),
}
_UNITS = {
    "ns": 1,
    "us": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": 86400 * 10**9,
    "w": 604800 * 10**9,
}
_LARGEST = 2**63 - 1

_digits = st.text("0123456789", min_size=1, max_size=25)
_numbers = st.one_of(
    _digits,
    st.builds("{}.{}".format, _digits, _digits),
    st.builds(".{}".format, _digits),
    st.builds("{}.".format, _digits),
)
_signs = st.sampled_from(["", "+", "-"])
_exponents = st.builds("{}{}".format, st.sampled_from(["e", "e+", "e-", "E"]), st.integers(0, 40))


def _fraction(number: str) -> Fraction:
    whole, _, fraction = number.partition(".")
    return Fraction(int(whole + fraction or "0"), 10 ** len(fraction))


def _unit(suffix: str) -> Fraction:
    if suffix in _SUFFIXES:
        return _SUFFIXES[suffix]
    return Fraction(10) ** int(suffix[1:])


def _nano(sign: str, number: str, suffix: str) -> int:
    """The obvious reading: an exact fraction, rounded away from zero, cut at 2^63-1."""
    billionths = _fraction(number) * _unit(suffix) * 10**9
    rounded = -(-billionths.numerator // billionths.denominator)
    return min(rounded, _LARGEST * 10**9) * (-1 if sign == "-" else 1)


@given(_signs, _numbers, st.one_of(st.sampled_from(sorted(_SUFFIXES)), _exponents))
def test_a_quantity_has_the_exact_value_of_its_text(sign: str, number: str, suffix: str) -> None:
    assert Quantity(sign + number + suffix).nano == _nano(sign, number, suffix)


@given(_signs, _numbers, st.one_of(st.sampled_from(sorted(_SUFFIXES)), _exponents))
def test_a_printed_quantity_reads_back_and_prints_the_same(
    sign: str, number: str, suffix: str
) -> None:
    quantity = Quantity(sign + number + suffix)
    again = Quantity(str(quantity))
    assert (again, str(again)) == (quantity, str(quantity))


@given(st.text("0123456789.+-eEinumkKMGTP", max_size=12))
def test_any_text_is_refused_or_a_quantity_that_round_trips(text: str) -> None:
    with suppress(BadQuantity):
        assert Quantity(str(Quantity(text))) == Quantity(text)


@given(st.integers(), st.integers())
def test_sums_and_order_are_those_of_the_numbers(left: int, right: int) -> None:
    first, second = Quantity(left), Quantity(right)
    assert (first + second).nano == first.nano + second.nano
    assert (first - second).nano == first.nano - second.nano
    assert (first < second) == (first.nano < second.nano)


_parts = st.lists(st.tuples(_numbers, st.sampled_from(sorted(_UNITS))), min_size=1, max_size=4)


@given(_signs, _parts)
def test_a_duration_has_the_exact_value_of_its_text(
    sign: str, parts: list[tuple[str, str]]
) -> None:
    """Each part is cut to whole nanoseconds, as in Go."""
    text = sign + "".join(number + unit for number, unit in parts)
    total = sum(int(_fraction(number) * _UNITS[unit]) for number, unit in parts)
    negative = sign == "-"
    if total > _LARGEST + negative:
        with pytest.raises(BadDuration, match="longer than"):
            Duration(text)
        return
    duration = Duration(text)
    assert duration.ns == (-total if negative else total)
    assert Duration(str(duration)) == duration


@given(st.text("0123456789.+-nuµmshdw ", max_size=12))
def test_any_text_is_refused_or_a_duration_that_round_trips(text: str) -> None:
    with suppress(BadDuration):
        assert Duration(str(Duration(text))) == Duration(text)
