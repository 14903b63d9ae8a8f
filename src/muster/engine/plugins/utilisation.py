"""Nodes where less is really used are better: a plugin of our own, `utilization`.

What a pod uses is what was measured of it lately; of a pod that was not measured it is what the pod
asks for, so that a node of which nothing is known is not taken for an empty one.
"""

import numpy as np

from muster.engine.config.reader import Reader
from muster.engine.hooks import Dependence, SessionPlugin, View
from muster.model.shapes import Shape
from muster.model.snapshot import ClusterSnapshot
from muster.model.status import IS_ACTIVE_USED
from muster.numerics.arrays import Floats, Rows
from muster.numerics.axis import CPU, MEMORY

_MILLI = 1000.0


class UtilisationScore:
    """`weight` is the score of a node that is not used at all (10)."""

    name = "utilization"

    def __init__(self, arguments: Reader) -> None:
        arguments.allow_only(("weight",))
        self._weight = arguments.key("weight").number(10.0)
        if self._weight < 0:
            raise arguments.key("weight").wrong("must not be negative")

    def open(self, view: View) -> SessionPlugin:
        return _PrefersUnused(view.snapshot, self._weight)


class _PrefersUnused(SessionPlugin):
    reads_amounts = False

    def __init__(self, snapshot: ClusterSnapshot, weight: float) -> None:
        self._is_known = bool(snapshot.cluster_objects.utilisation)
        self._score = weight * (1.0 - used_part(snapshot)) if self._is_known else None

    def dependence(self, shape: Shape) -> Dependence:
        return Dependence.STATIC if self._is_known else Dependence.IRRELEVANT

    def score(self, shape: Shape, rows: Rows) -> Floats:
        assert self._score is not None, "it is not asked where nothing is known"
        found: Floats = self._score[rows]
        return found


def used_part(snapshot: ClusterSnapshot) -> Floats:
    """Of each node, the part of its CPU or of its memory that is in use, whichever is more:
    float64[N], 0 to 1."""
    nodes, tasks = snapshot.nodes, snapshot.tasks
    measured = snapshot.cluster_objects.utilisation
    used = np.zeros((len(nodes), 2))
    there = nodes.allocatable[:, [CPU, MEMORY]].astype(np.float64)
    active = tasks.live & (tasks.node >= 0) & IS_ACTIVE_USED[tasks.status]
    for row in np.flatnonzero(active).tolist():
        record = tasks.records[row]
        asked = snapshot.shapes[int(tasks.shape[row])].request
        found = measured.get(f"{record.namespace}/{record.name}")
        cores = None if found is None else found.cpu_cores
        bytes_ = None if found is None else found.memory_bytes
        node = int(tasks.node[row])
        used[node, 0] += asked[CPU] if cores is None else cores * _MILLI
        used[node, 1] += asked[MEMORY] if bytes_ is None else bytes_
    parts = np.divide(used, there, out=np.ones_like(used), where=there > 0)
    return np.asarray(np.clip(parts, 0.0, 1.0).max(axis=1), dtype=np.float64)
