"""Which nodes are better, resources and constraints apart: three of KAI's plugins.

`nodeplacement` packs, spreads, or leaves what others can use (that is ours), `resourcetype` keeps
work without GPUs off GPU nodes, `nodeavailability` prefers nodes where a task can start at once.
"""

import numpy as np

from muster.engine.config.reader import Reader
from muster.engine.hooks import (
    LEAST_FRAGMENTATION,
    Dependence,
    Packing,
    SessionPlugin,
    View,
    WithoutArguments,
)
from muster.model.shapes import Shape
from muster.numerics.arrays import Floats, Rows
from muster.numerics.axis import GPU

_RESOURCE_TYPE = 10.0
_AVAILABILITY = 1000.0
_STRATEGIES = ("binpack", "spread", LEAST_FRAGMENTATION)


class NodePlacement:
    """KAI's `nodeplacement`: `gpu` and `cpu` say how each kind of work is placed."""

    name = "nodeplacement"

    def __init__(self, arguments: Reader) -> None:
        arguments.allow_only(("gpu", "cpu"))
        self._packing = Packing(
            gpu=arguments.key("gpu").choice(_STRATEGIES, "binpack"),
            cpu=arguments.key("cpu").choice(_STRATEGIES, "binpack"),
        )

    def open(self, view: View) -> SessionPlugin:
        return _Packs(self._packing)


class _Packs(SessionPlugin):
    def __init__(self, packing: Packing) -> None:
        self._packing = packing

    def packing(self) -> Packing:
        return self._packing


class NodeAvailability(WithoutArguments):
    """KAI's `nodeavailability`."""

    name = "nodeavailability"

    def open(self, view: View) -> SessionPlugin:
        return _PrefersNow()


class _PrefersNow(SessionPlugin):
    def availability_score(self) -> float:
        return _AVAILABILITY


class ResourceType(WithoutArguments):
    """KAI's `resourcetype`."""

    name = "resourcetype"

    def open(self, view: View) -> SessionPlugin:
        return _KeepsToItsKind(view)


class _KeepsToItsKind(SessionPlugin):
    reads_amounts = False

    def __init__(self, view: View) -> None:
        nodes = view.snapshot.nodes
        self._has_no_gpus = (nodes.allocatable[:, GPU] <= 0) & ~nodes.index.where("is_mig")

    def dependence(self, shape: Shape) -> Dependence:
        is_needed = not shape.needs_gpu and bool(self._has_no_gpus.any())
        return Dependence.STATIC if is_needed else Dependence.IRRELEVANT

    def score(self, shape: Shape, rows: Rows) -> Floats:
        return np.where(self._has_no_gpus[rows], _RESOURCE_TYPE, 0.0)
