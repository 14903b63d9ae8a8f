"""Named tuples made by the column are those made one by one."""

from typing import NamedTuple

import pytest

from muster.base.rows import rows_of


class Point(NamedTuple):
    x: int
    y: int = 0


def test_rows_of_columns_equal_constructed_tuples() -> None:
    assert rows_of(Point, [1, 2], (3, 4)) == [Point(1, 3), Point(2, 4)]
    assert rows_of(Point, [1], [2])[0].y == 2


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        rows_of(Point, [1, 2], [3])
