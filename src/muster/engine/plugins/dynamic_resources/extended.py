"""Extended resources that a device class stands for (KEP-5004).

On a node where such a resource comes from slices, a pod that asks for it by name gets a claim of
its own, which exists only in the bind request: one request per long-lived container and resource,
in the order of containers; what an ordinary init container needs beyond the containers after it is
added once, for the greediest of them.
"""

from collections.abc import Iterator

import numpy as np

from muster.api.bindrequest import ContainerMapping
from muster.api.devices import DeviceClass
from muster.api.names import RESOURCE_NVIDIA_GPU
from muster.model.claim_needs import ClaimNeed, DeviceNeed
from muster.model.constraint_terms import ContainerKind, ContainerRequest
from muster.model.extended import class_need, classes_by_resource
from muster.model.shapes import Shape
from muster.model.snapshot import ClusterSnapshot
from muster.numerics.arrays import Bools
from muster.numerics.axis import GPU_UNIT


class ExtendedResources:
    """Which resources classes stand for, and what pods need of them."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._axis = snapshot.axis
        self._records = snapshot.nodes.records
        self._classes = classes_by_resource(snapshot.cluster_objects.device_classes)

    def needs(self, shape: Shape) -> tuple[tuple[ClaimNeed, ...], Bools]:
        """What the pod needs of devices by name, and the nodes on which it needs them so.

        One claim need with a request per container, or none.
        """
        names = self._names(shape)
        nowhere = np.zeros(len(self._records), np.bool_)
        if not names:
            return (), nowhere
        nodes = np.fromiter(
            (not names.keys().isdisjoint(record.claimable) for record in self._records), np.bool_
        )
        asks = tuple((ask,) for ask, _ in self.asks(shape))
        return ((ClaimNeed(asks),), nodes) if asks and nodes.any() else ((), nowhere)

    def asks(self, shape: Shape) -> Iterator[tuple[DeviceNeed, ContainerMapping | None]]:
        """Requests of the claim, each with the container that gets its devices."""
        for name, found in self._names(shape).items():
            yield from _requests(name, found, shape.containers(self._axis))

    def _names(self, shape: Shape) -> dict[str, DeviceClass]:
        asked = self._axis.amounts(shape.request)
        if shape.constraints.claims:
            # GPUs of claims are in the same column; who names claims gets GPUs by them.
            asked.pop("gpu", None)
        return {name: found for name, found in sorted(self._classes.items()) if name in asked}


def _requests(
    name: str, found: DeviceClass, containers: tuple[ContainerRequest, ...]
) -> Iterator[tuple[DeviceNeed, ContainerMapping | None]]:
    amounts = [_devices(container, name) for container in containers]
    extra = 0
    for at, container in enumerate(containers):
        if container.kind is ContainerKind.INIT:
            later = zip(containers[at + 1 :], amounts[at + 1 :], strict=True)
            reused = sum(n for c, n in later if c.kind is not ContainerKind.INIT)
            extra = max(extra, amounts[at] - reused)
        elif amounts[at]:
            asked = _as_asked(container, name, found)
            request = f"container-{at}-request-{_rank(container, name, asked)}"
            mapping = ContainerMapping(
                container_name=container.name, request_name=request, resource_name=asked
            )
            yield class_need(request, found, amounts[at]), mapping
    if extra > 0:
        at = next(i for i, c in enumerate(containers) if c.kind is ContainerKind.INIT)
        yield class_need(f"container-{at}-request-0", found, extra), None


def _devices(container: ContainerRequest, name: str) -> int:
    amount = dict(container.amounts).get(name, 0)
    return amount // GPU_UNIT if name == "gpu" else amount


def _as_asked(container: ContainerRequest, name: str, found: DeviceClass) -> str:
    """The resource's name in the pod: that of a column is ours alone."""
    if name != "gpu":
        return name
    return container.gpu_resource or found.spec.extended_resource_name or RESOURCE_NVIDIA_GPU


def _rank(container: ContainerRequest, name: str, asked: str) -> int:
    """Which of the container's resources it is, by name."""
    return sum(resource < asked for resource, _ in container.amounts if resource != name)
