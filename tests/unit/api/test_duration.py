"""Durations read as in Go, and in days and weeks."""

import pytest

from muster.api.duration import BadDuration, Duration

_CANONICAL = {
    "0": "0s",
    "-0": "0s",
    "5s": "5s",
    "1h30m": "1h30m0s",
    "90m": "1h30m0s",
    "1.5h": "1h30m0s",
    ".5s": "500ms",
    "1.s": "1s",
    "500ms": "500ms",
    "1.5us": "1.5µs",
    "1µs": "1µs",
    "1μs": "1µs",
    "1ns": "1ns",
    "-1m": "-1m0s",
    "+1m": "1m0s",
    "1h0.5s": "1h0m0.5s",
    "1d": "24h0m0s",
    "1w": "168h0m0s",
    "1w2d3h": "219h0m0s",
    "0.3333333333333333333h": "19m59.999999999s",
}


@pytest.mark.parametrize(("text", "canonical"), _CANONICAL.items())
def test_a_duration_prints_as_go_prints_it(text: str, canonical: str) -> None:
    assert str(Duration(text)) == canonical


_REFUSED = [
    "",
    "5",
    "banana",
    "P1D",
    ".s",
    "1 h",
    "-",
    "+",
    "--1s",
    "1y",
    "1M",
    "1H",
    "1mo",
    "1s ",
    "s",
]


@pytest.mark.parametrize("text", _REFUSED)
def test_a_text_that_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(BadDuration, match="write a number with a unit, like 90s"):
        Duration(text)


def test_a_duration_beyond_64_bits_is_refused() -> None:
    assert Duration("-9223372036854775808ns").ns == -(2**63)
    with pytest.raises(BadDuration, match="longer than 292 years"):
        Duration("9223372036854775808ns")


def test_durations_compare_and_convert() -> None:
    assert Duration("60s") == Duration("1m") < Duration("2m")
    assert hash(Duration("60s")) == hash(Duration("1m"))
    assert Duration("1500ms").seconds == 1.5


def test_durations_are_immutable() -> None:
    with pytest.raises(AttributeError):
        Duration("1s").ns = 5


@pytest.mark.parametrize("text", ["0" * 300 + "1s", "0." + "1" * 5000 + "s", "1" * 1_000_000 + "s"])
def test_a_duration_of_too_many_digits_is_refused_with_a_short_message(text: str) -> None:
    with pytest.raises(BadDuration, match="write a number with a unit") as refused:
        Duration(text)
    assert len(str(refused.value)) < 200
