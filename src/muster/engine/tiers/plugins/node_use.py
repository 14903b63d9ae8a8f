"""NodeUse: which part of each node would be in use with one more task of a shape."""

import numpy as np

from muster.engine.hooks import View
from muster.model.shapes import Shape
from muster.numerics.arrays import Floats, Rows


class NodeUse:
    """As the ledger has it now; what leaves counts as in use."""

    def __init__(self, view: View) -> None:
        self._allocatable = view.snapshot.nodes.allocatable
        self._ledger = view.ledger

    def fractions(self, shape: Shape, rows: Rows, columns: tuple[int, ...]) -> Floats:
        """float64[len(rows), len(columns)]; 0 where a node has nothing of it."""
        at = np.array(columns, dtype=np.int64)
        there = self._allocatable[rows][:, at]
        used = there - self._ledger.idle[rows][:, at] + shape.request[at]
        return np.where(there > 0, used / np.maximum(there, 1), 0.0)
