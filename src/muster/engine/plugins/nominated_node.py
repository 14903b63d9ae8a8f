"""A pod that was promised a node gets it, if it still can."""

import numpy as np

from muster.engine.hooks import Dependence, SessionPlugin, View, WithoutArguments
from muster.model.shapes import Shape
from muster.numerics.arrays import Floats, Rows

_SCORE = 10_000_000.0


class NominatedNode(WithoutArguments):
    """KAI's `nominatednode`: honours `status.nominatedNodeName`."""

    name = "nominatednode"

    def open(self, view: View) -> SessionPlugin:
        return _Promises(view)


class _Promises(SessionPlugin):
    reads_amounts = False

    def __init__(self, view: View) -> None:
        self._row = view.snapshot.nodes.row

    def dependence(self, shape: Shape) -> Dependence:
        promised = shape.nominated_node in self._row
        return Dependence.STATIC if promised else Dependence.IRRELEVANT

    def score(self, shape: Shape, rows: Rows) -> Floats:
        return np.where(rows == self._row[shape.nominated_node], _SCORE, 0.0)
