"""KAI's `podaffinity`: nodes that serve preferred affinity between pods score higher.

The raw sum of weights counts a million each, so that it outweighs everything but a nomination. What
affinity forbids is the business of `predicates`.
"""

import numpy as np

from muster.engine.config.reader import Reader
from muster.engine.hooks import Dependence, SessionPlugin, View
from muster.model.affinity import Affinities
from muster.model.ledger import Entries, EntryKind
from muster.model.peers import Presence
from muster.model.shapes import Shape
from muster.model.status import IS_ACTIVE_USED
from muster.numerics.arrays import Floats, Rows

_WEIGHT = 1_000_000.0


class PodAffinity:
    """KAI's `podaffinity`."""

    name = "podaffinity"

    def __init__(self, arguments: Reader) -> None:
        arguments.allow_only(())

    def open(self, view: View) -> SessionPlugin:
        shapes = view.snapshot.shapes
        return _Wishes(view) if any(s.constraints.pod_affinity for s in shapes) else SessionPlugin()


class _Wishes(SessionPlugin):
    def __init__(self, view: View) -> None:
        snapshot = view.snapshot
        self._shape_of_task = snapshot.tasks.shape
        there = snapshot.tasks.live & IS_ACTIVE_USED[view.ledger.status]
        node = np.where(there, view.ledger.node, -1)
        shapes = [shape.constraints for shape in snapshot.shapes]
        self._presence = Presence(snapshot.tasks.shape, node, len(snapshot.nodes), len(shapes))
        around = snapshot.cluster_objects.namespaces
        self._affinities = Affinities(snapshot.nodes.index, shapes, self._presence, around)

    def dependence(self, shape: Shape) -> Dependence:
        is_scored = self._affinities.is_scored(shape.constraints)
        return Dependence.CLUSTER if is_scored else Dependence.IRRELEVANT

    def score(self, shape: Shape, rows: Rows) -> Floats:
        wishes = self._affinities.score(shape.constraints)[rows].astype(np.float64)
        return wishes * _WEIGHT

    def on_ledger_change(self, entries: Entries) -> None:
        shapes = self._shape_of_task[entries.task]
        for shape, node, kind in zip(
            shapes.tolist(), entries.node.tolist(), entries.kind.tolist(), strict=True
        ):
            if kind in (EntryKind.ALLOCATE, EntryKind.PIPELINE):
                self._presence.post(shape, node, entries.sign)
