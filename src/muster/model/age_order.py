"""Jobs from old to young, kept in order while they come and go.

Most often a few come and go between two snapshots of very many: then each finds its place by
bisection, and the others are not looked at.
"""

from bisect import bisect_left
from typing import NamedTuple

import numpy as np

from muster.numerics.arrays import Rows

_FEW = 64
"""Changes that cost less one by one than to order everybody anew."""


class JobAge(NamedTuple):
    """What jobs are ordered by, the first that differs, and the row of the job."""

    created_s: float
    uid: str
    key: str
    row: int


class AgeOrder:
    """The rows of all jobs, oldest first."""

    def __init__(self) -> None:
        self._ages: list[JobAge] = []
        self._rows: Rows = np.zeros(0, dtype=np.int64)
        self._came: set[JobAge] = set()
        self._left: set[JobAge] = set()

    def __len__(self) -> int:
        return len(self._ages) + len(self._came) - len(self._left)

    def add(self, age: JobAge) -> None:
        if age in self._left:
            self._left.remove(age)
        else:
            self._came.add(age)

    def remove(self, age: JobAge) -> None:
        if age in self._came:
            self._came.remove(age)
        else:
            self._left.add(age)

    def rows(self) -> Rows:
        """They will not change under the reader."""
        if len(self._came) + len(self._left) <= _FEW:
            self._put_in_place()
        else:
            kept = [age for age in self._ages if age not in self._left]
            # What is new stands at the end of a sorted list, which sorts fast.
            self._ages = sorted((*kept, *self._came))
            self._rows = np.array([age.row for age in self._ages], dtype=np.int64)
        self._came.clear()
        self._left.clear()
        return self._rows

    def _put_in_place(self) -> None:
        for age in self._left:
            at = bisect_left(self._ages, age)
            del self._ages[at]
            self._rows = np.delete(self._rows, at)
        for age in self._came:
            at = bisect_left(self._ages, age)
            self._ages.insert(at, age)
            self._rows = np.insert(self._rows, at, age.row)
