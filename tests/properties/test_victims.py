"""Slots that are found are real, and none is cheaper: against all subsets of victims."""

from itertools import combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.numerics.arrays import Bools, Ints
from muster.numerics.victims import Budget, Found, Units, cheapest_slots

UNBOUNDED = 1 << 40


def units_of(where: list[list[int]], sizes: list[int], classes: list[int], nodes: int) -> Units:
    """One task of `sizes[u]` on each node of `where[u]`, for every unit u; one resource."""
    entries = [(node, classes[u], u) for u, on in enumerate(where) for node in on]
    entries.sort()
    node = np.array([e[0] for e in entries], dtype=np.int64)
    unit = np.array([e[2] for e in entries], dtype=np.int64)
    counts = np.bincount(node, minlength=nodes)
    per_unit = np.array([len(on) for on in where], dtype=np.int64)
    cost = np.array([len(on) * size for on, size in zip(where, sizes, strict=True)], dtype=np.int64)
    return Units(
        entry_start=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        entry_unit=unit,
        entry_freed=np.array([[sizes[u]] for u in unit], dtype=np.int64).reshape(-1, 1),
        entry_node=node,
        unit_start=np.concatenate([[0], np.cumsum(per_unit)]).astype(np.int64),
        unit_entries=np.argsort(unit, kind="stable").astype(np.int64),
        unit_cost=cost,
        unit_loss=np.zeros(len(where), dtype=np.int64),
        unit_class=np.array(classes, dtype=np.int64),
        unit_first=np.arange(len(where), dtype=np.int64),
        unit_gpus=cost,
    )


def found(units: Units, free: list[int], need: int, wanted: int, most: int = UNBOUNDED) -> Found:
    count = len(units.unit_cost)
    return cheapest_slots(
        units,
        np.ones(count, dtype=np.bool_),
        np.array(free, dtype=np.int64).reshape(-1, 1),
        np.array([need], dtype=np.int64),
        np.ones(len(free), dtype=np.bool_),
        wanted,
        Budget(np.zeros(count, dtype=np.int64), np.array([most], dtype=np.int64)),
    )


def freed(units: Units, chosen: Bools, nodes: int) -> Ints:
    gone = np.zeros(nodes, dtype=np.int64)
    entries = chosen[units.entry_unit]
    np.add.at(gone, units.entry_node[entries], units.entry_freed[entries, 0])
    return gone


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Units, list[int]]:
    nodes = draw(st.integers(1, 3))
    count = draw(st.integers(1, 7))
    where = [
        draw(st.lists(st.integers(0, nodes - 1), min_size=1, max_size=2)) for _ in range(count)
    ]
    sizes = [draw(st.integers(1, 4)) for _ in range(count)]
    free = [draw(st.integers(0, 3)) for _ in range(nodes)]
    return units_of(where, sizes, [0] * count, nodes), free


@settings(deadline=None)
@given(worlds(), st.integers(1, 6), st.integers(1, 3))
def test_every_slot_fits_once_the_chosen_victims_are_evicted(
    world: tuple[Units, list[int]], need: int, wanted: int
) -> None:
    units, free = world
    result = found(units, free, need, wanted)
    taken = np.bincount(result.nodes, minlength=len(free)) * need
    assert (np.array(free) + freed(units, result.chosen, len(free)) >= taken).all()


@settings(deadline=None)
@given(worlds(), st.integers(1, 6))
def test_one_slot_is_found_whenever_there_is_one(world: tuple[Units, list[int]], need: int) -> None:
    units, free = world
    everybody = np.ones(len(units.unit_cost), dtype=np.bool_)
    could = bool((np.array(free) + freed(units, everybody, len(free)) >= need).any())
    assert (len(found(units, free, need, 1).nodes) == 1) == could


@settings(deadline=None)
@given(st.lists(st.integers(1, 3), min_size=1, max_size=4), st.integers(1, 8), st.data())
def test_equal_victims_are_chosen_in_the_smallest_number(
    counts: list[int], need: int, data: st.DataObject
) -> None:
    """With victims of one size the cheapest set is found exactly."""
    nodes = len(counts)
    where = [[node] for node, count in enumerate(counts) for _ in range(count)]
    free = [data.draw(st.integers(0, 2)) for _ in range(nodes)]
    units = units_of(where, [1] * len(where), [0] * len(where), nodes)
    result = found(units, free, need, 1)
    costs = [
        size
        for size in range(len(where) + 1)
        for subset in combinations(range(len(where)), size)
        if any(
            free[node] + sum(where[u] == [node] for u in subset) >= need for node in range(nodes)
        )
    ][:1]
    assert [int(units.unit_cost[result.chosen].sum())] == costs if costs else not len(result.nodes)


def test_victims_of_a_lower_class_are_chosen_before_cheaper_ones_of_a_higher() -> None:
    units = units_of([[0], [0], [1]], [1, 1, 1], [0, 0, 1], nodes=2)
    result = found(units, [0, 1], need=2, wanted=1)
    assert result.nodes.tolist() == [0]


def test_no_victim_is_chosen_beyond_the_budget() -> None:
    units = units_of([[0], [1], [2]], [1, 1, 1], [0, 0, 0], nodes=3)
    assert len(found(units, [0, 0, 0], need=1, wanted=3, most=2).nodes) == 2


def test_resources_that_a_gang_frees_on_other_nodes_count_for_the_next_slot() -> None:
    units = units_of([[0, 1], [0], [1]], [1, 1, 1], [0, 0, 0], nodes=2)
    result = found(units, [0, 0], need=1, wanted=2)
    assert int(units.unit_cost[result.chosen].sum()) == 2


def test_victims_that_a_job_gave_before_are_not_chosen_again() -> None:
    units = units_of([[0], [0]], [1, 1], [0, 1], nodes=1)
    units = units._replace(unit_first=np.zeros(2, dtype=np.int64))
    result = cheapest_slots(
        units,
        np.array([False, True]),
        np.array([[0]], dtype=np.int64),
        np.array([1], dtype=np.int64),
        np.ones(1, dtype=np.bool_),
        1,
        Budget(np.zeros(2, dtype=np.int64), np.array([UNBOUNDED], dtype=np.int64)),
    )
    assert result.chosen.tolist() == [False, True]


def test_of_slots_the_one_that_evicts_the_least_resources_is_taken() -> None:
    units = units_of([[0], [1]], [4, 2], [0, 0], nodes=2)
    assert found(units, [0, 0], need=2, wanted=1).nodes.tolist() == [1]


def test_of_slots_that_evict_as_much_the_one_that_loses_the_least_work_is_taken() -> None:
    units = units_of([[0], [1]], [2, 2], [0, 0], nodes=2)
    units = units._replace(unit_loss=np.array([9, 1], dtype=np.int64))
    assert found(units, [0, 0], need=2, wanted=1).nodes.tolist() == [1]


def test_of_slots_with_equal_prices_the_one_whose_victims_come_first_is_taken() -> None:
    units = units_of([[1], [0]], [2, 2], [0, 0], nodes=2)
    assert found(units, [0, 0], need=2, wanted=1).nodes.tolist() == [1]


def test_a_victim_without_whom_there_is_room_too_is_spared() -> None:
    units = units_of([[0], [0]], [1, 4], [0, 0], nodes=1)
    assert found(units, [0], need=4, wanted=1).chosen.tolist() == [False, True]
