"""The smallest step that helps, whatever helps: it helped, and its next smaller neighbour did not.

The engine is not run: which steps help is drawn, also in an order that no ladder promises.
"""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from muster.engine.plan import Evict
from muster.foresight.budget import ENDLESS, Budget
from muster.foresight.changes import Cost, Ladder, Needs
from muster.foresight.smallest import (
    Change,
    Start,
    confirmed,
    smallest,
    smallest_by_cycles,
)

_HELPS = st.lists(st.booleans(), min_size=1, max_size=40)
"""Of each step, from the smallest on."""


class Told:
    """In place of the engine: knows which steps help, and what was asked."""

    def __init__(self, helps: list[bool]) -> None:
        self.helps = helps
        self.asked: list[int] = []
        self.is_cut_short = False

    def start(self, step: Any, needs: Needs, budget: Budget = ENDLESS) -> Start | None:
        self.asked.append(step)
        return Start((f"node-{step}",), ()) if self.helps[step] else None

    @property
    def runs(self) -> float:
        return float(len(self.asked))


def found(told: Any, is_ordered: bool = True, budget: Budget = ENDLESS) -> Change | None:
    steps = range(len(told.helps))
    edit: Any = lambda step: step  # noqa: E731 - the prober is told the step itself
    ladder = Ladder("x", "", None, steps, edit, Cost.SMALLER, is_ordered=is_ordered)
    return smallest(told, ladder, budget)


def is_proven(told: Told, change: Change) -> bool:
    """Both neighbours were tried: the one helps, and the other does not."""
    at: Any = change.after
    assert change.start.nodes == (f"node-{at}",), "as that step starts it, and no other"
    assert change.next_smaller == (at - 1 if at else None)
    return (
        at in told.asked
        and told.helps[at]
        and (at == 0 or (at - 1 in told.asked and not told.helps[at - 1]))
    )


@given(_HELPS)
def test_a_step_is_named_with_its_neighbour_that_does_not_help(helps: list[bool]) -> None:
    told = Told(helps)
    change = found(told)
    assert (change is not None) == helps[-1], "the largest step says whether any does"
    assert change is None or is_proven(told, change)


@given(st.integers(1, 4096), st.data())
def test_where_larger_steps_help_the_smallest_is_named_after_few_tries(
    count: int, data: st.DataObject
) -> None:
    first = data.draw(st.integers(0, count - 1))
    told = Told([at >= first for at in range(count)])
    change = found(told)
    assert change is not None
    assert change.after == first
    assert len(told.asked) <= 2 * count.bit_length() + 1


@given(_HELPS, st.integers(0, 12))
def test_a_search_whose_time_is_over_names_nothing_that_it_has_not_shown(
    helps: list[bool], runs: int
) -> None:
    told = Told(helps)
    change = found(told, budget=Budget(lambda: told.runs, float(runs)))
    assert change is None or is_proven(told, change)
    assert len(told.asked) <= max(1, runs)


@given(_HELPS)
def test_steps_without_an_order_are_tried_one_by_one(helps: list[bool]) -> None:
    told = Told(helps)
    change = found(told, is_ordered=False)
    expected = helps.index(True) if any(helps) else None
    assert (change and change.after) == expected
    assert change is None or change.next_smaller is None, "a neighbour is no smaller one"


def test_what_a_run_that_was_cut_short_denies_it_does_not_know() -> None:
    told = Told([False, False, True])
    told.is_cut_short = True
    assert found(told) is None


class ToldByBoth:
    """Allocate alone helps from one step on; a whole cycle from another, by evicting at first."""

    def __init__(self, alone: int, whole: int, evicting: int = 0) -> None:
        self.alone, self.whole, self.evicting = alone, whole, evicting
        self.is_cut_short = False
        self.runs = 0

    def start(self, step: Any, needs: Needs, budget: Budget = ENDLESS) -> Start | None:
        self.runs += 1
        if needs is Needs.ALLOCATE:
            return Start((f"alone-{step}",), ()) if step >= self.alone else None
        if step < self.whole:
            return None
        goes = (
            Evict("victim", "v", "n", "preempt", "a") if step < self.whole + self.evicting else None
        )
        return Start((f"node-{step}",), (goes,) if goes else ())


def confirmed_and_least(told: Any, steps: int, budget: Budget = ENDLESS) -> Change:
    edit: Any = lambda step: step  # noqa: E731 - the prober is told the step itself
    ladder = Ladder("x", "", None, range(steps), edit, Cost.SMALLER)
    change = smallest(told, ladder, budget)
    assert change is not None
    sure = confirmed(told, change, budget)
    assert sure is not None
    return smallest_by_cycles(told, ladder, sure, budget)


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40))
def test_no_smaller_step_starts_it_in_a_whole_cycle_unless_others_go(
    whole: int, evicting: int, later: int
) -> None:
    """Where a cycle makes room that allocate alone does not."""
    alone = whole + evicting + later
    change = confirmed_and_least(ToldByBoth(alone, whole, evicting), steps=128)
    assert change.after == whole + evicting
    assert change.start == Start((f"node-{change.after}",), ())
    assert change.verified is Needs.CYCLE
    assert change.next_smaller == (whole + evicting - 1 if whole + evicting else None)


def test_without_time_left_what_was_confirmed_stays() -> None:
    told: Any = ToldByBoth(alone=9, whole=2)
    change = confirmed_and_least(told, 16, Budget(lambda: float(told.runs > _TO_CONFIRM), 1.0))
    assert change.after == 9
    assert change.verified is Needs.CYCLE


_TO_CONFIRM = 8
"""Runs until 9 of 16 is found and confirmed."""
