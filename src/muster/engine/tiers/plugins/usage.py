"""`usage`: nodes that really use little go first, and those that use too much take nobody.

Volcano asks for the use of nodes, here it is the sum over their pods, from the Prometheus that the
conf names under `metrics`. Nodes of which nothing was measured lately are taken as they come.
"""

import numpy as np

from muster.engine.config.reader import Reader
from muster.engine.hooks import Dependence, SessionPlugin, View
from muster.engine.tiers.plugins.measured_use import MeasuredUse
from muster.engine.tiers.rules import TieredPlugin
from muster.model.ledger import Entries
from muster.model.reasons import Reason
from muster.model.shapes import Shape
from muster.numerics.arrays import Bools, Floats, Ints, Rows

_FULL = 100.0
_LIMIT_PERCENT = 80.0


class Usage:
    """Volcano's `usage`."""

    name = "usage"

    def __init__(self, arguments: Reader) -> None:
        arguments.allow_only(("usage.weight", "cpu.weight", "memory.weight", "thresholds"))
        self._weight = arguments.key("usage.weight").integer(5)
        weights = [arguments.key(f"{name}.weight").integer(1) for name in ("cpu", "memory")]
        self._weights: Floats = np.maximum(np.array(weights, dtype=np.float64), 0.0)
        limits = arguments.key("thresholds")
        limits.allow_only(("cpu", "mem"))
        percents = [limits.key(name).number(_LIMIT_PERCENT) for name in ("cpu", "mem")]
        self._limits: Floats = np.array(percents) / 100

    def open(self, view: View) -> SessionPlugin:
        return _ByUse(view, self._weight, self._weights, self._limits)


class _ByUse(TieredPlugin):
    def __init__(self, view: View, weight: int, weights: Floats, limits: Floats) -> None:
        self._use, self._weight, self._weights = MeasuredUse(view), weight, weights
        is_over = (self._use.measured() > limits).any(axis=1)
        self._takes: Bools = ~(is_over & self._use.is_known)

    def dependence(self, shape: Shape) -> Dependence:
        return Dependence.NODE if self._use.is_measured else Dependence.IRRELEVANT

    def on_ledger_change(self, entries: Entries) -> None:
        self._use.on_ledger_change(entries)

    def fits(self, shape: Shape, rows: Rows) -> Bools:
        found: Bools = self._takes[rows]
        return found

    def filter_reasons(self, shape: Shape, rows: Rows) -> Ints:
        return np.where(self._takes[rows], 0, int(Reason.PLUGIN))

    def score(self, shape: Shape, rows: Rows) -> Floats:
        if not self._weights.sum():
            return np.zeros(len(rows))
        free = 1.0 - self._use.expected()[rows]
        mean: Floats = (free * self._weights).sum(axis=1) / self._weights.sum()
        return _FULL * self._weight * np.where(self._use.is_known[rows], mean, 0.0)
