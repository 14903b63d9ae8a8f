"""Checks whose answer stands for the whole cycle: a reason per node, once per shape.

A node is counted under the first that speaks against it. What no change of the node's state mends
comes first: kind of GPUs, GPU memory, selectors, worker labels, volumes, taints; then conditions.
"""

from collections.abc import Hashable, Iterator
from collections.abc import Set as AbstractSet
from functools import cached_property

import numpy as np

from muster.api.names import LABEL_CPU_WORKER, LABEL_GPU_WORKER
from muster.engine.hooks import View
from muster.model.node_index import NodeIndex
from muster.model.reasons import AMONG_OTHERS, Reason
from muster.model.records import GpuKind
from muster.model.shapes import Shape
from muster.model.snapshot import NodeColumns
from muster.model.status import IS_ACTIVE_USED
from muster.model.volumes import Volumes
from muster.numerics.arrays import Bools, Ints

_MOST_KEPT = 1024
"""Pods may bring constraints of their own, and nodes may stay as they are for days."""


class KeptReasons:
    """Reasons that follow from nodes and constraints alone, kept while the nodes are the same."""

    def __init__(self) -> None:
        self._index: NodeIndex | None = None
        self._found: dict[Hashable, Ints] = {}

    def of(self, index: NodeIndex) -> dict[Hashable, Ints]:
        """What is known of these nodes, to read and to add to."""
        if self._index is not index or len(self._found) > _MOST_KEPT:
            self._index, self._found = index, {}
        return self._found


class StaticFilters:
    """Reasons that hold for the whole cycle."""

    def __init__(
        self,
        view: View,
        volumes: Volumes,
        off: AbstractSet[Reason] = frozenset(),
        kept: KeptReasons | None = None,
    ) -> None:
        """`off`: reasons that do not count; `kept`: what was found with these in other cycles."""
        self._view, self._off = view, off
        self._nodes: NodeColumns = view.snapshot.nodes
        self._volumes = volumes
        self._known: dict[int, Ints] = {}
        self._alike: dict[Hashable, Ints] = {}
        """By all that the checks read of a shape: most differ only in how much they ask for."""
        self._kept = {} if kept is None else kept.of(self._nodes.index)
        """The same of those that depend on nothing but nodes."""

    def reasons(self, shape: Shape) -> Ints:
        """int64[N]: why the node may not run it; 0 where nothing speaks against it."""
        found = self._known.get(shape.row)
        if found is None:
            gpu = shape.gpu
            key = (shape.constraints, gpu.kind, gpu.memory_mib, gpu.maker, shape.needs_gpu)
            # Volumes come and go, and so do pods that hold MIG instances.
            is_lasting = not shape.constraints.volume_claims and gpu.kind is not GpuKind.MIG
            known = self._kept if is_lasting else self._alike
            found = known.get(key)
            if found is None:
                found = known[key] = self._first_reasons(shape)
            self._known[shape.row] = found
        return found

    def _first_reasons(self, shape: Shape) -> Ints:
        found = np.zeros(len(self._nodes), np.int64)
        for reason, allowed in self._checks(shape):
            if reason in self._off:
                continue
            found[(found != 0) & ~allowed] |= AMONG_OTHERS
            found[(found == 0) & ~allowed] = reason
        return found

    def _checks(self, shape: Shape) -> Iterator[tuple[Reason, Bools]]:
        index, constraints = self._nodes.index, shape.constraints
        if shape.needs_gpu:
            yield Reason.GPU_KIND, self._right_gpus(shape)
        if shape.gpu.kind is GpuKind.MEMORY:
            yield Reason.GPU_MEMORY_UNKNOWN, self._nodes.gpu_memory_known
            yield Reason.GPU_TOO_SMALL, self._nodes.gpu_memory_mib >= shape.gpu.memory_mib
        if constraints.node_labels or constraints.node_affinity is not None:
            yield Reason.NODE_SELECTOR, index.selected(constraints)
        if self._view.settings.restrict_node_scheduling:
            label = LABEL_GPU_WORKER if shape.needs_gpu else LABEL_CPU_WORKER
            yield Reason.WORKER_LABEL, index.label(label).rows_present()
        if constraints.volume_claims:
            yield Reason.VOLUME, self._volumes.reachable(constraints)
        # Closed nodes have taints that say so: that is one reason, not two.
        yield Reason.TAINT, index.tolerated(constraints.tolerations) | ~self._open | ~self._ready
        yield Reason.UNSCHEDULABLE_NODE, self._open
        yield Reason.NOT_READY_NODE, self._ready

    def _right_gpus(self, shape: Shape) -> Bools:
        """MIG, shared and whole GPUs each want nodes of their kind and maker. Claims choose
        devices by themselves, and so does a resource name that a device class stands for.
        """
        of_kind = self._of_right_kind(shape)
        if shape.gpu.kind is GpuKind.CLAIM:
            return of_kind
        is_theirs = self._nodes.index.where("gpu_maker", shape.gpu.maker)
        return of_kind & (is_theirs | self._nodes.index.where("has_classed_gpus"))

    def _of_right_kind(self, shape: Shape) -> Bools:
        kind = shape.gpu.kind
        if kind is GpuKind.LEGACY_MIG:
            return np.zeros(len(self._nodes), np.bool_)
        if kind is GpuKind.MIG:
            return self._is_mig & ~self._is_single & ~self._has_legacy_mig
        if shape.is_shared:
            return ~(self._is_single | self._is_mixed | self._has_claimable)
        return ~self._is_mixed

    @property
    def _open(self) -> Bools:
        return self._nodes.index.where("is_unschedulable", False)

    @property
    def _ready(self) -> Bools:
        return self._nodes.index.where("is_ready")

    @property
    def _is_mig(self) -> Bools:
        return self._nodes.index.where("is_mig")

    @property
    def _is_single(self) -> Bools:
        """MIG nodes whose partitions are all alike and are asked for as whole GPUs."""
        return self._is_mig & self._nodes.index.where("mig_strategy", "single")

    @property
    def _is_mixed(self) -> Bools:
        """MIG nodes whose partitions are asked for by profile."""
        return self._is_mig & self._nodes.index.where("mig_strategy", "mixed")

    @property
    def _has_claimable(self) -> Bools:
        return ~self._nodes.index.where("dra_gpus", 0)

    @cached_property
    def _has_legacy_mig(self) -> Bools:
        """Nodes with a pod that asked for MIG by annotation: nobody knows what it holds."""
        snapshot = self._view.snapshot
        legacy = _column(s.gpu.kind is GpuKind.LEGACY_MIG for s in snapshot.shapes)
        found = np.zeros(len(self._nodes), np.bool_)
        if legacy.any():
            tasks = snapshot.tasks
            there = tasks.live & (tasks.node >= 0) & IS_ACTIVE_USED[tasks.status]
            found[tasks.node[there & legacy[tasks.shape]]] = True
        return found


def _column(values: Iterator[bool]) -> Bools:
    return np.fromiter(values, np.bool_)
