"""The least that has to go is that of all sets there are."""

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from muster.numerics.least_victims import least_units

Unit = tuple[int, int, int, int, int, bool]
"""The first of its job, node, GPUs, cost, loss, and whether it may go."""


@st.composite
def jobs_on_nodes(draw: st.DrawFn, nodes: int) -> list[Unit]:
    found: list[Unit] = []
    for size in draw(st.lists(st.sampled_from([1, 1, 2, 3]), max_size=4)):
        first, node = len(found), draw(st.integers(0, nodes - 1))
        for _ in range(size):
            gpus = draw(st.sampled_from([0, 1, 1, 2, 4]))
            cost, loss = gpus * draw(st.integers(1, 2)), draw(st.integers(0, 5))
            found.append((first, node, gpus, cost, loss, draw(st.integers(0, 9)) > 0))
    return found


def least(units: list[Unit], free: list[int], need: int, wanted: int) -> tuple[int, int] | None:
    """(Cost, loss) of the best of all sets in which nobody goes without those before it."""
    prices = []
    for goes in product((False, True), repeat=len(units)):
        room, cost, loss = list(free), 0, 0
        is_whole = True
        for at, (first, node, gpus, its_cost, its_loss, may) in enumerate(units):
            if not goes[at]:
                continue
            before = range(first, at)
            is_whole &= may and all(goes[other] or not units[other][-1] for other in before)
            room[node] += gpus
            cost, loss = cost + its_cost, loss + its_loss
        if is_whole and sum(amount // need for amount in room) >= wanted:
            prices.append((cost, loss))
    return min(prices, default=None)


@given(data=st.data(), free=st.lists(st.integers(0, 3), min_size=1, max_size=4))
def test_no_set_that_makes_as_much_room_costs_less(data: st.DataObject, free: list[int]) -> None:
    units = data.draw(jobs_on_nodes(len(free)))
    need, wanted = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    first, node, gpus, cost, loss = np.array(
        [unit[:-1] for unit in units], dtype=np.int64
    ).reshape(-1, 5).T.copy()  # fmt: skip
    may_go = np.array([unit[-1] for unit in units], dtype=np.bool_)
    room = np.array(free, dtype=np.int64)
    chosen = least_units(may_go, first, node, gpus, cost, loss, room, need, wanted)
    found = None if chosen is None else (int(cost[chosen].sum()), int(loss[chosen].sum()))
    assert found == least(units, free, need, wanted)
