"""What a pod asks for: amounts of every resource, and its GPUs in one of the ways to ask for them.

Amounts are in the axis's units. A pod may ask for whole GPUs by a resource, for parts of GPUs by
annotations, for MIG profiles by their resources, for devices by claims; `GpuRequest` says which.
"""

import re
from collections.abc import Iterable, Mapping

import msgspec

from muster.api import core as api
from muster.api.core import ResourceList
from muster.api.devices import ResourceClaim
from muster.api.names import (
    ANNOTATION_EXTENDED_RESOURCE_CLAIM,
    ANNOTATION_GPU_FRACTION,
    ANNOTATION_GPU_FRACTION_DEVICES,
    ANNOTATION_GPU_MEMORY,
    RESOURCE_AMD_GPU,
    RESOURCE_MIG_PREFIX,
    RESOURCE_NVIDIA_GPU,
)
from muster.base.parse_int import parse_int
from muster.model.constraints import ContainerKind, ContainerRequest
from muster.model.records import NO_GPU, GpuKind, GpuRequest
from muster.numerics.axis import GPU_UNIT

Amounts = Mapping[str, int]
"""Resource name to integer amount."""

_GPU_RESOURCES = (RESOURCE_NVIDIA_GPU, RESOURCE_AMD_GPU)
_MIG_PROFILE = re.compile(re.escape(RESOURCE_MIG_PREFIX) + r"(\d+)g\.(\d+)gb")


def request_of(
    pod: api.Pod, claims: Mapping[str, ResourceClaim] | None = None
) -> tuple[dict[str, int], GpuRequest]:
    """Amounts and GPUs of a pod; `claims` are its resource claims by entry, as far as they
    exist.
    """
    amounts = pod_amounts(
        container_requests(pod.spec),
        resource_amounts(pod.spec.overhead),
        resource_amounts(pod.spec.resources.requests if pod.spec.resources else {}),
    )
    found = claims or {}
    shared = {c.name for c in pod.spec.resource_claims if c.resource_claim_name is not None}
    shared |= {entry for entry, claim in found.items() if claim.pod_group is not None}
    claimed = sum(claimed_gpus(claim) for entry, claim in found.items() if entry not in shared)
    names = tuple(
        name
        for entry, claim in sorted(found.items())
        if entry in shared
        for name in shared_gpus(claim)
    )
    gpu = gpu_request(amounts, pod.metadata.annotations, claimed)
    if claimed:
        amounts["gpu"] = amounts.get("gpu", 0) + claimed * GPU_UNIT
    if names and not gpu.is_shared:
        kind = GpuKind.CLAIM if gpu.kind is GpuKind.NONE else gpu.kind
        devices = gpu.devices + len(names)
        gpu = msgspec.structs.replace(gpu, kind=kind, devices=devices, claimed=names)
    if gpu.is_shared:
        # The pod names a whole GPU too, so that the device plugin lets it near one.
        amounts.pop("gpu", None)
    return amounts, gpu


def container_requests(spec: api.PodSpec) -> tuple[ContainerRequest, ...]:
    """Every container's requests, init containers first."""
    init = [
        (c, ContainerKind.SIDECAR if c.is_sidecar else ContainerKind.INIT)
        for c in spec.init_containers
    ]
    return tuple(
        ContainerRequest(
            tuple(sorted(resource_amounts(c.resources.requests).items())), kind, c.name
        )
        for c, kind in [*init, *((c, ContainerKind.APP) for c in spec.containers)]
    )


def resource_amounts(resources: ResourceList) -> dict[str, int]:
    """A resource list in the axis's names and units. GPUs of all makers are one resource."""
    amounts: dict[str, int] = {}
    for name, quantity in resources.items():
        if name in _GPU_RESOURCES:
            amounts["gpu"] = amounts.get("gpu", 0) + quantity.value * GPU_UNIT
        else:
            amounts[name] = quantity.milli if name == "cpu" else quantity.value
    return amounts


def pod_amounts(
    containers: Iterable[ContainerRequest],
    overhead: Amounts | None = None,
    pod_level: Amounts | None = None,
) -> dict[str, int]:
    """What a pod occupies: its long-lived containers, or a greater moment of its start; overhead;
    one slot.

    Requests at the level of the pod, where given, replace what the containers add up to.
    """
    running: dict[str, int] = {}
    peak: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    for container in containers:
        amounts = dict(container.amounts)
        if container.kind is ContainerKind.INIT:
            _raise_to(peak, _sum(amounts, sidecars))
            continue
        if container.kind is ContainerKind.SIDECAR:
            _add(sidecars, amounts)
        _add(running, amounts)
    _raise_to(running, peak)
    for name, amount in (pod_level or {}).items():
        if name in ("cpu", "memory") or name.startswith("hugepages-"):
            running[name] = amount
    _add(running, overhead or {})
    running["pods"] = 1
    return {name: amount for name, amount in running.items() if amount}


def gpu_request(amounts: Amounts, annotations: Mapping[str, str], claimed: int = 0) -> GpuRequest:
    """The GPU request of a pod, from its amounts and annotations.

    A malformed annotation is as good as none: admission has refused it, or nobody meant it.
    """
    if any(name.startswith(RESOURCE_MIG_PREFIX) for name in annotations):
        return GpuRequest(GpuKind.LEGACY_MIG)
    devices = _positive(annotations.get(ANNOTATION_GPU_FRACTION_DEVICES)) or 1
    if memory := _positive(annotations.get(ANNOTATION_GPU_MEMORY)):
        return GpuRequest(GpuKind.MEMORY, devices, memory_mib=memory)
    if portion := portion_units(annotations.get(ANNOTATION_GPU_FRACTION, "")):
        return GpuRequest(GpuKind.FRACTION, devices, portion=portion)
    mig = {n: amount for n, amount in amounts.items() if n.startswith(RESOURCE_MIG_PREFIX)}
    if any(mig.values()):
        slices = sum(mig_slices(name) * amount for name, amount in mig.items())
        return GpuRequest(GpuKind.MIG, mig_slices=slices)
    whole = amounts.get("gpu", 0) // GPU_UNIT
    if whole > 0:
        return GpuRequest(GpuKind.WHOLE, whole + claimed)
    return GpuRequest(GpuKind.CLAIM, claimed) if claimed else NO_GPU


def claimed_gpus(claim: ResourceClaim) -> int:
    """GPUs that a claim asks for, by the names of its device classes.

    A claim that stands for an extended resource counts nothing: the pod's containers ask for the
    same.
    """
    if claim.metadata.annotations.get(ANNOTATION_EXTENDED_RESOURCE_CLAIM) == "true":
        return 0
    return sum(
        max(1, exact.count) if exact.allocation_mode != "All" else 1
        for request in claim.spec.devices.requests
        if (exact := request.exactly) is not None and is_gpu_class(exact.device_class_name)
    )


def shared_gpus(claim: ResourceClaim) -> tuple[str, ...]:
    """A name for each GPU of a claim that several pods may use."""
    key = f"{claim.metadata.namespace}/{claim.metadata.name}"
    return tuple(f"claim {key} {number}" for number in range(claimed_gpus(claim)))


def is_gpu_class(name: str) -> bool:
    """Whether devices of the class are counted as GPUs: its name says so."""
    return "gpu" in name.lower()


def mig_slices(resource: str) -> int:
    """The g-number of a MIG profile (`mig-3g.20gb` is 3); 0 for names of another form."""
    found = _MIG_PROFILE.fullmatch(resource)
    return int(found.group(1)) if found else 0


def portion_units(text: str) -> int:
    """A decimal in (0, 1] in GPU units; 0 for anything else. Digits beyond the unit are dropped."""
    whole, _, digits = text.partition(".")
    units = parse_int(whole or "0")
    if units is None or not (whole + digits).isascii() or not (whole + digits).isdigit():
        return 0
    value = units * GPU_UNIT + int((digits[:3] or "0").ljust(3, "0"))
    return value if 0 < value <= GPU_UNIT else 0


def _positive(text: str | None) -> int:
    return parse_int(text or "") or 0


def _sum(first: Amounts, second: Amounts) -> dict[str, int]:
    total = dict(first)
    _add(total, second)
    return total


def _add(total: dict[str, int], amounts: Amounts) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: dict[str, int], amounts: Amounts) -> None:
    for name, amount in amounts.items():
        total[name] = max(total.get(name, 0), amount)
