"""The key `defragmentation`: a schedule and a budget, and what is wrong with one."""

import pytest

from muster.engine.config.conf import parse_conf
from muster.engine.config.defragmentation import Defragmentation
from muster.engine.config.reader import ConfigError


def _read(text: str) -> Defragmentation | None:
    return parse_conf(f"actions: allocate\n{text}\n").defragmentation


def test_without_the_key_nothing_is_moved() -> None:
    assert _read("") is None


def test_everything_has_a_default() -> None:
    assert _read("defragmentation: {}") == Defragmentation(3600.0, 16, None)


def test_what_is_said_is_read() -> None:
    text = 'defragmentation: {every: 30m, mostMoves: 4, window: "22:30-06:00"}'
    assert _read(text) == Defragmentation(1800.0, 4, (81_000.0, 21_600.0))


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("{every: 10s}", "defragmentation.every: must be at least 1m"),
        ("{every: often}", r'defragmentation.every: "often" is not a duration'),
        ("{mostMoves: 0}", "defragmentation.mostMoves: must be at least 1"),
        ("{mostMoves: 1.5}", "defragmentation.mostMoves: .* is not a whole number"),
        ("{window: night}", r'defragmentation.window: "night" is not a time of day'),
        ('{window: "25:00-06:00"}', "defragmentation.window: .* is not a time of day"),
        ('{window: "06:00-06:00"}', "defragmentation.window: begins when it ends"),
        ("{budget: 3}", "defragmentation.budget: unknown key; known are every"),
        ("often", "defragmentation: must be a mapping"),
    ],
)
def test_what_is_wrong_is_named_with_the_fix(said: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        _read(f"defragmentation: {said}")


def test_the_next_round_waits_for_the_window() -> None:
    night = Defragmentation(3600.0, 16, (79_200.0, 21_600.0))
    noon_s = 10 * 86_400.0 + 43_200.0
    assert night.next_round_s(noon_s) == 10 * 86_400.0 + 79_200.0
    midnight_s = 11 * 86_400.0
    assert night.next_round_s(midnight_s) == midnight_s + 3600.0
