"""API objects -> records, one function per kind. Pure: what is known comes in, a record goes out.

Nothing a user can write makes these raise: what cannot be read is taken for the least harmful thing
it could mean, and the place where it waits says why.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache

from muster.api import names
from muster.api.bindrequest import BindRequest
from muster.api.bounds import TOPOLOGY_LEVELS_MAX, clamped
from muster.api.core import Node, Pod, PriorityClass
from muster.api.devices import AllocationResult, DeviceClass, ResourceClaim, ResourceSlice
from muster.api.duration import Duration
from muster.api.group_names import known_as
from muster.api.names import Names
from muster.api.noderesourcetopology import NodeResourceTopology
from muster.api.numatopology import Numatopology
from muster.api.podgroup import PodGroup, SubGroup, by_parent, is_preemptible
from muster.api.podgroup import TopologyConstraint as ApiTopologyConstraint
from muster.api.queue import Queue, QueueResource, QueueResources
from muster.api.queue_access import namespaces_of
from muster.api.topology import Topology
from muster.api.validation.pod_groups import is_tree
from muster.base.parse_int import parse_int
from muster.model.cards import cards_of
from muster.model.extended import claimable_amounts
from muster.model.from_api import taints
from muster.model.gpu_request import (
    gpu_groups_of,
    gpu_memory_mib,
    granted,
    is_gpu_class,
    unshared,
)
from muster.model.numa import numa_place, numa_topology
from muster.model.pod_requirements import ReadRequirements, requirements_of
from muster.model.records import (
    ROOT,
    UNLIMITED,
    Disruption,
    GpuRequest,
    JobRecord,
    NodeRecord,
    QueueAmounts,
    QueueRecord,
    SubGroupRecord,
    TaskKind,
    TaskRecord,
    TopologyConstraint,
    TopologyRecord,
    gang,
)
from muster.model.requests import offered_gpus, resource_amounts, shared_entries
from muster.model.status import TaskStatus
from muster.numerics.axis import GPU_UNIT, LARGEST_SUM, largest_amount

_FOR_EVER_S = -1.0
"""A grace period that does not end."""
_QUEUE_FIELDS = {"gpu": ("gpu", GPU_UNIT), "cpu": ("cpu", 1), "memory": ("memory", 10**6)}
"""By resource: the field of a queue's spec, and how many units of the axis it counts as one."""
_PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
# One for all pods that have none.
_NO_CLAIMS: Mapping[str, str] = {}
_NO_DEVICES: Mapping[str, AllocationResult] = {}
_DISRUPTIONS = {
    names.DISRUPTION_MODE_POD: Disruption.TASK,
    names.DISRUPTION_MODE_POD_GROUP: Disruption.JOB,
}
_PHASES = {
    "Succeeded": TaskStatus.SUCCEEDED,
    "Failed": TaskStatus.FAILED,
    "Unknown": TaskStatus.UNKNOWN,
}


@dataclass(frozen=True, slots=True)
class Identity:
    """How this scheduler recognises what is its own."""

    names: Names = field(default_factory=Names)
    stuck_after_s: float = 120.0
    """A pod that should have ended this long ago is no longer counted on to leave."""


def task_record(
    pod: Pod,
    identity: Identity,
    now_s: float,
    request: BindRequest | None = None,
    claims: Mapping[str, ResourceClaim] | None = None,
    keeps_containers: bool = False,
    read: ReadRequirements = requirements_of,
) -> TaskRecord:
    """A pod as a task. A bind request that has not failed counts as a node already chosen.

    `keeps_containers`: it matters which container asks for what (NUMA zones, device classes).
    """
    bound = request if request is not None and not request.has_failed else None
    needs = read(pod, claims or {}, keeps_containers)
    group = pod.metadata.annotations.get(names.ANNOTATION_POD_GROUP, "")
    is_ours = pod.spec.scheduler_name == identity.names.scheduler
    kind = _kind(pod, identity)
    gpu = granted(needs.gpu, bound) if is_ours else unshared(needs.gpu)
    return TaskRecord(
        uid=pod.metadata.uid,
        name=pod.metadata.name,
        job=f"{pod.metadata.namespace}/{group}" if group and is_ours else "",
        namespace=pod.metadata.namespace,
        sub_group=pod.metadata.labels.get(names.LABEL_SUBGROUP) or names.DEFAULT_SUBGROUP,
        status=task_status(pod, bound, now_s, identity.stuck_after_s),
        node=pod.spec.node_name or (bound.spec.selected_node if bound else ""),
        request=needs.amounts,
        gpu=gpu,
        constraints=needs.constraints,
        labels=pod.metadata.labels,
        created_s=_seconds(pod.metadata.creation_timestamp),
        gpu_shares=gpu_groups_of(pod)
        if kind is TaskKind.RESERVATION
        else _gpu_shares(pod, bound, gpu),
        nominated_node=pod.status.nominated_node_name,
        kind=kind,
        is_ours=is_ours,
        never_preempts=pod.spec.preemption_policy == "Never",
        claims=_own_claims(pod, claims or {}),
        claim_allocations=_decided_devices(bound),
        numa=numa_place(
            pod.metadata.annotations, bound.spec.predicted_numa_zones if bound is not None else ()
        ),
        ends_after_s=_deadline_s(pod),
    )


def _deadline_s(pod: Pod) -> float | None:
    """A pod's own: that of a Job counts from its beginning, while pods still wait."""
    given_s = pod.spec.active_deadline_seconds
    return float(given_s) if given_s and given_s > 0 else None


def task_status(
    pod: Pod, request: BindRequest | None, now_s: float, stuck_after_s: float
) -> TaskStatus:
    """Where the pod is in its life. `request` is its bind request, unless that has failed."""
    phase = pod.status.phase
    if phase in _PHASES:
        return _PHASES[phase]
    leaves = pod.metadata.deletion_timestamp
    if leaves is not None:
        overdue = phase == "Running" and now_s - leaves.timestamp() > stuck_after_s
        return TaskStatus.STUCK_IN_RELEASING if overdue else TaskStatus.RELEASING
    if phase == "Running":
        return TaskStatus.RUNNING
    if pod.spec.node_name:
        return TaskStatus.BOUND
    if request is not None:
        return TaskStatus.BINDING
    return TaskStatus.GATED if pod.spec.scheduling_gates else TaskStatus.PENDING


def stuck_at_s(pod: Pod, stuck_after_s: float) -> float | None:
    """When a leaving pod will count as stuck; None for pods that do not leave."""
    leaves = pod.metadata.deletion_timestamp
    if leaves is None or pod.status.phase != "Running":
        return None
    return leaves.timestamp() + stuck_after_s


def node_record(
    node: Node,
    slices: Sequence[ResourceSlice] = (),
    classes: Mapping[str, DeviceClass] | None = None,
    zones: NodeResourceTopology | Numatopology | None = None,
) -> NodeRecord:
    """A node; `slices` are the resource slices that belong to it alone."""
    labels = node.metadata.labels
    offered, maker = offered_gpus(node.status.allocatable)
    amounts = resource_amounts(offered)
    by_name = claimable_amounts(slices, classes or {}, amounts) if slices else {}
    amounts.update(by_name)
    devices = sum(len(one.spec.devices) for one in slices if is_gpu_class(one.spec.driver))
    if devices and "gpu" not in by_name:
        amounts["gpu"] = amounts.get("gpu", 0) + devices * GPU_UNIT
    is_mig = _is_mig(labels, amounts)
    return NodeRecord(
        name=node.metadata.name,
        allocatable={name: min(a, largest_amount(name) - 1) for name, a in amounts.items()},
        labels=labels,
        taints=taints(node.spec.taints),
        is_ready=_is_ready(node),
        is_unschedulable=node.spec.unschedulable,
        gpu_memory_mib=gpu_memory_mib(labels),
        mig_strategy=labels.get(names.LABEL_MIG_STRATEGY, "") if is_mig else "",
        is_mig=is_mig,
        dra_gpus=devices,
        gpu_maker=maker,
        claimable=frozenset(by_name),
        numa=None if zones is None else numa_topology(zones),
        cards=cards_of(node.metadata.annotations, resource_amounts(node.status.capacity)),
        images={name: one.size_bytes for one in node.status.images for name in one.names},
    )


def queue_record(queue: Queue, usage: QueueAmounts | None = None) -> QueueRecord:
    """A queue in axis units. One without resources is guaranteed and allowed nothing."""
    resources = queue.spec.resources or QueueResources()
    fields = [(name, getattr(resources, at), unit) for name, (at, unit) in _QUEUE_FIELDS.items()]
    return QueueRecord(
        name=queue.metadata.name,
        parent=queue.spec.parent_queue,
        quota={name: _bound(one.quota, unit) for name, one, unit in fields},
        limit={name: _bound(one.limit, unit) for name, one, unit in fields},
        weight={name: _weight(one) for name, one, _ in fields},
        usage=usage or {},
        priority=clamped(queue.priority),
        created_s=_seconds(queue.metadata.creation_timestamp),
        uid=queue.metadata.uid,
        display_name=queue.spec.display_name,
        preempt_min_runtime_s=_duration_s(queue.spec.preempt_min_runtime),
        reclaim_min_runtime_s=_duration_s(queue.spec.reclaim_min_runtime),
        namespaces=namespaces_of(queue),
    )


@dataclass(frozen=True, slots=True)
class Priorities:
    """Values of the cluster's priority classes."""

    values: Mapping[str, int] = field(default_factory=dict)
    default: int | None = None
    never_preempting: frozenset[str] = frozenset()

    @classmethod
    def of(cls, classes: Iterable[PriorityClass]) -> "Priorities":
        listed = sorted(classes, key=lambda one: one.metadata.name)
        default = next((clamped(one.value) for one in listed if one.global_default), None)
        never = {one.metadata.name for one in listed if one.preemption_policy == "Never"}
        values = {one.metadata.name: clamped(one.value) for one in listed}
        return cls(values, default, frozenset(never))

    def of_group(self, group: PodGroup) -> int:
        """That of its class, else of the cluster's default class, else 50."""
        value = self.values.get(group.spec.priority_class_name, self.default)
        return names.DEFAULT_POD_GROUP_PRIORITY if value is None else value


_LONGEST_HOLD = 100

Aliases = Mapping[str, Mapping[str, str]]
"""By topology: alias -> node label."""


def job_record(group: PodGroup, priorities: Priorities, aliases: Aliases) -> JobRecord:
    """A pod group as a job."""
    spec, notes = group.spec, group.metadata.annotations
    priority = priorities.of_group(group)
    mode = notes.get(names.ANNOTATION_DISRUPTION_MODE, "")
    return JobRecord(
        key=str(group.key),
        queue=spec.queue,
        uid=group.metadata.uid,
        sub_groups=group_tree(group, aliases),
        priority=priority,
        is_preemptible=is_preemptible(spec.preemptibility, priority),
        created_s=_seconds(group.metadata.creation_timestamp),
        last_start_s=timestamp_s(notes.get(names.ANNOTATION_LAST_START)),
        last_eviction_s=timestamp_s(notes.get(names.ANNOTATION_LAST_EVICTION)),
        stale_since_s=timestamp_s(notes.get(names.ANNOTATION_STALE_SINCE)),
        staleness_grace_s=staleness_grace_s(group),
        preemption_delay_s=max(_duration_s(spec.preemption_delay) or 0.0, 0.0),
        checkpoint_s=timestamp_s(notes.get(names.ANNOTATION_CHECKPOINT)),
        never_preempts=spec.priority_class_name in priorities.never_preempting,
        disruption=_DISRUPTIONS.get(mode, Disruption.GANG),
        on_hold=_on_hold(notes),
        user=group.metadata.labels.get(names.LABEL_USER, notes.get(names.LABEL_USER, "")),
        owner_kind=next((owner.kind for owner in group.metadata.owner_references), ""),
        known_as=known_as(group.metadata),
        expected_runtime_s=_written_duration_s(notes.get(names.ANNOTATION_EXPECTED_RUNTIME)),
    )


def _on_hold(notes: Mapping[str, str]) -> str | None:
    """A start of the text: it is shown again, in conditions and events."""
    said = notes.get(names.ANNOTATION_HOLD)
    return None if said is None or said == "false" else said[:_LONGEST_HOLD].strip()


def group_tree(group: PodGroup, aliases: Aliases) -> SubGroupRecord:
    """The tree of sub-groups; one that is not a tree is taken for a single gang of its minimum."""
    spec = group.spec
    top = _topology(spec.topology_constraint, aliases)
    if spec.sub_groups and is_tree(spec.sub_groups):
        children = _children(by_parent(spec.sub_groups), None, aliases)
        return SubGroupRecord(ROOT, _count(spec.min_sub_group), children, top)
    minimum = 1 if spec.min_member is None else clamped(max(spec.min_member, 0))
    return _single_gang(minimum, top)


# Most jobs are such: they share one tree per size.
_single_gang = lru_cache(maxsize=1024)(gang)


def topology_record(topology: Topology) -> TopologyRecord:
    """Its first levels, where it has more than it may: schemas refuse such a topology."""
    levels = tuple(level.node_label for level in topology.spec.levels[:TOPOLOGY_LEVELS_MAX])
    return TopologyRecord(topology.metadata.name, levels)


def aliases_of(topologies: Iterable[Topology]) -> dict[str, dict[str, str]]:
    return {
        one.metadata.name: {
            level.alias: level.node_label for level in one.spec.levels if level.alias
        }
        for one in topologies
    }


def is_up_for_scheduling(group: PodGroup, node_pool_label: str) -> bool:
    """Whether a group that backs off may be tried: not where its newest refusal names its pool."""
    backoff = group.spec.scheduling_backoff
    refusals = group.status.scheduling_conditions
    if backoff is None or backoff < 0 or not refusals:
        return True
    newest = max(refusals, key=lambda one: _number(one.transition_id))
    pool = group.metadata.labels.get(node_pool_label) or names.DEFAULT_NODE_POOL
    return newest.node_pool != pool


def timestamp_s(text: str | None) -> float | None:
    """Seconds of an RFC 3339 time; None where there is none that can be read."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def is_reservation(pod: Pod, known: Names) -> bool:
    """Whether the pod holds the device of a shared GPU. The label alone says nothing: everybody may
    write it on pods of his own namespaces.
    """
    is_at_home = pod.metadata.namespace == known.reservation_namespace
    return is_at_home and pod.metadata.labels.get(names.LABEL_APP) == known.reservation_app


def _kind(pod: Pod, identity: Identity) -> TaskKind:
    known = identity.names
    if is_reservation(pod, known):
        return TaskKind.RESERVATION
    is_at_home = pod.metadata.namespace == known.scale_adjust_namespace
    is_scaling = is_at_home and pod.metadata.labels.get(names.LABEL_APP) == known.scaling_pod_app
    return TaskKind.SCALING if is_scaling else TaskKind.WORK


def _own_claims(pod: Pod, claims: Mapping[str, ResourceClaim]) -> Mapping[str, str]:
    """Claims that were made for this pod alone, by the entry that they were made for."""
    if not pod.spec.resource_claims:
        return _NO_CLAIMS
    shared = shared_entries(pod, claims)
    return {entry: name for entry, name in pod.claim_names.items() if entry not in shared}


def _decided_devices(request: BindRequest | None) -> Mapping[str, AllocationResult]:
    if request is None:
        return _NO_DEVICES
    spec = request.spec
    found = {
        each.name: each.allocation
        for each in spec.resource_claim_allocations
        if each.allocation is not None
    }
    by_name = spec.extended_resource_claim_allocation
    if by_name is not None and by_name.allocation is not None:
        found[""] = by_name.allocation
    return found


def _gpu_shares(pod: Pod, request: BindRequest | None, gpu: GpuRequest) -> tuple[str, ...]:
    """The shared GPUs that a pod of ours is on: those of its bind request, which its author cannot
    edit. Its labels are asked where there is none; they say nothing while it has no node.
    """
    if not gpu.is_shared:
        return ()
    if request is not None and request.spec.selected_gpu_groups:
        return request.spec.selected_gpu_groups
    return gpu_groups_of(pod) if pod.spec.node_name else ()


def _is_ready(node: Node) -> bool:
    ready = node.status.condition("Ready")
    pressed = any(
        (found := node.status.condition(kind)) is not None and found.status != "False"
        for kind in _PRESSURES
    )
    return ready is not None and ready.status == "True" and not pressed


def _is_mig(labels: Mapping[str, str], amounts: Mapping[str, int]) -> bool:
    said = labels.get(names.LABEL_MIG_ENABLED, "").lower()
    if said in ("true", "1", "t"):
        return True
    if said:
        return False
    return any(name.startswith(names.RESOURCE_MIG_PREFIX) for name in amounts)


def _weight(resource: QueueResource) -> float:
    return min(max(resource.over_quota_weight, 0.0), float(LARGEST_SUM))


def _bound(value: float, unit: float) -> float:
    """Quota or limit; anything below zero means that nothing bounds it."""
    return UNLIMITED if value < 0 else min(value * unit, float(LARGEST_SUM))


def staleness_grace_s(group: PodGroup) -> float | None:
    """How long a gang may lack pods, where it says so; for ever where its pods may go by
    themselves, for then it is none the worse for it.
    """
    period = group.spec.staleness_grace_period
    mode = group.metadata.annotations.get(names.ANNOTATION_DISRUPTION_MODE, "")
    if period is None and mode == names.DISRUPTION_MODE_POD:
        return _FOR_EVER_S
    return _duration_s(period)


def _topology(
    constraint: ApiTopologyConstraint | None, aliases: Aliases
) -> TopologyConstraint | None:
    if constraint is None or not constraint.topology:
        return None
    known = aliases.get(constraint.topology, {})
    required, preferred = (
        known.get(level, level)
        for level in (constraint.required_topology_level, constraint.preferred_topology_level)
    )
    return TopologyConstraint(constraint.topology, required, preferred)


_Parts = Mapping[str | None, Sequence[SubGroup]]
"""By parent; the top ones under None."""


def _children(parts: _Parts, parent: str | None, aliases: Aliases) -> tuple[SubGroupRecord, ...]:
    return tuple(_group(part, parts, aliases) for part in parts.get(parent, ()))


def _group(part: SubGroup, parts: _Parts, aliases: Aliases) -> SubGroupRecord:
    children = _children(parts, part.name, aliases)
    minimum = _count(part.min_sub_group) if children else clamped(max(part.min_member or 0, 0))
    return SubGroupRecord(
        part.name, minimum, children, _topology(part.topology_constraint, aliases)
    )


def _count(number: int | None) -> int | None:
    return None if number is None else clamped(max(number, 0))


def _duration_s(duration: Duration | None) -> float | None:
    return None if duration is None else duration.seconds


def _written_duration_s(text: str | None) -> float | None:
    """Of an annotation, in which anything may stand: what is no positive duration says nothing."""
    if text is None:
        return None
    try:
        for_s = Duration(text).seconds
    except ValueError:
        return None
    return for_s if for_s > 0 else None


def _seconds(moment: datetime | None) -> float:
    return moment.timestamp() if moment else 0.0


def _number(text: str) -> int:
    found = parse_int(text)
    return -1 if found is None else found
