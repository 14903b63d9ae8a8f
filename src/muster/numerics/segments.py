"""Sums over segments: rows grouped by a code, for topology domains, GPU groups, zones.

`codes` is int[N] with values in 0..K-1, or -1 for rows that belong to no segment. The grouping is
worked out once; each sum is then one pass.
"""

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


class Segments:
    """A fixed grouping of N rows into K segments."""

    __slots__ = ("_filled", "_order", "_starts", "codes", "count")

    def __init__(self, codes: npt.ArrayLike, count: int) -> None:
        self.codes: Ints = np.asarray(codes, np.int64)
        self.count = count
        members = np.flatnonzero(self.codes >= 0)
        self._order = members[np.argsort(self.codes[members], kind="stable")]
        self._filled, self._starts = np.unique(self.codes[self._order], return_index=True)

    def sums(self, values: Ints) -> Ints:
        """int64[K, ...]: the sum of `values` [N, ...] in each segment; empty segments are 0."""
        total = np.zeros((self.count, *values.shape[1:]), np.int64)
        if len(self._order):
            total[self._filled] = np.add.reduceat(values[self._order], self._starts, axis=0)
        return total

    def spread(self, values: Ints, outside: int = 0) -> Ints:
        """int64[N]: for each row the value [K] of its segment, `outside` for rows without one."""
        if not self.count:
            return np.full(len(self.codes), outside, np.int64)
        return np.where(self.codes >= 0, values[self.codes], outside)
