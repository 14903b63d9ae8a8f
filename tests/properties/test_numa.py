"""NUMA alignment over all nodes agrees with the rules followed zone by zone."""

from itertools import combinations

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from muster.numerics import numa

ZONES, RESOURCES = 3, 2
amounts = st.lists(st.integers(0, 4), min_size=RESOURCES, max_size=RESOURCES)
zones = st.lists(st.tuples(amounts, amounts), min_size=1, max_size=ZONES)


def columns(
    nodes: list[list[tuple[list[int], list[int]]]],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """(available, allocatable, exists), padded; available never exceeds allocatable."""
    available = np.zeros((len(nodes), ZONES, RESOURCES), np.int64)
    allocatable = available.copy()
    exists = np.zeros((len(nodes), ZONES), np.bool_)
    for n, node in enumerate(nodes):
        for z, (total, taken) in enumerate(node):
            allocatable[n, z] = total
            available[n, z] = np.maximum(np.array(total) - taken, 0)
            exists[n, z] = True
    return available, allocatable, exists


def slow_restricted(
    need: list[int], available: list[list[int]], allocatable: list[list[int]]
) -> set[int]:
    asked = [r for r in range(RESOURCES) if need[r] > 0]
    widths = set()
    for r in asked:
        total, width = 0, 0
        for amount in sorted((zone[r] for zone in allocatable), reverse=True):
            if total >= need[r]:
                break
            total, width = total + amount, width + 1
        widths.add(width if total >= need[r] else 0)
    size = widths.pop() if len(widths) == 1 else (0 if widths else 1)
    if size == 0:
        return set()
    for pick in combinations(range(len(available)), size):
        if all(sum(available[z][r] for z in pick) >= need[r] for r in asked):
            return set(pick)
    return set()


@given(st.lists(zones, min_size=1, max_size=4), amounts)
def test_restricted_chooses_the_lowest_zone_set_of_the_common_width(
    nodes: list[list[tuple[list[int], list[int]]]], need: list[int]
) -> None:
    available, allocatable, exists = columns(nodes)
    chosen = numa.restricted(np.array(need, np.int64), available, allocatable, exists)
    for n, node in enumerate(nodes):
        expected = slow_restricted(
            need, available[n, : len(node)].tolist(), allocatable[n, : len(node)].tolist()
        )
        assert set(np.flatnonzero(chosen[n])) == expected


@given(st.lists(zones, min_size=1, max_size=4), amounts)
def test_single_numa_node_chooses_the_lowest_zone_with_enough_of_everything(
    nodes: list[list[tuple[list[int], list[int]]]], need: list[int]
) -> None:
    available, allocatable, exists = columns(nodes)
    chosen = numa.single_zone(np.array(need, np.int64), available, allocatable, exists)
    for n, node in enumerate(nodes):
        holding = [z for z in range(len(node)) if (available[n, z] >= need).all()]
        assert list(np.flatnonzero(chosen[n])) == holding[:1]


@given(st.lists(zones, min_size=1, max_size=4), amounts)
def test_best_effort_covers_what_can_be_covered_and_draws_no_more_than_is_needed(
    nodes: list[list[tuple[list[int], list[int]]]], need: list[int]
) -> None:
    available, allocatable, exists = columns(nodes)
    wanted = np.array(need, np.int64)
    chosen = numa.best_effort(wanted, available, allocatable, exists)
    given_ = numa.drawn(wanted, available, chosen)
    assert (given_ <= available).all()
    assert (given_.sum(axis=1) == np.minimum(available.sum(axis=1), wanted)).all()


def test_best_effort_chooses_the_zone_that_covers_most() -> None:
    available, allocatable, exists = columns([[([1, 1], [0, 0]), ([4, 4], [0, 0])]])
    need = np.array([3, 3], np.int64)
    assert numa.best_effort(need, available, allocatable, exists).tolist() == [[False, True, False]]
