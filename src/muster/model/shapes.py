"""Shape: what tasks with equal requests and equal constraints have in common.

Every question about nodes (does it fit, how good is it, why not) is asked for a shape, never for a
task. Shapes are interned by the tables: equal tasks have the same shape row.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from muster.model.constraint_terms import ContainerRequest
from muster.model.constraints import Constraints
from muster.model.gpu_request import Use, device_mib, shared_units
from muster.model.records import GpuKind, GpuRequest
from muster.numerics.arrays import Ints
from muster.numerics.axis import GPU, GPU_UNIT, QUEUE_COLUMNS, QUEUE_GPU, ResourceAxis


@dataclass(frozen=True, eq=False)
class Shape:
    """One class of equal tasks. `request` is int64[R]; a shared GPU is not in it."""

    row: int
    request: Ints
    gpu: GpuRequest
    constraints: Constraints
    is_reservation: bool = False
    nominated_node: str = ""
    alike: int = -1
    """The same number for shapes that ask for the same in other amounts; -1: not known."""

    @cached_property
    def columns(self) -> Ints:
        """The resource columns that are asked for."""
        return np.flatnonzero(self.request).astype(np.int64)

    @property
    def is_shared(self) -> bool:
        """Whether it asks for parts of GPUs."""
        return self.gpu.is_shared

    @cached_property
    def needs_gpu(self) -> bool:
        return self.gpu.kind is not GpuKind.NONE or bool(self.request[GPU] > 0)

    @cached_property
    def canonical(self) -> tuple[object, ...]:
        """What it asks for in an order that does not depend on rows."""
        return (self.request.tolist(), repr(self.gpu))

    def containers(self, axis: ResourceAxis) -> tuple[ContainerRequest, ...]:
        """Its containers; where nobody says which of them asks for what, the pod is one."""
        amounts = axis.amounts(self.request)
        return self.constraints.containers or (ContainerRequest(tuple(sorted(amounts.items()))),)

    def device_mib(self, gpu_memory_mib: int) -> int:
        """Memory taken of each shared device on a node whose GPUs have `gpu_memory_mib`."""
        return device_mib(self.gpu, gpu_memory_mib)

    def gpu_units(self, gpu_memory_mib: int, use: Use = Use.PLACED) -> float:
        """What it counts for in its queue's gpu column, by GPUs of such memory."""
        if self.is_shared:
            return shared_units(self.gpu, use, gpu_memory_mib)
        return int(self.request[GPU]) + (self.gpu.mig_slices + len(self.gpu.claimed)) * GPU_UNIT

    def queue_units(self, gpu_memory_mib: int, use: Use = Use.PLACED) -> Ints:
        """What it is charged to its queue: int64[queue resources]."""
        units: Ints = self.request[QUEUE_COLUMNS]
        units[QUEUE_GPU] = int(self.gpu_units(gpu_memory_mib, use))
        return units
