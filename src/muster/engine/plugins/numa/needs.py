"""What of a pod the kubelet's Topology Manager aligns to NUMA zones.

Guaranteed pods with everything that zones report; other pods only with devices. CPUs count per
container, and only whole ones: a container that asks for parts of a core gets no exclusive cores.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from muster.model.constraint_terms import ContainerKind, ContainerRequest
from muster.model.shapes import Shape
from muster.numerics.arrays import Ints
from muster.numerics.axis import CPU, ResourceAxis

_CORE = 1000


@dataclass(frozen=True, slots=True)
class Needs:
    """Vectors [R] to align: those that run together, one after another; and each of those alone."""

    together: tuple[Ints, ...]
    alone: tuple[Ints, ...] = ()

    @property
    def is_nothing(self) -> bool:
        return not any(need.any() for need in (*self.together, *self.alone))


def is_device(name: str, ignored: frozenset[str]) -> bool:
    """Whether the resource is a device that even pods without guarantees are aligned for."""
    is_plain = name in ("cpu", "memory", "pods") or name.startswith("hugepages-")
    return not is_plain and name not in ignored


def pod_needs(shape: Shape, axis: ResourceAxis, devices: Ints) -> Needs:
    """The pod as one: its request, with the CPUs that its containers may hold for themselves."""
    need = _counted(shape.request, shape, devices)
    need[CPU] = _exclusive_cpu(shape) if shape.constraints.is_guaranteed else 0
    return Needs((need,))


def container_needs(shape: Shape, axis: ResourceAxis, devices: Ints) -> Needs:
    """Each container by itself: those that stay share the zones, init containers find them free."""
    containers = shape.containers(axis)
    vectors = [(c.kind, _container(c, shape, axis, devices)) for c in containers]
    staying = [ContainerKind.SIDECAR, ContainerKind.APP]
    return Needs(
        tuple(v for wanted in staying for kind, v in vectors if kind is wanted),
        tuple(vector for kind, vector in vectors if kind is ContainerKind.INIT),
    )


def _counted(request: Ints, shape: Shape, devices: Ints) -> Ints:
    """What of a request is aligned: all of it, or devices only."""
    if shape.constraints.is_guaranteed:
        return request.copy()
    need = np.zeros_like(request)
    need[devices] = request[devices]
    return need


def _container(
    container: ContainerRequest, shape: Shape, axis: ResourceAxis, devices: Ints
) -> Ints:
    known = {name: amount for name, amount in container.amounts if name in axis.column}
    need = _counted(axis.vector(known), shape, devices)
    need[CPU] = _whole_cores(need[CPU])
    return need


def _exclusive_cpu(shape: Shape) -> int:
    """Whole cores of the containers at the pod's greatest moment."""
    staying = peak = 0
    containers: Sequence[ContainerRequest] = shape.constraints.containers
    if not containers:
        return _whole_cores(int(shape.request[CPU]))
    for container in containers:
        cores = _whole_cores(dict(container.amounts).get("cpu", 0))
        if container.kind is ContainerKind.INIT:
            peak = max(peak, cores)
        else:
            staying += cores
    return max(staying, peak)


def _whole_cores(cpu_milli: int) -> int:
    return int(cpu_milli) if cpu_milli % _CORE == 0 else 0
