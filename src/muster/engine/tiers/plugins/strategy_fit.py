"""`resource-strategy-fit`: for each resource full or empty nodes first; scarce ones are spared."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from muster.api.volcano import SCORING_TYPE, SCORING_WEIGHT
from muster.base.json_text import NotJson, parse_json
from muster.engine.config.reader import Reader
from muster.engine.hooks import Dependence, SessionPlugin, View
from muster.engine.tiers.plugins.node_use import NodeUse
from muster.engine.tiers.rules import Rules, TieredPlugin
from muster.model.gpu_request import GPU_RESOURCES
from muster.model.requests import resource_column
from muster.model.shapes import Shape
from muster.numerics.arrays import Bools, Floats, Rows
from muster.numerics.axis import CPU, MEMORY

_FULL = 100.0
_MOST, _LEAST = "MostAllocated", "LeastAllocated"
_SCARCE_BYTES = 10**9
_TEXT_MAX, _WEIGHT_MAX = 1 << 14, 1 << 20


@dataclass(frozen=True, slots=True)
class _Wish:
    is_most: bool
    weight: int


class StrategyFit:
    """Volcano's `resource-strategy-fit`."""

    name = "resource-strategy-fit"

    def __init__(self, arguments: Reader) -> None:
        arguments.allow_only(("resourceStrategyFitWeight", "resources", "sra", "proportional"))
        self._weight = arguments.key("resourceStrategyFitWeight").integer(10)
        self._wishes = {name: _wish(each) for name, each in arguments.key("resources").items()}
        if not self._wishes:
            self._wishes = {"cpu": _Wish(False, 1), "memory": _Wish(False, 1)}
        scarce, ratio = arguments.key("sra"), arguments.key("proportional")
        self._scarce = _listed(scarce) if scarce.key("enable").flag(False) else ()
        self._scarce_weight = scarce.key("weight").integer(10)
        self._scarce_weights = {n: r.integer() for n, r in scarce.key("resourceWeight").items()}
        rates = ratio.key("resourceProportion")
        self._rates = {
            name: (_rate(rates.key(f"{name}.cpu")), _rate(rates.key(f"{name}.memory")))
            for name in (_listed(ratio) if ratio.key("enable").flag(False) else ())
        }
        scarce.allow_only(("enable", "resources", "weight", "resourceWeight"))
        ratio.allow_only(("enable", "resources", "resourceProportion"))
        rates.allow_only(f"{name}.{of}" for name in self._rates for of in ("cpu", "memory"))
        for name, each in arguments.key("resources").items():
            if "*" in name and (name.count("*") > 1 or name == "*" or name[-1] != "*"):
                each.has_no_effect("a star stands once, at the end of a name")

    def open(self, view: View) -> SessionPlugin:
        return _Fits(
            view, self._weight, self._wishes, self._scarcity(view), self._scarce_weight, self._rates
        )

    def _scarcity(self, view: View) -> Mapping[int, int]:
        column = view.snapshot.axis.column
        named = {resource_column(name): self._scarce_weights.get(name, 1) for name in self._scarce}
        return {column[name]: weight for name, weight in named.items() if name in column}


def _wish(reader: Reader) -> _Wish:
    kind = reader.key("type").choice((_MOST, _LEAST), _LEAST)
    return _Wish(kind == _MOST, reader.key("weight").integer(1))


def _rate(reader: Reader) -> float:
    """How much of cpu (cores) or memory (GB) is kept for one of a scarce resource."""
    rate = reader.number(1.0)
    return rate if rate >= 0 else 1.0


def _listed(reader: Reader) -> tuple[str, ...]:
    names = (one.strip() for one in reader.key("resources").text("").split(","))
    return tuple(one for one in names if one)


class _Fits(TieredPlugin):
    def __init__(
        self,
        view: View,
        weight: int,
        wishes: Mapping[str, _Wish],
        scarce: Mapping[int, int],
        scarce_weight: int,
        rates: Mapping[str, tuple[float, float]],
    ) -> None:
        self._view, self._use, self._weight = view, NodeUse(view), weight
        names = view.snapshot.axis.names
        self._by_column = {
            column: wish
            for column, name in enumerate(names)
            if (wish := _wish_of(wishes, name)) is not None
        }
        self._scarce, self._scarce_weight, self._rates = scarce, scarce_weight, rates

    def begin(self, tiers: Rules) -> None:
        self._groups = tiers.groups

    def looks_at_tasks(self, job: int) -> bool:
        return any(self._own_wishes(task) for task in self._groups.tasks(job).tolist())

    def task_scores(self, task: int) -> Floats:
        """What a pod's own wishes, in its annotations, make of the score."""
        rows = np.arange(len(self._view.snapshot.nodes), dtype=np.int64)
        own, shape = self._own_wishes(task), self._view.snapshot.shape_of(task)
        if not own:
            return np.zeros(len(rows))
        return self._fit(shape, rows, own) - self._fit(shape, rows, self._by_column)

    def _own_wishes(self, task: int) -> Mapping[int, _Wish]:
        notes = self._groups.pod(task).notes
        kind, weights = notes.get(SCORING_TYPE, ""), _said_weights(notes.get(SCORING_WEIGHT, ""))
        if kind not in (_MOST, _LEAST) and not weights:
            return {}
        return {
            column: _Wish(wish.is_most if kind not in (_MOST, _LEAST) else kind == _MOST, weight)
            for column, wish, weight in self._weighted(weights)
        }

    def _weighted(self, weights: Mapping[str, int]) -> Iterator[tuple[int, _Wish, int]]:
        """Columns with the wish of the configuration and the weight that counts."""
        column = self._view.snapshot.axis.column
        if not weights:
            yield from ((at, wish, wish.weight) for at, wish in self._by_column.items())
        for name, weight in weights.items():
            at = column.get(resource_column(name))
            if at is not None:
                yield at, self._by_column.get(at, _Wish(False, 1)), weight

    def dependence(self, shape: Shape) -> Dependence:
        return Dependence.NODE

    def score(self, shape: Shape, rows: Rows) -> Floats:
        return self._fit(shape, rows, self._by_column) + self._scarcity(shape, rows)

    def _fit(self, shape: Shape, rows: Rows, wishes: Mapping[int, _Wish]) -> Floats:
        columns = [c for c in wishes if shape.request[c] > 0]
        weights = np.array([wishes[c].weight for c in columns], dtype=np.float64)
        if not weights.sum() > 0:
            return np.zeros(len(rows))
        used = self._use.fractions(shape, rows, tuple(columns))
        is_most = np.array([wishes[c].is_most for c in columns])
        part = np.where(is_most, used, 1 - used)
        fit = np.where((used > 1).any(axis=1), 0.0, (part * weights).sum(axis=1))
        return np.asarray(_FULL * self._weight * fit / weights.sum())

    def _scarcity(self, shape: Shape, rows: Rows) -> Floats:
        """Nodes without scarce resources first, for who does not ask for them."""
        if not self._scarce:
            return np.zeros(len(rows))
        columns = list(self._scarce)
        weights = np.array([self._scarce[c] for c in columns], dtype=np.float64)
        has = self._view.snapshot.nodes.allocatable[rows][:, columns] > 0
        lacks = (~has & (shape.request[columns] > 0)).any(axis=1)
        spared = 1 - (has * weights).sum(axis=1) / max(float(weights.sum()), 1.0)
        return np.where(lacks, 0.0, _FULL * self._scarce_weight * spared)

    def fits(self, shape: Shape, rows: Rows) -> Bools:
        """Who does not ask for a scarce resource leaves enough beside it for those who do."""
        idle, fits = self._view.ledger.idle, np.ones(len(rows), dtype=np.bool_)
        axis = self._view.snapshot.axis
        scarce_ones = (axis.column.get(resource_column(name), -1) for name in self._rates)
        if any(shape.request[column] > 0 for column in scarce_ones if column >= 0):
            return fits
        for name, (cpu, memory) in self._rates.items():
            column = axis.column.get(resource_column(name))
            if column is None:
                continue
            scarce = idle[rows, column] / (1000 if resource_column(name) == "gpu" else 1)
            left_cpu = (idle[rows, CPU] - shape.request[CPU]) / 1000
            left_memory = idle[rows, MEMORY] - shape.request[MEMORY]
            enough = left_memory >= scarce * memory * _SCARCE_BYTES
            fits &= (left_cpu >= scarce * cpu) & enough
        return fits


def _said_weights(text: str) -> Mapping[str, int]:
    """JSON of resource to weight; nothing where it cannot be read."""
    try:
        said = parse_json(text, dict[str, int]) if 0 < len(text) < _TEXT_MAX else {}
    except NotJson:
        said = {}
    return {name: weight for name, weight in said.items() if 0 <= weight < _WEIGHT_MAX}


def _wish_of(wishes: Mapping[str, _Wish], name: str) -> _Wish | None:
    """The wish for a resource by name; else that of the longest prefix with a star."""
    by_column = {resource_column(one): wish for one, wish in wishes.items()}
    if name in by_column:
        return by_column[name]
    starred = [one for one in wishes if one.endswith("*") and one.count("*") == 1 < len(one)]
    called = [each for each in GPU_RESOURCES if resource_column(each) == name] or [name]
    fitting = [one for one in starred if any(each.startswith(one[:-1]) for each in called)]
    return wishes[max(fitting, key=len)] if fitting else None
