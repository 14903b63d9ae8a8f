"""What people read about a decision: events, conditions, and when they are worth writing. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from muster.api import names
from muster.api.codec import builtins
from muster.api.core import Pod
from muster.api.podgroup import PodGroup, SchedulingCondition
from muster.base.parse_int import parse_int
from muster.engine.plan import Evict
from muster.model.reasons import Reason, Refusal

_REASONS = {
    Reason.QUEUE_MISSING: names.REASON_QUEUE_DOES_NOT_EXIST,
    Reason.OVER_LIMIT: names.REASON_OVER_LIMIT,
    Reason.OVER_QUOTA: names.REASON_NON_PREEMPTIBLE_OVER_QUOTA,
    Reason.PREEMPTION_DELAY: names.REASON_PREEMPTION_DELAY,
}


@dataclass(frozen=True, slots=True)
class UnschedulableMessage:
    """Why a group is unschedulable: the text, and each reason for programs."""

    message: str
    reasons: tuple[Mapping[str, str], ...]


def unschedulable_message(refusals: Sequence[Refusal]) -> UnschedulableMessage:
    """Distinct sentences, each with the reason by which programs know it."""
    distinct = dict.fromkeys((_reason(refusal), refusal.sentence()) for refusal in refusals)
    reasons = tuple({"reason": reason, "message": sentence} for reason, sentence in distinct)
    sentences = list(dict.fromkeys(sentence for _, sentence in distinct))
    return UnschedulableMessage(". ".join(sentences) or "Unable to schedule pod group", reasons)


def not_ready_message(group: PodGroup, said: str) -> str:
    """With the field that asks for more pods than there are. Not how many there are: while they
    come, each number would be an event.
    """
    least = group.spec.min_member
    if group.spec.sub_groups or least is None:
        return f"{said}: spec.subGroups of its pod group ask for more; create the others"
    return (
        f"{said}: spec.minMember of its pod group asks for {least}; create the others, or lower it"
    )


def scheduling_conditions(
    group: PodGroup, pool: str, unschedulable: UnschedulableMessage, now: str
) -> list[dict[str, Any]] | None:
    """The group's conditions with ours last; None when the newest condition is the same."""
    listed = group.status.scheduling_conditions
    newest = max(listed, key=_transition, default=None)
    if (
        newest is not None
        and listed[-1] is newest
        and _has_message(newest, pool, unschedulable.message)
    ):
        return None
    ours = {
        "type": names.CONDITION_UNSCHEDULABLE_ON_NODE_POOL,
        "nodePool": pool,
        "reason": names.REASON_UNSCHEDULABLE,
        "message": unschedulable.message,
        "status": "True",
        "reasons": list(unschedulable.reasons),
        "transitionID": str(_transition(newest) + 1 if newest else 1),
        "lastTransitionTime": now,
    }
    return [*(builtins(one) for one in listed if one.node_pool != pool), ours]


def may_clear_conditions(group: PodGroup, pods: Sequence[Pod]) -> bool:
    """Refusals are history once no pod waits, and none is on its way to a node."""
    if not group.status.scheduling_conditions:
        return False
    return bool(pods) and all(pod.spec.node_name or pod.has_ended for pod in pods)


def stale_message(group: PodGroup, active: int) -> str:
    minimum = 1 if group.spec.min_member is None else group.spec.min_member
    return f"Job is stale. {active} pods are active, minMember is {minimum}"


def missing_group_message(pod: Pod) -> str:
    """For the pod itself: without a group no cycle has anything to say of it."""
    group = pod.metadata.annotations.get(names.ANNOTATION_POD_GROUP, "")
    return (
        f"pod group {pod.metadata.namespace}/{group} does not exist: create it, or take the "
        f"annotation {names.ANNOTATION_POD_GROUP} off the pod"
    )


def missing_pool_message(pool: str, label: str) -> str:
    """For a pod whose group is of a pool that nobody serves."""
    return (
        f"no node is in node pool {pool}: correct the label {label} of the workload, or label "
        "nodes with it and run a scheduler for that pool"
    )


def has_unschedulable_condition(pod: Pod, message: str) -> bool:
    found = pod.status.condition(names.CONDITION_POD_SCHEDULED)
    return found is not None and (found.status, found.reason, found.message) == (
        "False",
        names.REASON_UNSCHEDULABLE,
        message,
    )


def eviction_message(pod: Pod, evict: Evict) -> str:
    """Why a pod is removed, for its owner."""
    who = f"Pod {pod.key}"
    match evict.action:
        case "preempt":
            return f"{who} was preempted by higher priority workload {evict.actor}"
        case "consolidation":
            return (
                f"{who} was preempted and rescheduled due to bin packing (resource consolidation) "
                "procedure"
            )
        case "stalegangeviction":
            return (
                "Workload doesn't meet the minimum required number of pods, evicting remaining "
                f"pod: {pod.key}"
            )
        case _:
            return f"{who} was preempted by workload {evict.actor}"


def eviction_annotations(evict: Evict, gang_size: int) -> dict[str, str]:
    """Annotations of the event about an eviction, which dashboards and accounting read."""
    namespace, _, name = evict.actor.partition("/")
    return {
        names.ANNOTATION_EVICTED_PODS: str(gang_size),
        names.ANNOTATION_EVICTOR_ACTION: evict.action,
        names.ANNOTATION_EVICTOR_GROUP: name,
        names.ANNOTATION_EVICTOR_NAMESPACE: namespace,
    }


def _reason(refusal: Refusal) -> str:
    return _REASONS.get(refusal.reason, names.REASON_POD_SCHEDULING_ERRORS)


def _has_message(condition: SchedulingCondition, pool: str, message: str) -> bool:
    return (condition.type, condition.node_pool, condition.message, condition.status) == (
        names.CONDITION_UNSCHEDULABLE_ON_NODE_POOL,
        pool,
        message,
        "True",
    )


def _transition(condition: SchedulingCondition | None) -> int:
    text = condition.transition_id if condition else ""
    return parse_int(text) or 0
