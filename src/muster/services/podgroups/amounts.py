"""What one pod asks for and holds, as its group's status counts it.

Containers' requests, and the parts of a GPU that annotations and claims ask for. Terminal pods ask
for nothing; a pod that waits for its node asks, and holds nothing yet.
"""

from collections.abc import Callable, Iterable

from muster.api import names
from muster.api.core import Node, Pod, ResourceList
from muster.api.devices import ResourceClaim
from muster.api.quantity import Quantity, from_milli, from_value
from muster.model.gpu_request import (
    GPU_RESOURCES,
    Use,
    claimed_by_class,
    gpu_memory_mib,
    shared_request,
    shared_units,
    written_fraction,
)
from muster.model.records import GpuKind, GpuRequest

GPU_MEMORY = names.RESOURCE_GPU_MEMORY
_ALIVE = ("Pending", "Running")

ClaimOf = Callable[[str, str], ResourceClaim | None]
"""Namespace and name -> the claim, None when there is none."""
NodeOf = Callable[[str], Node | None]


def requested(pod: Pod, claim_of: ClaimOf) -> ResourceList:
    """What the pod wants, whether it has it or not."""
    if pod.status.phase not in _ALIVE:
        return {}
    return total([_containers(pod), _shared_gpu_request(pod), _claimed(pod, claim_of)])


def allocated(pod: Pod, node_of: NodeOf, claim_of: ClaimOf) -> ResourceList:
    """What the pod holds."""
    if not holds_node(pod):
        return {}
    return total([_containers(pod), _shared_gpu_allocation(pod, node_of), _claimed(pod, claim_of)])


def holds_node(pod: Pod) -> bool:
    if pod.status.phase == "Running":
        return True
    scheduled = pod.status.condition(names.CONDITION_POD_SCHEDULED)
    return pod.status.phase == "Pending" and scheduled is not None and scheduled.status == "True"


def is_waiting(pod: Pod) -> bool:
    return pod.status.phase in ("", "Pending") and not holds_node(pod)


def total(many: Iterable[ResourceList]) -> dict[str, Quantity]:
    """The sum, resource by resource; nothing of a resource is left out."""
    found: dict[str, Quantity] = {}
    for amounts in many:
        for name, amount in amounts.items():
            found[name] = found[name] + amount if name in found else amount
    return {name: amount for name, amount in sorted(found.items()) if amount}


def _containers(pod: Pod) -> ResourceList:
    asked = total(container.resources.requests for container in pod.spec.containers)
    if not shared_request(pod.metadata.annotations).is_shared:
        return asked
    # A container names a whole GPU too, so that the device plugin lets it near one.
    return {name: amount for name, amount in asked.items() if name not in GPU_RESOURCES}


def _shared_gpu_request(pod: Pod) -> ResourceList:
    gpu = shared_request(pod.metadata.annotations)
    if gpu.kind is GpuKind.MEMORY:
        return {GPU_MEMORY: from_value(gpu.memory_mib * gpu.devices)}
    return _fractions(pod, gpu) if gpu.kind is GpuKind.FRACTION else {}


def _shared_gpu_allocation(pod: Pod, node_of: NodeOf) -> ResourceList:
    if pod.metadata.annotations.get(names.ANNOTATION_RECEIVED_RESOURCE_TYPE) != "Fraction":
        return {}
    gpu = shared_request(pod.metadata.annotations)
    if gpu.kind is GpuKind.FRACTION:
        return _fractions(pod, gpu)
    node = node_of(pod.spec.node_name)
    memory_mib = gpu_memory_mib(node.metadata.labels) if node else 0
    held = int(shared_units(gpu, Use.STATUS, memory_mib))
    return {names.RESOURCE_NVIDIA_GPU: from_milli(held)} if held else {}


def _fractions(pod: Pod, gpu: GpuRequest) -> ResourceList:
    """As they are written: people compare them with that."""
    written = written_fraction(pod.metadata.annotations[names.ANNOTATION_GPU_FRACTION])
    return {names.RESOURCE_NVIDIA_GPU: Quantity(f"{written * gpu.devices:f}")}


def _claimed(pod: Pod, claim_of: ClaimOf) -> ResourceList:
    """GPUs of the pod's claims, under their device class; a missing claim counts nothing."""
    found: dict[str, Quantity] = {}
    for name in pod.claim_names.values():
        claim = claim_of(pod.metadata.namespace, name)
        by_class = claimed_by_class(claim) if claim is not None else {}
        found = total([found, {one: from_value(count) for one, count in by_class.items()}])
    return found
