"""What a pod asks for: amounts, GPUs and constraints, read from its spec.

The pods of a job differ in their names and little else, and reading a spec is most of what taking
in a pod costs. `RequirementsCache` reads once for all pods that say the same. It knows the parts of
a spec by identity, so it helps where equal parts are shared (see `PodInterner`) and harms nowhere.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Final, Protocol

from muster.api.core import Pod, PodSpec
from muster.api.devices import ResourceClaim
from muster.api.meta import replace as api_replace
from muster.api.names import ANNOTATION_SHARED_GPU_CONFIG_MAP, RESOURCE_MIG_PREFIX
from muster.api.validation.pods import placement_problems
from muster.model.cards import PARTS
from muster.model.constraints import Constraints, constraints_of
from muster.model.gpu_request import GPU_ANNOTATIONS
from muster.model.records import GpuRequest
from muster.model.requests import container_requests, request_of, request_problem

READ_ANNOTATIONS: Final = GPU_ANNOTATIONS | {ANNOTATION_SHARED_GPU_CONFIG_MAP}
IRRELEVANT: Final[Mapping[str, str]] = {
    "scheduler_name": "whose pod it is, is read from the pod itself",
    "node_name": "where it runs, is read from the pod itself",
    "priority": "priorities are those of groups",
    "priority_class_name": "priorities are those of groups",
    "preemption_policy": "is read from the pod itself",
    "scheduling_gates": "whether it waits, is read from the pod itself",
    "scheduling_group": "the group is named by an annotation, which the pod grouper writes",
    "workload_ref": "likewise",
    "runtime_class_name": "what it costs stands in the overhead",
    "service_account_name": "it has no say in where a pod runs",
    "host_network": "the ports that it takes stand in the containers",
    "restart_policy": "it has no say in where a pod runs",
    "termination_grace_period_seconds": "it has no say in where a pod runs",
    "active_deadline_seconds": "how long it runs at most, is read from the pod itself",
}
"""Fields of a pod's spec that change nothing in what it asks for, and why not."""
READ_WITH_MORE: Final = (
    "resource_claims",
    "topology_spread_constraints",
    "overhead",
    "resources",
)
"""Fields that are rare, and not shared or read together with other parts of the pod: a pod that
has one of them is read each time."""
_relevant: Final = attrgetter(
    *(name for name in PodSpec.__struct_fields__ if name not in {*IRRELEVANT, *READ_WITH_MORE})
)
_read_with_more: Final = attrgetter(*READ_WITH_MORE)
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
    wish = next(placement_problems(pod), None)
    read = pod if wish is None else _without_wishes(pod)
    constraints = constraints_of(read, holding, of_group)
    problem = f"{wish.path}: {wish.message}; {wish.fix}" if wish is not None else ""
    if problem := problem or request_problem(pod, claims, amounts):
        constraints = replace(constraints, request_problem=problem)
    if keeps_containers or not amounts.keys().isdisjoint(PARTS):
        constraints = replace(constraints, containers=container_requests(pod.spec))
    if keeps_containers:
        is_guaranteed = pod.status.qos_class == "Guaranteed"
        constraints = replace(constraints, is_guaranteed=is_guaranteed)
    return PodRequirements(amounts, gpu, constraints)


def _without_wishes(pod: Pod) -> Pod:
    """The pod as far as it holds something: wishes beyond the bounds are not weighed."""
    containers = [
        tuple(api_replace(container, ports=()) for container in part)
        for part in (pod.spec.containers, pod.spec.init_containers)
    ]
    spec = api_replace(
        pod.spec,
        affinity=None,
        topology_spread_constraints=(),
        tolerations=(),
        node_selector={},
        containers=containers[0],
        init_containers=containers[1],
    )
    return api_replace(pod, spec=spec)


class RequirementsCache:
    """`requirements_of` with a memory: the same answer, sooner."""

    def __init__(self) -> None:
        # The spec is kept beside its answer so that the identities in the key stay its own.
        self._known: dict[Hashable, tuple[PodSpec, PodRequirements]] = {}

    def __call__(self, pod: Pod, claims: Claims, keeps_containers: bool) -> PodRequirements:
        if claims or _reads_more_than_its_key(pod.spec):
            return requirements_of(pod, claims, keeps_containers)
        key = key_of(pod, keeps_containers)
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
        any(_read_with_more(spec))
        or (affinity is not None and (affinity.pod_affinity or affinity.pod_anti_affinity))
        or any(volume.ephemeral is not None for volume in spec.volumes)
    )


def key_of(pod: Pod, keeps_containers: bool) -> Hashable:
    """What the answer depends on: every field of the spec that is not known to be irrelevant."""
    notes = [
        note
        for note in pod.metadata.annotations.items()
        if note[0] in READ_ANNOTATIONS or note[0].startswith(RESOURCE_MIG_PREFIX)
    ]
    return (
        tuple([_identity(part) for part in _relevant(pod.spec)]),
        pod.metadata.namespace,
        tuple(notes),
        keeps_containers and pod.status.qos_class,
    )


def _identity(part: object) -> Hashable:
    """What an equal and shared part has in common with this one."""
    if isinstance(part, tuple):
        return tuple([id(one) for one in part])
    if isinstance(part, dict):
        return tuple(part.items())
    return part if isinstance(part, (str, int)) else id(part)
