"""What the nodes have, in the units that queues are charged in. Pure."""

from collections.abc import Iterable, Sequence

import numpy as np

from muster.api.core import Node
from muster.api.devices import ResourceSlice
from muster.model.build import node_record
from muster.model.gpu_request import mig_slices
from muster.numerics.arrays import Floats
from muster.numerics.axis import GPU_UNIT, QUEUE_GPU, QUEUE_RESOURCES

_WHOLE = {"cpu": 1000.0, "gpu": float(GPU_UNIT)}
"""Units of the axis in a core and in a GPU."""


def node_capacity(node: Node, slices: Sequence[ResourceSlice] = ()) -> Floats:
    """Float64[queue resources]: cores, bytes, GPUs; MIG devices count by their slices, devices of
    resource slices as GPUs."""
    amounts = node_record(node, slices).allocatable
    found = np.array([amounts.get(name, 0) / _WHOLE.get(name, 1.0) for name in QUEUE_RESOURCES])
    found[QUEUE_GPU] += sum(mig_slices(name) * amount for name, amount in amounts.items())
    return found


def total(capacities: Iterable[Floats]) -> Floats:
    return np.asarray(sum(capacities, start=np.zeros(len(QUEUE_RESOURCES))), dtype=np.float64)
