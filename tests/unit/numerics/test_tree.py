"""Forests as parent columns."""

import numpy as np
import pytest

from muster.numerics.tree import (
    NotATree,
    children,
    depths,
    diverging,
    leaves,
    partings,
    path,
    top_down,
)

# 3 is the root of 0 and 4, 0 the parent of 1 and 2; 5 stands alone.
PARENT = np.array([3, 0, 0, -1, 3, -1], dtype=np.int64)


def test_depths_count_the_steps_to_the_root() -> None:
    assert depths(PARENT).tolist() == [1, 2, 2, 0, 1, 0]


def test_parents_come_before_their_children_from_the_top_down() -> None:
    position = {int(row): place for place, row in enumerate(top_down(PARENT))}
    assert all(position[PARENT[row]] < position[row] for row in range(6) if PARENT[row] >= 0)


def test_children_are_listed_in_order_of_rank() -> None:
    start, rows = children(PARENT, np.array([5, 9, 1, 0, 2, 3], dtype=np.int64))
    listed = {q: rows[start[q + 1] : start[q + 2]].tolist() for q in range(-1, 6)}
    assert listed == {-1: [3, 5], 0: [2, 1], 1: [], 2: [], 3: [4, 0], 4: [], 5: []}


def test_leaves_have_no_children() -> None:
    assert leaves(PARENT).tolist() == [False, True, True, False, True, True]


def test_a_path_leads_from_the_row_to_its_root() -> None:
    assert path(PARENT, 2) == [2, 0, 3]


@pytest.mark.parametrize(
    ("left", "right", "pair"),
    [(1, 2, (1, 2)), (1, 4, (0, 4)), (2, 5, (3, 5)), (1, 0, (0, 0)), (5, 5, (5, 5))],
)
def test_two_rows_diverge_where_their_ancestors_first_differ(
    left: int, right: int, pair: tuple[int, int]
) -> None:
    assert diverging(PARENT, left, right) == pair


def test_a_cycle_is_refused() -> None:
    with pytest.raises(NotATree, match=r"\[0, 1\]"):
        depths(np.array([1, 0, -1], dtype=np.int64))


def test_the_divergences_of_a_row_equal_those_computed_one_by_one() -> None:
    chain = np.full((len(PARENT), len(PARENT)), -1, dtype=np.int64)
    for row in range(len(PARENT)):
        chain[row, : len(path(PARENT, row))] = path(PARENT, row)
    for own in range(len(PARENT)):
        ours, theirs = partings(chain, own)
        pairs = [diverging(PARENT, own, row) for row in range(len(PARENT))]
        assert list(zip(ours.tolist(), theirs.tolist(), strict=True)) == pairs
