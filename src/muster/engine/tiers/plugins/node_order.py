"""`nodeorder` and `binpack`: which nodes are better, in Kubernetes' terms, times weights."""

from collections.abc import Mapping

import numpy as np

from muster.engine.config.reader import Reader
from muster.engine.hooks import Dependence, SessionPlugin, View
from muster.engine.plugins.pod_affinity import PodAffinity
from muster.engine.plugins.predicates.dynamic_filters import DynamicFilters
from muster.engine.tiers.plugins.image_locality import ImageTable
from muster.engine.tiers.plugins.node_use import NodeUse
from muster.engine.tiers.rules import ByFullness, TieredPlugin
from muster.model.ledger import Entries
from muster.model.requests import resource_column
from muster.model.shapes import Shape
from muster.model.volumes import Volumes
from muster.numerics.arrays import Floats, Rows
from muster.numerics.gang_nodes import fullness_of

_FULL = 100.0
_WEIGHTS: Mapping[str, int] = {
    "leastrequested": 1,
    "mostrequested": 0,
    "nodeaffinity": 2,
    "podaffinity": 2,
    "balancedresource": 1,
    "tainttoleration": 3,
    "imagelocality": 1,
    "podtopologyspread": 2,
}


class NodeOrder:
    """Volcano's and kube-batch's `nodeorder`."""

    name = "nodeorder"

    def __init__(self, arguments: Reader) -> None:
        arguments.allow_only(f"{name}.weight" for name in _WEIGHTS)
        self.weights = {
            name: arguments.key(f"{name}.weight").integer(weight)
            for name, weight in _WEIGHTS.items()
        }
        self._images = ImageTable(())

    def open(self, view: View) -> SessionPlugin:
        nodes = view.snapshot.nodes.records
        if self._images.nodes is not nodes:
            self._images = ImageTable(nodes)
        return _Scores(view, self.weights, self._images)


class _Scores(ByFullness):
    def __init__(self, view: View, weights: Mapping[str, int], images: ImageTable) -> None:
        self._snapshot, self._weights, self._images = view.snapshot, weights, images
        self._ledger = view.ledger
        measures = (
            weights["leastrequested"],
            weights["mostrequested"],
            weights["balancedresource"],
        )
        self._measures: Floats = np.array(measures, dtype=np.float64)
        shapes = [shape.constraints for shape in view.snapshot.shapes]
        self._wishes: SessionPlugin | None = None
        self._spread: DynamicFilters | None = None
        if any(shape.pod_affinity for shape in shapes):
            self._wishes = PodAffinity(Reader({}, "nodeorder")).open(view)
        if any(shape.spread for shape in shapes):
            self._spread = DynamicFilters(view, Volumes(view.snapshot))

    def dependence(self, shape: Shape) -> Dependence:
        has_peers = shape.constraints.pod_affinity or shape.constraints.spread
        return Dependence.CLUSTER if has_peers else Dependence.NODE

    def on_ledger_change(self, entries: Entries) -> None:
        if self._wishes is not None:
            self._wishes.on_ledger_change(entries)
        if self._spread is not None:
            self._spread.on_ledger_change(entries)

    def score(self, shape: Shape, rows: Rows) -> Floats:
        handle = self._ledger.handle
        total: Floats = fullness_of(handle, shape.row, rows, self._measures)
        return total + self.preferences(shape, rows)

    def weights_of_fullness(self) -> Floats:
        return self._measures

    def preferences(self, shape: Shape, rows: Rows) -> Floats:
        weights, constraints, total = self._weights, shape.constraints, np.zeros(len(rows))
        index = self._snapshot.nodes.index
        if constraints.preferred_nodes and weights["nodeaffinity"]:
            found = np.zeros(len(index))
            for wish in constraints.preferred_nodes:
                found += wish.weight * index.matching_term(wish.term)
            total += weights["nodeaffinity"] * _scaled(found[rows])
        if index.has_preferring_taints and weights["tainttoleration"]:
            unwelcome = index.unwelcome(constraints.tolerations)[rows].astype(np.float64)
            total += weights["tainttoleration"] * (_FULL - _scaled(unwelcome))
        if constraints.images and weights["imagelocality"] and not self._images.is_empty:
            total += weights["imagelocality"] * self._images.scores(constraints.images)[rows]
        if constraints.pod_affinity and self._wishes is not None and weights["podaffinity"]:
            found = self._wishes.score(shape, rows)
            total += weights["podaffinity"] * _scaled(found - found.min(initial=0.0))
        if constraints.spread and self._spread is not None and weights["podtopologyspread"]:
            total += weights["podtopologyspread"] * self._spread.score(shape, rows)
        return total


def _scaled(values: Floats) -> Floats:
    """0 to 100, where the highest is 100."""
    most = float(values.max(initial=0.0))
    return values * (_FULL / most) if most > 0 else np.zeros(len(values))


class BinPack:
    """Volcano's `binpack`: nodes that are full already go first."""

    name = "binpack"

    def __init__(self, arguments: Reader) -> None:
        named = [one.strip() for one in arguments.key("binpack.resources").text("").split(",")]
        named = [one for one in named if one]
        known = ("binpack.weight", "binpack.cpu", "binpack.memory", "binpack.resources")
        arguments.allow_only((*known, *(f"binpack.resources.{one}" for one in named)))
        self._weight = _weight(arguments.key("binpack.weight"))
        self._resources = {
            "cpu": _weight(arguments.key("binpack.cpu")),
            "memory": _weight(arguments.key("binpack.memory")),
            **{
                resource_column(one): _weight(arguments.key(f"binpack.resources.{one}"))
                for one in named
            },
        }

    def open(self, view: View) -> SessionPlugin:
        return _Packs(view, self._weight, self._resources) if self._weight else SessionPlugin()


class _Packs(TieredPlugin):
    def __init__(self, view: View, weight: int, resources: Mapping[str, int]) -> None:
        self._use, self._weight = NodeUse(view), weight
        column = view.snapshot.axis.column
        self._resources = {column[name]: w for name, w in resources.items() if name in column}

    def dependence(self, shape: Shape) -> Dependence:
        return Dependence.NODE

    def score(self, shape: Shape, rows: Rows) -> Floats:
        columns = [column for column in self._resources if shape.request[column] > 0]
        weights = np.array([self._resources[column] for column in columns], dtype=np.float64)
        if not weights.sum():
            return np.zeros(len(rows))
        used = self._use.fractions(shape, rows, tuple(columns))
        packed = np.where((used > 1).any(axis=1), 0.0, (used * weights).sum(axis=1))
        score: Floats = _FULL * self._weight * packed / weights.sum()
        return score


def _weight(reader: Reader) -> int:
    weight = reader.integer(1)
    return 1 if weight < 0 else weight
