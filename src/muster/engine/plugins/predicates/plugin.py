"""KAI's `predicates`: which nodes a task may run on, and which tasks no node can ever take.

Beside what KAI checks it keeps topology spread constraints and volume limits, and counts how well
preferred node affinity, PreferNoSchedule taints and soft spread are served (together at most a few
hundred: above packing, below being able to start at once).
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import numpy as np

from muster.engine.config.reader import Reader
from muster.engine.hooks import (
    Dependence,
    NodeSubset,
    SessionPlugin,
    SubGroupRequest,
    View,
    WithoutArguments,
)
from muster.engine.plugins.predicates.dynamic_filters import DynamicFilters
from muster.engine.plugins.predicates.static_filters import KeptReasons, StaticFilters
from muster.model.ledger import Entries
from muster.model.reasons import Evidence, Reason, Refusal
from muster.model.records import GpuKind
from muster.model.shapes import Shape
from muster.model.volumes import Volumes
from muster.numerics.arrays import Bools, Floats, Ints, Rows

_MOST_EVIDENCE = 3
"""Resources of which a refusal says how much of them there is."""
_PREFERENCE_SCORE = 100.0


class Predicates(WithoutArguments):
    """KAI's `predicates`."""

    name = "predicates"

    def __init__(self, arguments: Reader) -> None:
        super().__init__(arguments)
        self._kept = KeptReasons()

    def open(self, view: View) -> SessionPlugin:
        return filters(view, kept=self._kept)


def filters(
    view: View, off: AbstractSet[Reason] = frozenset(), kept: KeptReasons | None = None
) -> SessionPlugin:
    """All of them but those with a reason of `off`; `kept` as in `StaticFilters`."""
    volumes = Volumes(view.snapshot)
    dynamic = DynamicFilters(view, volumes, off=off)
    static = StaticFilters(view, volumes, off, kept)
    return (_Following if dynamic.follows else _Filters)(view, volumes, static, dynamic)


class _Filters(SessionPlugin):
    reads_amounts = False

    def __init__(
        self, view: View, volumes: Volumes, static: StaticFilters, dynamic: DynamicFilters
    ) -> None:
        self._snapshot = view.snapshot
        self._volumes = volumes
        self._static = static
        self._dynamic = dynamic
        self._dependence: dict[int, Dependence] = {}
        self._largest: Ints = view.snapshot.nodes.allocatable.max(axis=0, initial=0)

    def dependence(self, shape: Shape) -> Dependence:
        known = self._dependence.get(shape.row)
        if known is None:
            known = self._dynamic.dependence(shape)
            if known is Dependence.STATIC and not self._says_anything(shape):
                known = Dependence.IRRELEVANT
            self._dependence[shape.row] = known
        return known

    def fits(self, shape: Shape, rows: Rows) -> Bools:
        fits: Bools = self._static.reasons(shape)[rows] == 0
        if self._dynamic.dependence(shape) is not Dependence.STATIC:
            fits &= self._dynamic.reasons(shape, rows) == 0
        return fits

    def filter_reasons(self, shape: Shape, rows: Rows) -> Ints:
        static = self._static.reasons(shape)[rows]
        return np.where(static != 0, static, self._dynamic.reasons(shape, rows))

    def score(self, shape: Shape, rows: Rows) -> Floats:
        score = self._preferences(shape)[rows]
        if shape.constraints.spread:
            score = score + self._dynamic.score(shape, rows)
        return score

    def pre_filter(self, shape: Shape, job: int) -> Refusal | None:
        """What no node and no eviction can change."""
        if shape.gpu.kind is GpuKind.LEGACY_MIG:
            return Refusal(Reason.LEGACY_MIG)
        if problem := shape.constraints.request_problem:
            return Refusal(Reason.BAD_REQUEST, subject=problem)
        return self._too_large(shape) or self._missing(shape)

    def _says_anything(self, shape: Shape) -> bool:
        constraints = shape.constraints
        if constraints.preferred_nodes or self._snapshot.nodes.index.has_preferring_taints:
            return True
        return bool(self._static.reasons(shape).any())

    def _preferences(self, shape: Shape) -> Floats:
        """float64[N]: preferred node affinity up to 100, less for PreferNoSchedule taints."""
        index, constraints = self._snapshot.nodes.index, shape.constraints
        score = np.zeros(len(index))
        total = sum(wish.weight for wish in constraints.preferred_nodes)
        for wish in constraints.preferred_nodes:
            score += _PREFERENCE_SCORE * wish.weight / total * index.matching_term(wish.term)
        if index.has_preferring_taints:
            unwelcome = index.unwelcome(constraints.tolerations)
            score -= _PREFERENCE_SCORE * unwelcome / max(1, int(unwelcome.max(initial=0)))
        return score

    def _too_large(self, shape: Shape) -> Refusal | None:
        """A request above the largest node's, resource by resource."""
        is_short = shape.request > self._largest
        if not is_short.any():
            return None
        short = np.flatnonzero(is_short)
        names = [self._snapshot.axis.names[column] for column in short]
        evidence = tuple(
            Evidence(name, int(shape.request[column]), int(self._largest[column]), "largest node")
            for name, column in zip(names[:_MOST_EVIDENCE], short, strict=False)
        )
        return Refusal(Reason.TOO_LARGE, subject=names[0], evidence=evidence)

    def _missing(self, shape: Shape) -> Refusal | None:
        """Config maps and volume claims that do not exist."""
        constraints = shape.constraints
        present = self._snapshot.cluster_objects.config_maps
        absent = [
            name
            for name in constraints.config_maps
            if present is not None and f"{constraints.namespace}/{name}" not in present
        ]
        if absent:
            return Refusal(Reason.CONFIG_MAP_MISSING, subject=", ".join(absent))
        return self._volumes.unusable(constraints)


class _Following(_Filters):
    """Where some answer moves with what is placed."""

    def on_ledger_change(self, entries: Entries) -> None:
        self._dynamic.on_ledger_change(entries)

    def node_subsets(self, request: SubGroupRequest, within: Bools) -> Sequence[NodeSubset] | None:
        """Tasks that share a volume are tried wherever each finds its best node; if the first one
        thereby takes the volume where not all can follow, then in sets of nodes with room for all.
        """
        sets = self._dynamic.node_sets(request.tasks, within)
        return [NodeSubset(within), *map(NodeSubset, sets)] if sets else None
