"""Queues of equal weight with different pasts come to equal usage, at any depth of the tree."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.model.usage import UsageWindow
from muster.usage.simulate import ShareHistory, SharePlan, SimulatedQueue, simulated_shares

DAY_S = 86_400.0
GPUS = 64.0
BACK_S = 7 * DAY_S
"""For a week one of the two is alone."""


def two_teams(depth: int, busy_from_s: float = 0.0, back_s: float = BACK_S) -> list[SimulatedQueue]:
    """Two queues of equal weight below a line of others, beside a department of the same size."""
    above: list[SimulatedQueue] = []
    for level in range(1, depth):
        parent = above[-1].name if above else ""
        above.append(SimulatedQueue(f"level-{level}", parent))
    parent = above[-1].name if above else ""
    others = [SimulatedQueue("others", demand=lambda _: GPUS)] if depth > 1 else []

    def busy(now_s: float) -> float:
        return GPUS if now_s >= busy_from_s else 0.0

    def returns(now_s: float) -> float:
        return GPUS if now_s >= back_s else 0.0

    return [
        *others,
        *above,
        SimulatedQueue("busy", parent, demand=busy),
        SimulatedQueue("returns", parent, demand=returns),
    ]


def told(queues: Sequence[SimulatedQueue], **more: object) -> ShareHistory:
    plan = SharePlan(queues, GPUS, BACK_S + 28 * DAY_S, **more)  # type: ignore[arg-type]
    return simulated_shares(plan)


def error_after(history: ShareHistory, days: float) -> float:
    """How far the two are from equal usage, as a part of what they used together."""
    at = int(np.searchsorted(history.at_s, BACK_S + days * DAY_S)) - 1
    busy, returns = history.usage_of("busy")[at], history.usage_of("returns")[at]
    return float(abs(busy - returns) / (busy + returns))


@pytest.mark.row(33)
@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("half_life_s", [None, 2 * DAY_S])
def test_two_queues_of_equal_weight_come_to_equal_usage_over_weeks(
    depth: int, half_life_s: float | None
) -> None:
    history = told(two_teams(depth), window=UsageWindow(half_life_s=half_life_s))
    errors = [error_after(history, days) for days in (1, 7, 28)]
    assert errors[0] > 0.4, "the week before still counts"
    assert errors[1] < 0.3
    assert errors[2] < 0.02


@pytest.mark.row(33)
def test_who_comes_back_holds_most_at_first_and_half_in_the_end() -> None:
    history = told(two_teams(1))
    back = int(BACK_S // 3600)
    assert history.held_by("returns")[back - 1] == 0
    assert history.held_by("returns")[back] == GPUS
    assert history.held_by("returns")[-1] == pytest.approx(GPUS / 2, abs=2)


def test_depth_changes_nothing_of_the_correction() -> None:
    """Below a department that has half of the cluster everything is as at the top, halved."""
    top, deep = told(two_teams(1)), told(two_teams(3))
    for days in (1, 7, 28):
        assert error_after(deep, days) == pytest.approx(error_after(top, days), abs=0.02)


def test_without_weight_the_past_does_not_count() -> None:
    history = told(two_teams(1), usage_weight=0.0)
    assert history.held_by("returns")[-1] == history.held_by("returns")[int(BACK_S // 3600)] == 32


@settings(max_examples=15)
@given(
    st.integers(1, 3),
    st.floats(0.5, 7.0),
    st.sampled_from([None, DAY_S, 3 * DAY_S]),
    st.sampled_from([0.5, 1.0, 2.0]),
)
def test_whatever_their_past_was_equal_queues_come_to_equal_usage(
    depth: int, busy_days: float, half_life_s: float | None, usage_weight: float
) -> None:
    history = told(
        two_teams(depth, busy_from_s=BACK_S - busy_days * DAY_S),
        window=UsageWindow(half_life_s=half_life_s),
        usage_weight=usage_weight,
        step_s=3 * 3600.0,
    )
    assert error_after(history, 28) < 0.05
    assert np.all(history.held.min(axis=1) >= 0)
    assert np.all(history.held_by("busy") + history.held_by("returns") <= GPUS)
