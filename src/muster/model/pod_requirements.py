"""What a pod asks for: amounts, GPUs and constraints, read from its spec.

The pods of a job differ in their names and little else, and reading a spec is most of what taking
in a pod costs. `RequirementsCache` reads once for all pods that say the same. It knows the parts of
a spec by identity, so it helps where equal parts are shared (see `PodInterner`) and harms nowhere.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol

from muster.api.core import Pod, PodSpec
from muster.api.devices import ResourceClaim
from muster.api.names import (
    ANNOTATION_GPU_FRACTION,
    ANNOTATION_GPU_FRACTION_DEVICES,
    ANNOTATION_GPU_MEMORY,
    ANNOTATION_SHARED_GPU_CONFIG_MAP,
    RESOURCE_MIG_PREFIX,
)
from muster.model.constraints import Constraints
from muster.model.from_api import constraints_of
from muster.model.records import GpuRequest
from muster.model.requests import container_requests, request_of

_READ_ANNOTATIONS: Final = frozenset(
    {
        ANNOTATION_GPU_FRACTION,
        ANNOTATION_GPU_FRACTION_DEVICES,
        ANNOTATION_GPU_MEMORY,
        ANNOTATION_SHARED_GPU_CONFIG_MAP,
    }
)
_MEMO_SIZE_MAX: Final = 20_000

Claims = Mapping[str, ResourceClaim]
"""A pod's resource claims by its entry for them, as far as they exist."""


@dataclass(frozen=True, slots=True)
class PodRequirements:
    """All that a pod asks for. Shared between pods: nobody changes it."""

    amounts: Mapping[str, int]
    gpu: GpuRequest
    constraints: Constraints


class ReadRequirements(Protocol):
    """`keeps_containers`: it matters which container asks for what (NUMA zones, device classes)."""

    def __call__(self, pod: Pod, claims: Claims, keeps_containers: bool) -> PodRequirements: ...


def requirements_of(pod: Pod, claims: Claims, keeps_containers: bool) -> PodRequirements:
    amounts, gpu = request_of(pod, claims)
    holding = {c.metadata.name for c in claims.values() if c.status.allocation is not None}
    of_group = {c.metadata.name for c in claims.values() if c.pod_group is not None}
    constraints = constraints_of(pod, holding, of_group)
    if keeps_containers:
        constraints = replace(
            constraints,
            containers=container_requests(pod.spec),
            is_guaranteed=pod.status.qos_class == "Guaranteed",
        )
    return PodRequirements(amounts, gpu, constraints)


class RequirementsCache:
    """`requirements_of` with a memory: the same answer, sooner."""

    def __init__(self) -> None:
        # The spec is kept beside its answer so that the identities in the key stay its own.
        self._known: dict[Hashable, tuple[PodSpec, PodRequirements]] = {}

    def __call__(self, pod: Pod, claims: Claims, keeps_containers: bool) -> PodRequirements:
        if claims or _reads_more_than_its_key(pod.spec):
            return requirements_of(pod, claims, keeps_containers)
        key = _key(pod, keeps_containers)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MEMO_SIZE_MAX:
                self._known.clear()
            found = self._known[key] = (pod.spec, requirements_of(pod, claims, keeps_containers))
        return found[1]


def _reads_more_than_its_key(spec: PodSpec) -> bool:
    """Rare wishes that depend on the pod's own name or labels, or on parts that are not shared."""
    affinity = spec.affinity
    return bool(
        spec.resource_claims
        or spec.topology_spread_constraints
        or spec.overhead
        or spec.resources is not None
        or (affinity is not None and (affinity.pod_affinity or affinity.pod_anti_affinity))
        or any(volume.ephemeral is not None for volume in spec.volumes)
    )


def _key(pod: Pod, keeps_containers: bool) -> Hashable:
    spec, annotations = pod.spec, pod.metadata.annotations
    notes = [
        note
        for note in annotations.items()
        if note[0] in _READ_ANNOTATIONS or note[0].startswith(RESOURCE_MIG_PREFIX)
    ]
    return (
        tuple([id(container) for container in spec.containers]),
        tuple([id(container) for container in spec.init_containers]),
        id(spec.volumes),
        id(spec.tolerations),
        id(spec.affinity),
        tuple(spec.node_selector.items()),
        pod.metadata.namespace,
        tuple(notes),
        keeps_containers and pod.status.qos_class,
    )
