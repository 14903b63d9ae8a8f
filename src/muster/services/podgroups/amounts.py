"""What one pod asks for and holds, as its group's status counts it.

Containers' requests, and the parts of a GPU that annotations and claims ask for. Terminal pods ask
for nothing; a pod that waits for its node asks, and holds nothing yet.
"""

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal, InvalidOperation

from muster.api import names
from muster.api.core import Node, Pod, ResourceList
from muster.api.devices import ResourceClaim
from muster.api.quantity import Quantity, from_value
from muster.base.parse_int import parse_int

GPU_MEMORY = names.RESOURCE_GPU_MEMORY
_ALIVE = ("Pending", "Running")
_LEAST_PART = Decimal("1e-9")
"""What a quantity can hold."""

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


def total(many: Iterable[ResourceList]) -> dict[str, Quantity]:
    """The sum, resource by resource; nothing of a resource is left out."""
    found: dict[str, Quantity] = {}
    for amounts in many:
        for name, amount in amounts.items():
            found[name] = found[name] + amount if name in found else amount
    return {name: amount for name, amount in sorted(found.items()) if amount}


def _containers(pod: Pod) -> ResourceList:
    return total(container.resources.requests for container in pod.spec.containers)


def _shared_gpu_request(pod: Pod) -> ResourceList:
    annotations = pod.metadata.annotations
    devices = _parse_count(annotations.get(names.ANNOTATION_GPU_FRACTION_DEVICES, "1"))
    fraction = _fraction(annotations.get(names.ANNOTATION_GPU_FRACTION, ""))
    memory_mib = _parse_count(annotations.get(names.ANNOTATION_GPU_MEMORY, ""))
    wish: dict[str, Quantity] = {}
    if fraction:
        wish[names.RESOURCE_NVIDIA_GPU] = Quantity(str(fraction * devices))
    if memory_mib:
        wish[GPU_MEMORY] = from_value(memory_mib * devices)
    return wish


def _shared_gpu_allocation(pod: Pod, node_of: NodeOf) -> ResourceList:
    marks = pod.metadata.annotations
    if marks.get(names.ANNOTATION_RECEIVED_RESOURCE_TYPE) != "Fraction":
        return {}
    devices = _parse_count(marks.get(names.ANNOTATION_GPU_FRACTION_DEVICES, "1"))
    part = _fraction(marks.get(names.ANNOTATION_GPU_FRACTION, ""))
    memory_mib = _parse_count(marks.get(names.ANNOTATION_GPU_MEMORY, ""))
    if not part and memory_mib:
        device_mib = _gpu_memory_mib(node_of(pod.spec.node_name))
        part = Decimal(memory_mib) / device_mib if device_mib else Decimal(0)
    held = (part * devices).quantize(Decimal("0.001"))
    return {names.RESOURCE_NVIDIA_GPU: Quantity(str(held))} if held else {}


def _gpu_memory_mib(node: Node | None) -> int:
    labels: Mapping[str, str] = node.metadata.labels if node else {}
    return _parse_count(labels.get(names.LABEL_GPU_MEMORY, ""))


def _claimed(pod: Pod, claim_of: ClaimOf) -> ResourceList:
    """GPUs of the pod's claims, under their device class; a missing claim counts nothing."""
    named = {one.name: one.resource_claim_name for one in pod.status.resource_claim_statuses}
    found: dict[str, Quantity] = {}
    for use in pod.spec.resource_claims:
        name = use.resource_claim_name or named.get(use.name)
        claim = claim_of(pod.metadata.namespace, name) if name else None
        if claim is None or _is_synthetic(claim):
            continue
        for request in claim.spec.devices.requests:
            exact = request.exactly
            if exact is None or "gpu" not in exact.device_class_name.lower():
                continue
            count = 1 if exact.allocation_mode == "All" else max(exact.count, 1)
            found = total([found, {exact.device_class_name: from_value(count)}])
    return found


def _is_synthetic(claim: ResourceClaim) -> bool:
    """Stands for GPUs that the pod's containers ask for already."""
    return claim.metadata.annotations.get(names.ANNOTATION_EXTENDED_RESOURCE_CLAIM) == "true"


def _parse_count(text: str) -> int:
    return parse_int(text) or 0


def _fraction(text: str) -> Decimal:
    """0 for what is no part of a GPU, however large or small it is written."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        return Decimal(0)
    return value if value.is_finite() and _LEAST_PART <= value <= 1 else Decimal(0)
