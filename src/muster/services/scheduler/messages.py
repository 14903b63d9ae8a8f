"""What people read about a decision: events, conditions, and when they are worth writing. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from muster.api import names
from muster.api.codec import builtins
from muster.api.coordination import ObjectReference
from muster.api.core import Pod
from muster.api.podgroup import PodGroup, SchedulingCondition
from muster.base.parse_int import parse_int
from muster.engine.plan import Evict
from muster.model.build import timestamp_s
from muster.model.public_reasons import PublicReason, Why
from muster.model.reason_codes import Code
from muster.services.scheduler.kai_texts import kai_details, kai_reason, kai_sentence

LONGEST_EVENT = 1000
"""Letters of an event's text: Kubernetes takes 1,024."""
SETTLES_S = 300.0
"""How long a condition stays when it would only be another one about room."""
_OF_ROOM = frozenset(
    {Code.NO_ROOM, Code.FRAGMENTED, Code.TOPOLOGY_FULL, Code.BEHIND_OTHERS, Code.NOT_LOOKED_AT}
)
"""Codes that follow each other with every job that starts or ends."""


@dataclass(frozen=True, slots=True)
class UnschedulableMessage:
    """Why a group is unschedulable: the text, and each reason for programs."""

    dominant: PublicReason
    message: str
    reasons: tuple[Mapping[str, Any], ...]

    def is_told_by(self, message: str) -> bool:
        """Whether a text of ours says the same, numbers apart."""
        dominant = self.dominant
        is_of_it = f"{dominant.code}. " in message and dominant.subject in message
        if dominant.code is not Code.ABOVE_LIMIT:
            return is_of_it
        bound = "limit" if "limit" in dominant.evidence else "quota"
        return is_of_it and f"({bound}" in message


def unschedulable_message(why: Why) -> UnschedulableMessage:
    """The dominant reason for people, KAI's words first; each reason for programs."""
    reasons = tuple(_explanation(one) for one in why.all)
    message = _text(why.dominant)
    if why.no_eviction_because:
        others = " ".join(one.sentence for one in why.no_eviction_because[:_MOST_OF_EVICTION])
        message = f"{message} {others}"
    return UnschedulableMessage(why.dominant, message, reasons)


_MOST_OF_EVICTION = 2


def _text(reason: PublicReason) -> str:
    return f"{kai_sentence(reason)} {reason.text}".strip()


def _explanation(reason: PublicReason) -> Mapping[str, Any]:
    found: dict[str, Any] = {
        "reason": kai_reason(reason),
        "message": _text(reason),
        "code": str(reason.code),
        "category": str(reason.category),
        "subject": reason.subject,
    }
    details = kai_details(reason)
    return {**found, "details": details} if details else found


def shortened(message: str) -> str:
    """As an event can hold it."""
    return message if len(message) <= LONGEST_EVENT else f"{message[:LONGEST_EVENT]}..."


def scheduling_conditions(
    group: PodGroup, pool: str, unschedulable: UnschedulableMessage, now: str
) -> list[dict[str, Any]] | None:
    """The group's conditions with ours last; None when the newest one tells the same: code and
    subject count, numbers do not.
    """
    listed = group.status.scheduling_conditions
    newest = max(listed, key=_transition, default=None)
    if (
        newest is not None
        and listed[-1] is newest
        and _is_ours(newest, pool)
        and _tells(newest, unschedulable, now)
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


def tells_of(pod: Pod, unschedulable: UnschedulableMessage) -> bool:
    """Whether the pod's condition says the same, numbers apart."""
    found = pod.status.condition(names.CONDITION_POD_SCHEDULED)
    is_ours = found is not None and (found.status, found.reason) == (
        "False",
        names.REASON_UNSCHEDULABLE,
    )
    return is_ours and found is not None and unschedulable.is_told_by(found.message)


def eviction_message(pod: Pod, evict: Evict, actor: PodGroup | None = None) -> str:
    """Why a pod is removed, for its owner: KAI's sentence, then for whom and by which rule."""
    return f"{_kai_eviction(pod, evict)}{_for_whom(evict, actor)}"


def _for_whom(evict: Evict, actor: PodGroup | None) -> str:
    if actor is None:
        return ""
    moves = f" It moves from {evict.node} to {evict.moves_to}." if evict.moves_to else ""
    rule = _RULES.get(evict.action, evict.action)
    return f". {rule}: the room is for {workload_of(actor)} of queue {actor.spec.queue}.{moves}"


_RULES = {
    "reclaim": "Reclaim (its queue is owed what others borrow)",
    "preempt": "Preempt (a higher priority in the same queue)",
    "consolidation": "Consolidation (work moves so that what is free is in one piece)",
}


def workload_of(group: PodGroup) -> str:
    """The group in the words of its user: the workload that it was made for."""
    owner = next(iter(group.metadata.owner_references), None)
    if owner is None:
        return f"pod group {group.key}"
    return f"{owner.kind} {group.metadata.namespace}/{owner.name}"


def owner_reference(group: PodGroup) -> ObjectReference | None:
    """The workload that the group was made for, to be told about."""
    owner = next(iter(group.metadata.owner_references), None)
    if owner is None:
        return None
    return ObjectReference(
        api_version=owner.api_version,
        kind=owner.kind,
        namespace=group.metadata.namespace,
        name=owner.name,
        uid=owner.uid,
    )


def _kai_eviction(pod: Pod, evict: Evict) -> str:
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


def _is_ours(condition: SchedulingCondition, pool: str) -> bool:
    return (condition.type, condition.node_pool, condition.status) == (
        names.CONDITION_UNSCHEDULABLE_ON_NODE_POOL,
        pool,
        "True",
    )


def _tells(condition: SchedulingCondition, unschedulable: UnschedulableMessage, now: str) -> bool:
    """By code and subject, which a CustomResourceDefinition of KAI's may have dropped: then by
    the text. KAI's word counts too: it tells a limit from a quota, which have one code where they
    can never hold the job. Codes about room that follow each other within minutes count as one.
    """
    dominant = unschedulable.dominant
    first = condition.reasons[0] if condition.reasons else None
    if first is None or not first.code:
        return unschedulable.is_told_by(condition.message)
    said = (first.reason, first.code, first.subject)
    if said == (kai_reason(dominant), dominant.code, dominant.subject):
        return True
    are_of_room = first.code in _OF_ROOM and dominant.code in _OF_ROOM
    return are_of_room and _age_s(condition, now) < SETTLES_S


def _age_s(condition: SchedulingCondition, now: str) -> float:
    since, now_s = condition.last_transition_time, timestamp_s(now)
    return inf if since is None or now_s is None else now_s - since.timestamp()


def _transition(condition: SchedulingCondition | None) -> int:
    text = condition.transition_id if condition else ""
    return parse_int(text) or 0
