"""KAI's `podaffinity`: nodes that serve preferred affinity between pods score higher.

The raw sum of weights counts a million each, so that it outweighs everything but a nomination. What
affinity forbids is the business of `predicates`.
"""

import numpy as np

from muster.engine.hooks import Dependence, SessionPlugin, View, WithoutArguments
from muster.model.affinity import Affinities
from muster.model.ledger import Entries, EntryKind
from muster.model.presence import postings, presence
from muster.model.shapes import Shape
from muster.model.status import IS_ACTIVE_USED
from muster.numerics.arrays import Floats, Rows

_WEIGHT = 1_000_000.0


class PodAffinity(WithoutArguments):
    """KAI's `podaffinity`."""

    name = "podaffinity"

    def open(self, view: View) -> SessionPlugin:
        asks = any(constraints.pod_affinity for constraints in view.snapshot.constraints)
        return _Wishes(view) if asks else SessionPlugin()


class _Wishes(SessionPlugin):
    reads_amounts = False

    def __init__(self, view: View) -> None:
        snapshot = view.snapshot
        self._shape_of_task = snapshot.tasks.shape
        shapes = [shape.constraints for shape in snapshot.shapes]
        self._presence = presence(view.ledger, IS_ACTIVE_USED)
        around = snapshot.cluster_objects.namespaces
        self._affinities = Affinities(snapshot.nodes.index, shapes, self._presence, around)

    def dependence(self, shape: Shape) -> Dependence:
        is_scored = self._affinities.is_scored(shape.constraints)
        return Dependence.CLUSTER if is_scored else Dependence.IRRELEVANT

    def score(self, shape: Shape, rows: Rows) -> Floats:
        wishes = self._affinities.score(shape.constraints)[rows].astype(np.float64)
        return wishes * _WEIGHT

    def on_ledger_change(self, entries: Entries) -> None:
        for task, node, kind in postings(entries):
            if kind in (EntryKind.ALLOCATE, EntryKind.PIPELINE):
                self._presence.post(int(self._shape_of_task[task]), node, entries.sign)
