"""tools/explore.py: rounds until the time is over, and failures that can be repeated."""

from collections.abc import Callable

import pytest
from tools.explore import Round, explore

from muster.base.clock import VirtualClock

_RED = """E   Falsifying example
FAILED tests/properties/test_a.py::test_b[one two] - assert 0
1 failed"""


def _explored(rounds: Callable[[int], tuple[int, str]]) -> tuple[bool, list[str]]:
    """Whether 25 seconds were green in which each round takes ten, and what was shown."""
    clock, shown, count = VirtualClock(), list[str](), 0

    def run(seed: int, left_s: float) -> Round:
        nonlocal count
        count += 1
        clock.advance(min(10.0, left_s))
        return Round(seed, *rounds(count))

    return explore(run, clock, 25.0, shown.append), shown


@pytest.mark.parametrize("exit_code", [2, -2], ids=["in a test", "before the first test"])
def test_rounds_are_repeated_with_other_seeds_until_the_time_is_over(exit_code: int) -> None:
    is_green, shown = _explored(
        lambda number: (exit_code if number == 3 else 0, f"{number} passed")
    )
    assert is_green
    assert [line.split(": ")[1] for line in shown] == ["1 passed", "2 passed", "3 passed"]
    assert len({line.split(": ")[0] for line in shown}) == 3


def test_a_failing_example_is_shown_with_the_command_that_fails_again() -> None:
    is_green, shown = _explored(lambda number: (1, _RED) if number == 2 else (0, "5 passed"))
    assert not is_green
    assert shown[1] == _RED
    (line,) = [line for line in shown if line.startswith("fails: ")]
    assert "MUSTER_EXPLORE=1" in line
    assert "'tests/properties/test_a.py::test_b[one two]' --hypothesis-seed=" in line


@pytest.mark.parametrize("exit_code", [2, 4], ids=["cannot be imported", "bad arguments"])
def test_tests_that_cannot_run_end_the_exploration_at_once(exit_code: int) -> None:
    unreadable = "ERROR tests/properties/test_a.py"
    is_green, shown = _explored(
        lambda number: (1, _RED) if number == 1 else (exit_code, unreadable)
    )
    assert not is_green
    assert shown[:2] == [_RED, unreadable]
    assert [line.split(": ")[0] for line in shown[2:]] == ["fails"]
