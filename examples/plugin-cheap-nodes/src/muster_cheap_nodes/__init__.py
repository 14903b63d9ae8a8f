"""The cheapest node that fits: prices are in a node label; nodes above a limit take nothing.

- name: cheapnodes
  arguments: {label: example.com/price, weight: "100", limit: "4.0"}
"""

import numpy as np

from muster.engine.config.reader import Reader
from muster.engine.hooks import SessionPlugin, View
from muster.model.shapes import Shape
from muster.numerics.arrays import Bools, Floats, Rows


class CheapNodes:
    """Made once per configuration; its arguments are checked here."""

    name = "cheapnodes"

    def __init__(self, arguments: Reader) -> None:
        arguments.allow_only(("label", "weight", "limit"))
        self._label = arguments.key("label").text("example.com/price")
        self._weight = arguments.key("weight").number(100.0)
        self._limit = arguments.key("limit").number(float("inf"))

    def open(self, view: View) -> SessionPlugin:
        """Called at the start of each cycle: read the prices of all nodes once."""
        nodes = view.snapshot.nodes.records
        prices = np.array([_price(node.labels.get(self._label, "")) for node in nodes])
        return _Prices(prices, self._weight, self._limit)


class _Prices(SessionPlugin):
    """Answers for all nodes at once. Prices do not change in a cycle, so each is asked once."""

    reads_amounts = False  # A node costs what it costs, however much of it a task asks for.

    def __init__(self, prices: Floats, weight: float, limit: float) -> None:
        self._prices, self._weight, self._limit = prices, weight, limit

    def fits(self, shape: Shape, rows: Rows) -> Bools:
        return self._prices[rows] <= self._limit

    def score(self, shape: Shape, rows: Rows) -> Floats:
        dearest = max(float(self._prices.max(initial=0.0)), 1e-9)
        return self._weight * (1.0 - self._prices[rows] / dearest)


def _price(text: str) -> float:
    """A node without a readable price costs nothing."""
    try:
        return max(float(text), 0.0)
    except ValueError:
        return 0.0
