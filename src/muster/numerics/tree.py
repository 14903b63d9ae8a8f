"""Trees as parent columns: children, depth, sums towards the root.

A forest of Q nodes is `parent` int64[Q] with -1 for roots. Rows may come in any order. Cycles are
the caller's mistake and are refused by `top_down`.
"""

import numba
import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


class NotATree(ValueError):
    """Some rows are their own ancestors."""

    def __init__(self, rows: list[int]) -> None:
        super().__init__(f"rows {rows} are their own ancestors")
        self.rows = rows


def depths(parent: Ints) -> Ints:
    """Distance to the root, int64[Q]; roots have 0."""
    depth = np.zeros(len(parent), dtype=np.int64)
    above = parent.copy()
    for _ in range(len(parent) + 1):
        below_something = above >= 0
        if not below_something.any():
            return depth
        depth += below_something
        above[below_something] = parent[above[below_something]]
    raise NotATree(np.flatnonzero(above >= 0).tolist())


def top_down(parent: Ints) -> Ints:
    """All rows, every parent before its children: int64[Q]."""
    return np.argsort(depths(parent), kind="stable").astype(np.int64)


def children(parent: Ints, rank: Ints) -> tuple[Ints, Ints]:
    """Children of every row as (start int64[Q + 2], rows int64[Q]), siblings by rank.

    The children of row q are `rows[start[q + 1] : start[q + 2]]`; the roots are q = -1.
    """
    rows = np.lexsort((rank, parent)).astype(np.int64)
    counts = np.bincount(parent + 1, minlength=len(parent) + 1)
    start = np.zeros(len(parent) + 2, dtype=np.int64)
    np.cumsum(counts, out=start[1:])
    return start, rows


def leaves(parent: Ints) -> Bools:
    """Which rows have no children: bool[Q]."""
    inner = np.zeros(len(parent), dtype=np.bool_)
    inner[parent[parent >= 0]] = True
    return ~inner


def path(parent: Ints, row: int) -> list[int]:
    """The row and its ancestors, deepest first."""
    rows = []
    while row >= 0:
        rows.append(row)
        row = int(parent[row])
    return rows


def diverging(parent: Ints, left: int, right: int) -> tuple[int, int]:
    """The first pair of differing ancestors from the top, or the deepest pair compared.

    For two rows in different trees that is their roots; where one row is an ancestor of the other,
    it is that row twice.
    """
    pairs = zip(reversed(path(parent, left)), reversed(path(parent, right)), strict=False)
    pair = (left, right)
    for pair in pairs:
        if pair[0] != pair[1]:
            return pair
    return pair


def partings(chain: Ints, own: int) -> tuple[Ints, Ints]:
    """`diverging` of `own` and every row: our side and theirs, int64[Q] each.

    `chain` [Q, D] is every row with its ancestors, deepest first, -1 behind the root.
    """
    ours = np.full(len(chain), own, dtype=np.int64)
    theirs = np.full(len(chain), own, dtype=np.int64)
    _part(chain, own, ours, theirs)
    return ours, theirs


@numba.njit(cache=True)
def _part(chain, own, ours, theirs):  # type: ignore[no-untyped-def]
    our_depth = _depth(chain, own)
    for row in range(len(chain)):
        their_depth = _depth(chain, row)
        for down in range(1, min(our_depth, their_depth) + 1):
            ours[row] = chain[own, our_depth - down]
            theirs[row] = chain[row, their_depth - down]
            if ours[row] != theirs[row]:
                break


@numba.njit(cache=True)
def _depth(chain, row):  # type: ignore[no-untyped-def]
    """How many rows there are from this one to its root, both included."""
    depth = 0
    while depth < chain.shape[1] and chain[row, depth] >= 0:
        depth += 1
    return depth
