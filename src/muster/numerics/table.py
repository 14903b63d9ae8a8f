"""Columns with stable rows: a struct of arrays that grows, and reuses the rows of what has left.

A row number stays the same as long as its row lives, so that other tables may refer to it. Rows of
removed things keep stale values and are marked by `live`; readers filter by it. Order of rows means
nothing: whatever needs an order has a column for it.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

_SMALLEST = 16


class Table:
    """Named columns of equal length with a free list.

    `columns` maps a name to (dtype, width); width 0 is a plain column [rows], otherwise [rows,
    width]. Columns are read as `table["name"]`, which is the whole capacity: index with rows.
    """

    def __init__(self, columns: Mapping[str, tuple[npt.DTypeLike, int]]) -> None:
        self._columns: dict[str, npt.NDArray[np.generic]] = {
            name: np.zeros((_SMALLEST, width) if width else _SMALLEST, dtype=dtype)
            for name, (dtype, width) in columns.items()
        }
        self._columns["live"] = np.zeros(_SMALLEST, dtype=np.bool_)
        self._free: list[int] = []
        self.size = 0

    def __getitem__(self, name: str) -> npt.NDArray[np.generic]:
        return self._columns[name]

    def add(self) -> int:
        """A fresh row, all zeros."""
        if self._free:
            row = self._free.pop()
            for column in self._columns.values():
                column[row] = 0
        else:
            row = self._grown()
        self._columns["live"][row] = True
        return row

    def remove(self, row: int) -> None:
        """Give the row back."""
        self._columns["live"][row] = False
        self._free.append(row)

    def used(self, name: str) -> npt.NDArray[np.generic]:
        """A column up to the highest row ever used; rows that left are among them."""
        return self._columns[name][: self.size]

    def _grown(self) -> int:
        """A row that nobody has had: zeros, because that is what columns grow by."""
        row = self.size
        if row == len(self._columns["live"]):
            for name, column in self._columns.items():
                larger = np.zeros((2 * row, *column.shape[1:]), dtype=column.dtype)
                larger[:row] = column
                self._columns[name] = larger
        self.size += 1
        return row
