"""What a pod asks for: amounts of every resource, and its GPUs (see `gpu_request`).

Amounts are in the axis's units and within `largest_amount`, whatever is written; `request_problem`
says which number is beyond it.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import TypeVar

import msgspec

from muster.api import core as api
from muster.api.bounds import RESOURCES_PER_POD_MAX, SHARED_GPUS_MAX
from muster.api.core import ResourceList
from muster.api.devices import ResourceClaim
from muster.api.names import RESOURCE_NVIDIA_GPU
from muster.api.quantity import Quantity, from_value
from muster.model.constraint_terms import ContainerKind, ContainerRequest
from muster.model.gpu_request import (
    GPU_RESOURCES,
    OTHER_GPU_RESOURCES,
    claimed_gpus,
    gpu_problem,
    gpu_request,
    shared_gpus,
)
from muster.model.records import GpuKind, GpuRequest
from muster.numerics.axis import FIXED, GPU_UNIT, LARGEST_GPU_AMOUNT, largest_amount

Amounts = Mapping[str, int]
"""Resource name to integer amount."""
AmountT = TypeVar("AmountT", int, Quantity)


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
    shared = shared_entries(pod, found)
    claimed = sum(claimed_gpus(claim) for entry, claim in found.items() if entry not in shared)
    every = (
        name for e, claim in sorted(found.items()) if e in shared for name in shared_gpus(claim)
    )
    names = tuple(islice(every, SHARED_GPUS_MAX))
    gpu = gpu_request(amounts, pod.metadata.annotations, claimed)
    if gpu.kind is GpuKind.WHOLE and (maker := _maker(pod.spec)):
        gpu = msgspec.structs.replace(gpu, maker=maker)
    if claimed:
        amounts["gpu"] = min(amounts.get("gpu", 0) + claimed * GPU_UNIT, LARGEST_GPU_AMOUNT)
    if names and not gpu.is_shared:
        kind = GpuKind.CLAIM if gpu.kind is GpuKind.NONE else gpu.kind
        devices = gpu.devices + len(names)
        gpu = msgspec.structs.replace(gpu, kind=kind, devices=devices, claimed=names)
    if gpu.is_shared:
        # The pod names a whole GPU too, so that the device plugin lets it near one.
        amounts.pop("gpu", None)
    return amounts, gpu


def _maker(spec: api.PodSpec) -> str:
    """Whose GPUs the containers ask for; "" is NVIDIA. One pod asks for GPUs of one maker: no node
    has those of two (see `offered_gpus`), so that who asks for both is refused by all.
    """
    asked = {
        name
        for container in (*spec.init_containers, *spec.containers)
        for name in OTHER_GPU_RESOURCES
        if name in container.resources.requests
    }
    is_mixed = asked and any(
        RESOURCE_NVIDIA_GPU in c.resources.requests
        for c in (*spec.init_containers, *spec.containers)
    )
    return ",".join(sorted(asked | ({RESOURCE_NVIDIA_GPU} if is_mixed else set())))


def offered_gpus(resources: ResourceList) -> tuple[ResourceList, str]:
    """What a node offers, and whose GPUs those are; "" is NVIDIA. Of a node with GPUs of several
    makers one maker's count: queues and nodes are accounted in one column of GPUs.
    """
    makers = [name for name in GPU_RESOURCES if name in resources and resources[name].value > 0]
    if not makers:
        return resources, ""
    kept = {n: q for n, q in resources.items() if n not in GPU_RESOURCES or n == makers[0]}
    return kept, makers[0] if makers[0] in OTHER_GPU_RESOURCES else ""


def shared_entries(pod: api.Pod, claims: Mapping[str, ResourceClaim]) -> set[str]:
    """Entries of the pod's resource claims whose claims others may use too."""
    named = {claim.name for claim in pod.spec.resource_claims if claim.resource_claim_name}
    return named | {entry for entry, claim in claims.items() if claim.pod_group is not None}


def container_requests(spec: api.PodSpec) -> tuple[ContainerRequest, ...]:
    """Every container's requests, init containers first."""
    return tuple(
        ContainerRequest(
            tuple(sorted(resource_amounts(c.resources.requests).items())),
            kind,
            c.name,
            next((name for name in GPU_RESOURCES if name in c.resources.requests), ""),
        )
        for c, kind in containers_in_order(spec)
    )


def containers_in_order(spec: api.PodSpec) -> Iterable[tuple[api.Container, ContainerKind]]:
    """As they start."""
    for container in spec.init_containers:
        yield container, ContainerKind.SIDECAR if container.is_sidecar else ContainerKind.INIT
    yield from ((container, ContainerKind.APP) for container in spec.containers)


def resource_amounts(resources: ResourceList) -> dict[str, int]:
    """A resource list in the axis's names and units. GPUs of all makers are in one column, for
    queues; whose they are is apart (`GpuRequest.maker`, `NodeRecord.gpu_maker`).
    """
    amounts: dict[str, int] = {}
    for name, quantity in resources.items():
        column = resource_column(name)
        amounts[column] = amounts.get(column, 0) + max(0, _units(name, quantity))
    return _bounded(amounts)


def pod_amounts(
    containers: Iterable[ContainerRequest],
    overhead: Amounts | None = None,
    pod_level: Amounts | None = None,
) -> dict[str, int]:
    """What a pod occupies: its long-lived containers, or a greater moment of its start; overhead;
    one slot.

    Requests at the level of the pod, where given, replace what the containers add up to.
    """
    listed = ((container.kind, dict(container.amounts)) for container in containers)
    running = occupied(listed, overhead or {}, pod_level or {})
    running["pods"] = 1
    return _bounded({name: amount for name, amount in running.items() if amount})


def occupied(
    containers: Iterable[tuple[ContainerKind, Mapping[str, AmountT]]],
    overhead: Mapping[str, AmountT],
    pod_level: Mapping[str, AmountT],
) -> dict[str, AmountT]:
    """The same in whatever amounts are counted, init containers first, without the slot."""
    running: dict[str, AmountT] = {}
    peak: dict[str, AmountT] = {}
    sidecars: dict[str, AmountT] = {}
    for kind, amounts in containers:
        if kind is ContainerKind.INIT:
            _raise_to(peak, _sum(amounts, sidecars))
            continue
        if kind is ContainerKind.SIDECAR:
            _add(sidecars, amounts)
        _add(running, amounts)
    _raise_to(running, peak)
    for name, amount in pod_level.items():
        if name in ("cpu", "memory") or name.startswith("hugepages-"):
            running[name] = amount
    _add(running, overhead)
    return running


def request_problem(pod: api.Pod, claims: Mapping[str, ResourceClaim], amounts: Amounts) -> str:
    """A number of the request that cannot be counted with, and how to write it; "" if none.

    `amounts` are what was read of it.
    """
    asked = {name for _, resources in _resource_lists(pod.spec) for name in resources}
    if len(asked) > RESOURCES_PER_POD_MAX:
        return (
            f"spec.containers[].resources.requests names {len(asked)} resources: "
            f"ask for at most {RESOURCES_PER_POD_MAX}"
        )
    for path, resources in _resource_lists(pod.spec):
        for name, quantity in resources.items():
            if not 0 <= _units(name, quantity) < largest_amount(resource_column(name)):
                return f"{path}[{name}] is {quantity}: {_bounds(name)}"
    for name, amount in amounts.items():
        if amount >= largest_amount(name):
            return f"all of the pod's requests of {name} together: {_bounds(name)}"
    return gpu_problem(pod.metadata.annotations, claims)


def _resource_lists(spec: api.PodSpec) -> Iterable[tuple[str, ResourceList]]:
    for field, containers in (
        ("initContainers", spec.init_containers),
        ("containers", spec.containers),
    ):
        for index, container in enumerate(containers):
            yield f"spec.{field}[{index}].resources.requests", container.resources.requests
    yield "spec.overhead", spec.overhead
    if spec.resources is not None:
        yield "spec.resources.requests", spec.resources.requests


def _bounds(name: str) -> str:
    column = resource_column(name)
    units = largest_amount(column) // (GPU_UNIT if column in ("cpu", "gpu") else 1)
    most = from_value(units, "binary" if name == "memory" else "decimal")
    return f"write an amount of at least 0 and less than {most}"


def resource_column(name: str) -> str:
    """The axis's name of a resource."""
    return "gpu" if name in GPU_RESOURCES else name


def _bounded(amounts: Amounts) -> dict[str, int]:
    """As many as can be counted, each as large as that; the fixed columns first."""
    kept = sorted(amounts, key=lambda name: (name not in FIXED, name))[:RESOURCES_PER_POD_MAX]
    return {name: min(amounts[name], largest_amount(name)) for name in kept}


def _units(name: str, quantity: Quantity) -> int:
    """In the axis's units, of whatever size."""
    if name in GPU_RESOURCES:
        return quantity.value * GPU_UNIT
    return quantity.milli if name == "cpu" else quantity.value


def _sum(first: Mapping[str, AmountT], second: Mapping[str, AmountT]) -> dict[str, AmountT]:
    total = dict(first)
    _add(total, second)
    return total


def _add(total: dict[str, AmountT], amounts: Mapping[str, AmountT]) -> None:
    for name, amount in amounts.items():
        total[name] = total[name] + amount if name in total else amount


def _raise_to(total: dict[str, AmountT], amounts: Mapping[str, AmountT]) -> None:
    for name, amount in amounts.items():
        total[name] = max(total[name], amount) if name in total else amount
