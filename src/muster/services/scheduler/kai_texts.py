"""What KAI says of the same things: words and fields that people's tools match on. Pure.

Our own sentence follows KAI's. Where KAI has none, ours stands alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.api import names
from muster.api.podgroup import SINGLE_BACKOFF, PodGroup, TopologyConstraint
from muster.base.timefmt import rfc3339
from muster.model.public_reasons import PublicReason
from muster.model.reason_codes import Code
from muster.model.reasons import NodeCount, Reason, Refusal
from muster.model.records import DEFAULT_SUB_GROUP
from muster.numerics.axis import GPU_UNIT

_REASONS = {
    Reason.QUEUE_MISSING: names.REASON_QUEUE_DOES_NOT_EXIST,
    Reason.QUEUE_PARENT_MISSING: names.REASON_QUEUE_DOES_NOT_EXIST,
    Reason.OVER_LIMIT: names.REASON_OVER_LIMIT,
    Reason.OVER_QUOTA: names.REASON_NON_PREEMPTIBLE_OVER_QUOTA,
    Reason.PREEMPTION_DELAY: names.REASON_PREEMPTION_DELAY,
}


@dataclass(frozen=True, slots=True)
class Waiter:
    """Who waits, by the names that KAI's sentences hold."""

    pool: str = "default"
    group: PodGroup | None = None
    pod: str = ""
    """The first that waits, as namespace/name."""
    asks: Mapping[str, int] = field(default_factory=dict)
    """What it asks for, in the axis' units, its GPUs as a queue is charged for them."""


def kai_reason(reason: PublicReason) -> str:
    """KAI's word for it."""
    if reason.refusal is None:
        return names.REASON_POD_SCHEDULING_ERRORS
    return _REASONS.get(reason.refusal.reason, names.REASON_POD_SCHEDULING_ERRORS)


def kai_sentence(reason: PublicReason, who: Waiter) -> str:
    """KAI's sentence; "" where it has none that ours does not begin with."""
    refusal = reason.refusal
    if refusal is None or reason.code is Code.BEHIND_OTHERS:
        return ""
    if of_pod := _of_pod(refusal, who):
        return _of_group(refusal, who, of_pod)
    match refusal.reason:
        case Reason.TOO_FEW_TASKS | Reason.GATED:
            return _not_ready(refusal)
        case Reason.OVER_LIMIT if refusal.evidence:
            return _over_limit(refusal)
        case Reason.OVER_QUOTA if refusal.evidence:
            return _over_quota(refusal)
        case Reason.PREEMPTION_DELAY:
            return (
                f"Workload is within its preemption delay window{_window(who.group)} and may not "
                f"trigger evictions before {rfc3339(refusal.until_s)}."
            )
        case Reason.TOPOLOGY_MISSING:
            return f"Requested topology {refusal.subject} does not exist."
        case Reason.UNKNOWN_SUB_GROUP:
            where = f" in PodGroup {who.group.key}" if who.group is not None else ""
            return f'Pod references subgroup "{refusal.subject}", which does not exist{where}.'
        case Reason.TOPOLOGY_FULL | Reason.TOPOLOGY_UNLABELLED if who.group is not None:
            return _outside_topology(refusal, who.group)
        case _:
            return ""


_STAND_ALONE = frozenset({Reason.TOO_FEW_TASKS, Reason.GATED, Reason.UNKNOWN_SUB_GROUP})
"""KAI says these in events of their own, without its word in front."""


def prefix(reason: PublicReason, who: Waiter) -> str:
    """What KAI says first of a group that it cannot schedule: its word for why."""
    refusal = reason.refusal
    if refusal is None or refusal.reason in _STAND_ALONE or not kai_sentence(reason, who):
        return ""
    if refusal.reason in _NODE_GROUPS and _node_group(refusal):
        return "Unable to schedule podgroup: "  # Of more than one thing that it has to say.
    return f"{kai_reason(reason)}: "


def lead(reason: PublicReason, who: Waiter) -> str:
    """What is said of a group alone, in front of what is said of its pod."""
    refusal = reason.refusal
    if refusal is None or not who.pod or refusal.minimum > 1 or not _of_pod(refusal, who):
        return ""
    return f"{prefix(reason, who)}{_not_found(who)}"


def kai_details(reason: PublicReason) -> Mapping[str, Any]:
    """`reasons[].details`: the numbers of the queue whose bound is in the way."""
    refusal = reason.refusal
    if refusal is None or refusal.reason not in (Reason.OVER_LIMIT, Reason.OVER_QUOTA):
        return {}
    if not refusal.evidence:
        return {}
    (numbers,) = refusal.evidence
    bound, held, need = (
        _resource_list(numbers.resource, units)
        for units in (numbers.bound, numbers.held, numbers.need)
    )
    if refusal.reason is Reason.OVER_LIMIT:
        found = {
            "queueResourceLimits": bound,
            "queueAllocatedResources": held,
            "podGroupRequestedResources": need,
        }
    else:
        found = {
            "queueDeservedResources": bound,
            "queueAllocatedNonPreemptibleResources": held,
            "podGroupRequestedNonPreemptibleResources": need,
        }
    return {"queueDetails": {"name": refusal.subject, **found}}


def node_pool(who: Waiter) -> str:
    """What is said first where a group is tried once in each pool: which one this is."""
    tried_once = who.group is not None and who.group.scheduling_backoff == SINGLE_BACKOFF
    return f"Node-Pool '{who.pool}': " if tried_once else ""


def stale(group: PodGroup, active: Mapping[str, int]) -> str:
    """Of a gang that is below its minimum. `active`: pods on nodes, by the name of their part."""
    parents = {one.parent for one in group.spec.sub_groups}
    leaves = [one for one in group.spec.sub_groups if one.name not in parents]
    minima = {one.name: 1 if one.min_member is None else one.min_member for one in leaves}
    own = 1 if group.spec.min_member is None else group.spec.min_member
    whole = sum(minima.values()) if leaves else own
    said = f"Job is stale. {sum(active.values())} pods are active, minMember is {whole}"
    parts = (
        f", subGroup {name} minMember is {least} and {active.get(name, 0)} pods are active"
        for name, least in minima.items()
        if active.get(name, 0) < least
    )
    return said + "".join(parts)


def _window(group: PodGroup | None) -> str:
    delay = None if group is None else group.spec.preemption_delay
    return "" if delay is None else f" ({delay})"


def _not_ready(refusal: Refusal) -> str:
    part = f" for SubGroup {refusal.sub_group}" if refusal.sub_group else ""
    return (
        f"Job is not ready for scheduling. Waiting for {refusal.minimum} pods{part}, currently "
        f"{refusal.found + refusal.gated} exist, {refusal.gated} are gated."
    )


_UNITS = {
    "gpu": ("GPUs", " GPUs", GPU_UNIT),
    "cpu": ("CPU cores", " cores", 1000),
    "memory": ("memory", " GB", 10**9),
}
"""What KAI calls a resource, the unit behind its numbers, and how many of ours are one."""


def _unit(resource: str) -> tuple[str, str, int]:
    return _UNITS.get(resource, (resource, f" {resource}", 1))


def _number(resource: str, units: float) -> str:
    _, _, size = _unit(resource)
    return "Unlimited" if units < 0 else f"{units / size:.3f}".rstrip("0").rstrip(".")


def _over_limit(refusal: Refusal) -> str:
    (e,) = refusal.evidence
    word, unit, _ = _unit(e.resource)
    limit, held, need = (_number(e.resource, units) for units in (e.bound, e.held, e.need))
    return (
        f"{refusal.subject} quota has reached the allowable limit of {word}. Limit is {limit}{unit}"
        f", currently {held}{unit} allocated and workload requested {need}{unit}."
    )


def _over_quota(refusal: Refusal) -> str:
    (e,) = refusal.evidence
    word, unit, _ = _unit(e.resource)
    quota, held, need = (_number(e.resource, units) for units in (e.bound, e.held, e.need))
    asked = f"{need} GB memory" if e.resource == "memory" else f"{need} {word}"
    return (
        f"Non-preemptible workload is over quota. Workload requested {asked}, but "
        f"{refusal.subject} quota is {quota}{unit}, while {held}{unit} are already allocated for "
        "non-preemptible pods. Use a preemptible workload to go over quota."
    )


def _of_pod(refusal: Refusal, who: Waiter) -> str:
    """What keeps one pod from every node; "" of what is not about a pod."""
    match refusal.reason:
        case Reason.NO_NODE:
            return f"no nodes with enough resources were found{_node_counts(refusal)}."
        case Reason.TOO_LARGE if refusal.evidence:
            return _not_met(who, "MaxNodePoolResources", _too_large(refusal, who))
        case Reason.CONFIG_MAP_MISSING:
            missing = f"Missing required configmaps: [{refusal.subject}]"
            return _not_met(who, "ConfigMap", missing)
        case Reason.VOLUME_MISSING:
            missing = f'persistentvolumeclaim "{refusal.subject}" not found'
            return _not_met(who, "VolumeBinding", missing)
        case Reason.VOLUME_CLAIM_UNUSABLE:
            unbound = "pod has unbound immediate PersistentVolumeClaims"
            return _not_met(who, "VolumeBinding", unbound)
        case _:
            return ""


def _not_met(who: Waiter, which: str, why: str) -> str:
    """What KAI finds before it looks at nodes."""
    pod = f" for pod {who.pod}" if who.pod else ""
    return f"Scheduling conditions were not met{pod}:\n{which}: {why}."


def _of_group(refusal: Refusal, who: Waiter, because: str) -> str:
    if refusal.minimum <= 1:
        return f"{_not_found(who)}{because}"
    if refusal.sub_group not in ("", DEFAULT_SUB_GROUP):
        return (
            f"Resources were found for {refusal.found} pods from all sub-groups while sub-group "
            f"{refusal.sub_group} requires {refusal.minimum} pods for gang scheduling. Additional "
            f"pods cannot be scheduled in this sub-group due to: {because}"
        )
    return (
        f"Resources were found for {refusal.found} pods while {refusal.minimum} are required for "
        f"gang scheduling. Additional pods cannot be scheduled due to: {because}"
    )


def _not_found(who: Waiter) -> str:
    return f"Resources were not found for pod {who.pod} due to: " if who.pod else ""


_JOINED = ". \n"
"""Between the things that KAI has to say."""


def _node_counts(refusal: Refusal) -> str:
    """What keeps nodes off, in the words of KAI and of Kubernetes' filters that it runs."""
    counts: dict[str, int] = {}
    for one in refusal.nodes:
        if words := _node_words(one):
            counts[words] = counts.get(words, 0) + one.nodes
    told = sorted(f"{nodes} {words}" for words, nodes in counts.items())
    return f": {_JOINED.join(told)}" if told else ""


def _node_words(count: NodeCount) -> str:
    lacks = "node(s) didn't have enough resources: "
    match count.reason:
        case Reason.RESOURCES if count.subject.startswith(names.RESOURCE_MIG_PREFIX):
            return f"node(s) didn't have enough of mig profile: {count.subject}"
        case Reason.RESOURCES if count.subject == "pods":
            return "node(s) pod number exceeded"
        case Reason.RESOURCES:
            return f"{lacks}{_unit(count.subject)[0]}"
        case Reason.SHARED_GPU:
            return f"{lacks}GPUs"
        case Reason.QUEUE_ON_NODE:
            return _over_on_node(*count.subject.split(" of queue ", 1))
        case Reason.GPU_TOO_SMALL:
            return f"{lacks}GPU memory"
        case other:
            return _OF_FILTERS.get(other, "")


def _over_on_node(bound: str, queue: str) -> str:
    why, details = names.REASON_OVER_LIMIT, f"{queue} quota has reached the allowable limit of GPUs"
    if bound == "quota":
        why = names.REASON_NON_PREEMPTIBLE_OVER_QUOTA
        details = "Non-preemptible workload is over quota"
    return f"node does not have enough capacity. Reason: {why}, Details: {details}"


_OF_FILTERS: Mapping[Reason, str] = {
    Reason.POD_SLOTS: "node(s) pod number exceeded",
    Reason.UNSCHEDULABLE_NODE: "node is unschedulable",
    Reason.NOT_READY_NODE: "node has NotReady condition",
    Reason.TAINT: "node(s) had untolerated taint(s)",
    Reason.NODE_SELECTOR: "node(s) didn't match Pod's node affinity/selector",
    Reason.HOST_PORT: "node(s) didn't have free ports for the requested pod ports",
    Reason.POD_AFFINITY: "node(s) didn't match pod affinity rules",
    Reason.POD_ANTI_AFFINITY: "node(s) didn't match pod anti-affinity rules",
    Reason.OTHERS_ANTI_AFFINITY: "node(s) didn't satisfy existing pods anti-affinity rules",
    Reason.VOLUME: "node(s) didn't find available persistent volumes to bind",
    Reason.STORAGE_CAPACITY: "node(s) did not have enough free storage",
    Reason.DEVICE_CLAIM: "cannot allocate all claims",
    Reason.DEVICE_ABSENT: "cannot allocate all claims",
    Reason.NUMA: "node cannot NUMA-align the pod's resources under its Topology Manager policy",
    Reason.GPU_MEMORY_UNKNOWN: "node is not a gpu node or the gpu memory count on the node was not "
    "synced yet",
}
"""Where KAI names the node or the pod too, what comes before the names."""


_NODE_GROUPS = frozenset({Reason.TOPOLOGY_FULL, Reason.TOPOLOGY_UNLABELLED})


def _outside_topology(refusal: Refusal, group: PodGroup) -> str:
    part = next((one for one in group.spec.sub_groups if one.name == refusal.sub_group), None)
    own = part.topology_constraint if part is not None else None
    constraint: TopologyConstraint = own or group.spec.topology_constraint
    of_part = f", subgroup {part.name}" if part is not None else ""
    wish = (
        f"topology {constraint.topology}, requirement {constraint.required_topology_level} "
        f"couldn't be satisfied for job <{group.key}>{of_part}"
    )
    return f"{_JOINED.join(filter(None, (_node_group(refusal), wish)))}."


def _node_group(refusal: Refusal) -> str:
    """Of the domain that has most of what is asked for: its places, or what it lacks."""
    if refusal.found and refusal.evidence:
        domain = refusal.evidence[0].where
        return (
            f"node-group {domain} can allocate only {refusal.found} of {refusal.minimum} required "
            "pods"
        )
    lacks = "node-group(s) didn't have enough"
    return _JOINED.join(
        f"{lacks} of mig profile: {one.resource}"
        if one.resource.startswith(names.RESOURCE_MIG_PREFIX)
        else f"{lacks} resources: {_unit(one.resource)[0]}"
        for one in refusal.evidence
    )


def _too_large(refusal: Refusal, who: Waiter) -> str:
    most = refusal.evidence[0]
    asks = f"The pod {who.pod} requires {amounts(who.asks)}. " if who.asks else ""
    word = {"gpu": "GPU", "cpu": "CPU"}.get(most.resource, most.resource)
    if not most.free:
        return f"{asks}No node in the {who.pool} node-pool has {word} resources"
    unit = {"cpu": " cores", "memory": " GB"}.get(most.resource, "")
    return (
        f"{asks}Max {word} resources available in a single node in the {who.pool} node-pool is "
        f"topped at {_number(most.resource, most.free)}{unit}"
    )


def amounts(units: Mapping[str, float]) -> str:
    """GPUs, cores and gigabytes, then what else there is."""
    gpu, cpu, memory = (_number(name, units.get(name, 0)) for name in ("gpu", "cpu", "memory"))
    others = (
        f", {name}: {_number(name, count)}"
        for name, count in units.items()
        if name not in _UNITS and name != "pods"
    )
    return f"GPU: {gpu}, CPU: {cpu} (cores), memory: {memory} (GB){''.join(others)}"


def _resource_list(resource: str, units: int) -> dict[str, str]:
    if units < 0:
        return {}
    if resource not in ("gpu", "cpu"):
        return {resource: str(units)}
    whole, part = divmod(units, 1000)
    name = names.RESOURCE_NVIDIA_GPU if resource == "gpu" else resource
    return {name: f"{units}m" if part else str(whole)}
