"""Quantities read and print as in Kubernetes."""

from typing import Any

import pytest

from muster.api.quantity import BadQuantity, Quantity, from_milli, from_value

_CANONICAL = {
    "0": "0",
    "-0": "0",
    "k": "0",
    "+": "0",
    ".": "0",
    "500m": "500m",
    "0.5": "500m",
    ".5": "500m",
    "1.": "1",
    "+5": "5",
    "-5": "-5",
    "1000m": "1",
    "1024": "1024",
    "1024Ki": "1Mi",
    "1Ki": "1Ki",
    "-1Ki": "-1Ki",
    "1023Ki": "1023Ki",
    "1.5Gi": "1536Mi",
    "0.5Ki": "512",
    "0.5Mi": "512Ki",
    "100k": "100k",
    "1000k": "1M",
    "1e3": "1e3",
    "1E3": "1e3",
    "12e1": "120",
    "1e-3": "1e-3",
    "1E": "1E",
    "1n": "1n",
    "0.1n": "1n",
    "-0.1n": "-1n",
    "1e-99999999999": "1e-9",
    "1e99999999999": "9223372036854775807",
    "9223372036854775808": "9223372036854775807",
}


@pytest.mark.parametrize(("text", "canonical"), _CANONICAL.items())
def test_a_quantity_prints_in_the_canonical_form(text: str, canonical: str) -> None:
    assert str(Quantity(text)) == canonical


_REFUSED = ["", "banana", "1e1.5", "1ee3", "0x10", "1 ", " 1", "1Kii", "1ki", "1i", "١"]


@pytest.mark.parametrize("text", _REFUSED)
def test_a_text_that_is_no_quantity_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(BadQuantity, match="write a number like"):
        Quantity(text)


def test_a_text_too_long_to_be_a_quantity_is_refused() -> None:
    with pytest.raises(BadQuantity):
        Quantity("1" * 5000)


@pytest.mark.parametrize("value", [True, None, [], {"a": 1}])
def test_a_value_that_is_no_number_is_no_quantity(value: Any) -> None:
    with pytest.raises(BadQuantity):
        Quantity(value)


def test_reading_in_units_rounds_away_from_zero() -> None:
    assert (Quantity("1500m").value, Quantity("-1500m").value) == (2, -2)
    assert (Quantity("1u").milli, Quantity("2").milli) == (1, 2000)


def test_equal_amounts_are_equal_however_they_are_written() -> None:
    assert Quantity("1") == Quantity("1000m")
    assert hash(Quantity("1Ki")) == hash(Quantity("1024"))
    assert Quantity("1Ki") > Quantity("1k")


def test_sums_have_the_format_of_the_first_operand() -> None:
    assert str(Quantity("1Gi") + Quantity("1Gi")) == "2Gi"
    assert str(Quantity("1500m") - Quantity("500m")) == "1"
    assert str(Quantity("0") + Quantity("2Ki")) == "2Ki"


def test_numbers_become_quantities() -> None:
    assert str(from_milli(2500)) == "2500m"
    assert str(from_value(64 << 30, "binary")) == "64Gi"
    assert str(from_value(1 << 70, "binary")) == "1024Ei"
    assert Quantity(3) == Quantity("3")


def test_quantities_are_immutable() -> None:
    with pytest.raises(AttributeError):
        Quantity("1").nano = 5
