"""`usage`: nodes that really use little go first, and those that use too much take nobody.

Volcano asks for the use of nodes, here it is the sum over their pods, from the Prometheus that the
conf names under `metrics`. Nodes of which nothing was measured lately are taken as they come.
"""

import numpy as np

from muster.api.quantity import BadQuantity, Quantity
from muster.engine.config.reader import Reader
from muster.engine.hooks import Dependence, SessionPlugin, View
from muster.engine.tiers.plugins.measured_use import USUAL, Guess, MeasuredUse
from muster.engine.tiers.rules import TieredPlugin
from muster.model.ledger import Entries
from muster.model.reasons import Reason
from muster.model.shapes import Shape
from muster.numerics.arrays import Bools, Floats, Ints, Rows

_FULL = 100.0
_LIMIT_PERCENT = 80.0
_MIB = 1 << 20
_ESTIMATOR = (
    "request_ratio",
    "burst_ratio",
    "risk_threshold",
    "risk_factor",
    "be_cpu",
    "be_mem",
)


class Usage:
    """Volcano's `usage`."""

    name = "usage"

    def __init__(self, arguments: Reader) -> None:
        known = ("usage.weight", "cpu.weight", "memory.weight", "thresholds", "estimator")
        arguments.allow_only(known)
        self._weight = arguments.key("usage.weight").integer(5)
        weights = [arguments.key(f"{name}.weight").integer(1) for name in ("cpu", "memory")]
        self._weights: Floats = np.maximum(np.array(weights, dtype=np.float64), 0.0)
        limits = arguments.key("thresholds")
        limits.allow_only(("cpu", "mem"))
        percents = [limits.key(name).number(_LIMIT_PERCENT) for name in ("cpu", "mem")]
        self._limits: Floats = np.array(percents) / 100
        self._guess = _guess(arguments.key("estimator"))

    def open(self, view: View) -> SessionPlugin:
        return _ByUse(view, self._weight, self._weights, self._limits, self._guess)


def _guess(said: Reader) -> Guess:
    """What pods are expected to use before they were measured."""
    said.allow_only(_ESTIMATOR)
    if said.key("burst_ratio").number(0.0):
        said.key("burst_ratio").has_no_effect(
            "it is guessed from what pods ask for, not from limits"
        )
    cpu, memory = said.key("be_cpu"), said.key("be_mem")
    return Guess(
        of_request=_within(said.key("request_ratio"), USUAL.of_request, 0.0, 1.0),
        busy_from=_within(said.key("risk_threshold"), USUAL.busy_from, 0.0, 1.0),
        more_where_busy=_within(said.key("risk_factor"), USUAL.more_where_busy, 1.0, np.inf),
        of_nothing=(
            USUAL.of_nothing[0] if cpu.is_absent else _amount(cpu, 1).milli,
            USUAL.of_nothing[1] if memory.is_absent else _amount(memory, 1000 * _MIB).value,
        ),
    )


def _within(said: Reader, otherwise: float, least: float, most: float) -> float:
    number = said.number(otherwise)
    if least <= number <= most:
        return number
    said.has_no_effect(f"{number:g} is not possible, {otherwise:g} counts")
    return otherwise


def _amount(said: Reader, thousandths: int) -> Quantity:
    """A text is a quantity; a bare number counts in so many thousandths of one."""
    bare = isinstance(said.value, int)
    try:
        found = Quantity(f"{said.integer() * thousandths}m" if bare else said.text())
    except BadQuantity as error:
        raise said.wrong(str(error)) from None
    return max(found, Quantity())


class _ByUse(TieredPlugin):
    def __init__(
        self, view: View, weight: int, weights: Floats, limits: Floats, guess: Guess
    ) -> None:
        self._use, self._weight, self._weights = MeasuredUse(view, guess), weight, weights
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
