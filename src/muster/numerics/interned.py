"""A column of values of which few differ: the question is put once to each distinct value.

Rows are nodes. A thousand nodes have a handful of taint lists and zones; a predicate over values is
evaluated for those and gathered to the rows. `codes` is int32[N]; code 0 is the absent value.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

V = TypeVar("V", bound=Hashable)
Bools = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.int32]

ABSENT = 0


class InternedColumn(Generic[V]):
    """One value, or none, per row. Codes are stable: a value keeps its code for the column's
    life.
    """

    __slots__ = ("_code_of", "codes", "values")

    def __init__(self, rows: Sequence[V | None]) -> None:
        self.values: list[V | None] = [None]
        self._code_of: dict[V, int] = {}
        self.codes: Codes = np.fromiter((self.code(v) for v in rows), np.int32, len(rows))

    def code(self, value: V | None) -> int:
        """The code of a value, given out on first sight."""
        if value is None:
            return ABSENT
        code = self._code_of.get(value)
        if code is None:
            code = self._code_of[value] = len(self.values)
            self.values.append(value)
        return code

    def set(self, row: int, value: V | None) -> None:
        """Write one row."""
        self.codes[row] = self.code(value)

    def rows_where(self, holds: Callable[[V | None], bool]) -> Bools:
        """bool[N]: rows whose value satisfies the predicate, asked once per distinct value."""
        answers = np.fromiter((holds(v) for v in self.values), np.bool_, len(self.values))
        rows: Bools = answers[self.codes]
        return rows

    def rows_with(self, wanted: Iterable[V]) -> Bools:
        """bool[N]: rows that have one of the wanted values."""
        codes = [code for v in wanted if (code := self._code_of.get(v)) is not None]
        if not codes:
            return np.zeros(len(self.codes), np.bool_)
        answers = np.zeros(len(self.values), np.bool_)
        answers[codes] = True
        rows: Bools = answers[self.codes]
        return rows

    def rows_present(self) -> Bools:
        """bool[N]: rows that have a value."""
        rows: Bools = self.codes != ABSENT
        return rows
