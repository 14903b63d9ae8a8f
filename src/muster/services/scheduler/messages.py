"""What people read about a decision: events, conditions, and when they are worth writing. Pure."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any

from muster.api import names, volcano
from muster.api.codec import builtins
from muster.api.coordination import ObjectReference
from muster.api.core import Pod
from muster.api.podgroup import PodGroup, SchedulingCondition
from muster.base.parse_int import parse_int
from muster.base.timefmt import rfc3339
from muster.base.visible import visible
from muster.model.build import staleness_grace_s
from muster.model.public_reasons import PublicReason, Why
from muster.model.reason_codes import Code
from muster.services.scheduler.kai_texts import (
    Waiter,
    kai_details,
    kai_reason,
    kai_sentence,
    lead,
    node_pool,
    prefix,
    stale,
)

LONGEST_EVENT = 1000
"""Letters of an event's text: Kubernetes takes 1,024."""
_OF_ROOM = frozenset(
    {Code.NO_ROOM, Code.FRAGMENTED, Code.TOPOLOGY_FULL, Code.BEHIND_OTHERS, Code.NOT_LOOKED_AT}
)
"""Codes that follow each other with every job that starts or ends."""
_OF_PODS_TO_COME = frozenset({Code.PODS_MISSING, Code.GATED})
"""Codes whose numbers settle as soon as the pods are there, and are wrong until then."""


class Telling(Enum):
    """What a text that is there has of what would be written now."""

    ALL = auto()
    """It is the same text."""
    NUMBERS_ASIDE = auto()
    """The same code and subject, or another code about room, which may be back in a moment."""
    NOTHING = auto()


@dataclass(frozen=True, slots=True)
class UnschedulableMessage:
    """Why a group is unschedulable: the text, and each reason for programs."""

    dominant: PublicReason
    message: str
    reasons: tuple[Mapping[str, Any], ...]
    pool: str = ""
    """What is said before everything."""
    lead: str = ""
    """Of the group's text alone, in front of what is said of its pod."""

    @property
    def of_pods(self) -> "UnschedulableMessage":
        """The same for each pod."""
        said = self.message.removeprefix(self.pool).removeprefix(self.lead)
        return replace(self, message=f"{self.pool}{said}", lead="")

    def told_in(self, message: str) -> Telling:
        """How much of it a text of ours tells."""
        if message == self.message:
            return Telling.ALL
        return Telling.NUMBERS_ASIDE if self._names_the_same(message) else Telling.NOTHING

    def _names_the_same(self, message: str) -> bool:
        dominant = self.dominant
        if dominant.code in _OF_ROOM and any(_names(message, code) for code in _OF_ROOM):
            return True
        is_of_it = _names(message, dominant.code) and dominant.subject in message
        if dominant.code is not Code.ABOVE_LIMIT:
            return is_of_it
        bound = "limit" if "limit" in dominant.evidence else "quota"
        return is_of_it and f"({bound}" in message


def _names(message: str, code: Code) -> bool:
    return f"{code}. " in message or f"{code}: " in message


_ANYBODY = Waiter()


def unschedulable_message(
    why: Why, who: Waiter = _ANYBODY, workload: str = ""
) -> UnschedulableMessage:
    """The dominant reason for people, KAI's words first; each reason for programs. `workload` is
    what makes the pods.
    """
    reasons = tuple(_explanation(one, who) for one in why.all)
    message = _whole_text(why.dominant, who)
    if workload and why.dominant.code is Code.PODS_MISSING:
        missing = f"{workload} has not made the others. {why.dominant.next_step}"
        message = message.replace(why.dominant.next_step, missing)
    if why.no_eviction_because:
        told = why.no_eviction_because[:_MOST_OF_EVICTION]
        others = " ".join(visible(kai_sentence(one, who)) or one.sentence for one in told)
        message = f"{message} {others}"
    pool = node_pool(who)
    return UnschedulableMessage(
        why.dominant, f"{pool}{message}", reasons, pool, visible(lead(why.dominant, who))
    )


_MOST_OF_EVICTION = 2


def _whole_text(reason: PublicReason, who: Waiter) -> str:
    """With KAI's word in front. Where that is our code too, it is said once, and KAI's way."""
    text, code = _text(reason, who), str(reason.code)
    if text.startswith(f"{code}. ") and kai_reason(reason) == code:
        return text.replace(f"{code}. ", f"{code}: ", 1)
    return f"{prefix(reason, who)}{text}"


def _text(reason: PublicReason, who: Waiter) -> str:
    return visible(f"{kai_sentence(reason, who)} {reason.text}".strip())


def _explanation(reason: PublicReason, who: Waiter) -> Mapping[str, Any]:
    found: dict[str, Any] = {
        "reason": kai_reason(reason),
        "message": _text(reason, who),
        "code": str(reason.code),
        "category": str(reason.category),
        "subject": reason.subject,
    }
    details = kai_details(reason)
    return {**found, "details": details} if details else found


def shortened(message: str) -> str:
    """As an event can hold it."""
    return message if len(message) <= LONGEST_EVENT else f"{message[:LONGEST_EVENT]}..."


def told_by_conditions(group: PodGroup, pool: str, unschedulable: UnschedulableMessage) -> Telling:
    """How much of it the group's newest condition tells."""
    listed = group.status.scheduling_conditions
    newest = max(listed, key=_transition, default=None)
    if newest is None or listed[-1] is not newest or not _is_ours(newest, pool):
        return Telling.NOTHING
    if _is_all_told(newest, unschedulable):
        return Telling.ALL
    return Telling.NUMBERS_ASIDE if _tells(newest, unschedulable) else Telling.NOTHING


def scheduling_conditions(
    group: PodGroup, pool: str, unschedulable: UnschedulableMessage, now: str
) -> list[dict[str, Any]]:
    """The group's conditions with ours last."""
    listed = group.status.scheduling_conditions
    newest = max(listed, key=_transition, default=None)
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


def stale_message(group: PodGroup, placed: Sequence[Pod], since_s: float, grace_s: float) -> str:
    """KAI's sentence, then what comes of it, and when. `placed`: its pods that have a node;
    `grace_s`: for groups that name none.
    """
    said = stale(
        group, Counter(pod.metadata.labels.get(names.LABEL_SUBGROUP, "") for pod in placed)
    )
    own_s = staleness_grace_s(group)
    patience_s = grace_s if own_s is None else own_s
    if patience_s < 0 or math.isinf(patience_s):
        return f"{said}. The others run on, however long it lasts."
    return (
        f"{said}. If it is not whole again by {rfc3339(since_s + patience_s)}, those that run are "
        "evicted, and it starts anew."
    )


_OF_OTHERS = (volcano.ANNOTATION_GROUP, volcano.ANNOTATION_GROUP_OF_VOLCANO)


def missing_group_message(pod: Pod) -> str:
    """For the pod itself: without a group no cycle has anything to say of it."""
    notes = pod.metadata.annotations
    group = notes.get(names.ANNOTATION_POD_GROUP, "")
    owner = pod.metadata.controller
    said = next((name for name in _OF_OTHERS if notes.get(name)), names.ANNOTATION_POD_GROUP)
    if said == names.ANNOTATION_POD_GROUP and owner is not None and group == owner.uid:
        # As kube-batch 0.2 has it: a budget of its controller would do too.
        return f"the pod names no pod group: name one by the annotation {volcano.ANNOTATION_GROUP}"
    return (
        f"pod group {pod.metadata.namespace}/{group} does not exist: create it, or take the "
        f"annotation {said} off the pod"
    )


def missing_pool_message(pool: str, label: str) -> str:
    """For a pod whose group is of a pool that nobody serves."""
    return (
        f"no node is in node pool {pool}: correct the label {label} of the workload, or label "
        "nodes with it and run a scheduler for that pool"
    )


def has_unschedulable_condition(pod: Pod, message: str) -> bool:
    return _unschedulable_text(pod) == message


def told_by_pod(pod: Pod, unschedulable: UnschedulableMessage) -> Telling:
    """How much of it the pod's condition tells."""
    return unschedulable.told_in(_unschedulable_text(pod))


def _unschedulable_text(pod: Pod) -> str:
    """What the pod says of why it waits; "" where that is not ours."""
    found = pod.status.condition(names.CONDITION_POD_SCHEDULED)
    if found is None or (found.status, found.reason) != ("False", names.REASON_UNSCHEDULABLE):
        return ""
    return found.message


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


def _is_ours(condition: SchedulingCondition, pool: str) -> bool:
    return (condition.type, condition.node_pool, condition.status) == (
        names.CONDITION_UNSCHEDULABLE_ON_NODE_POOL,
        pool,
        "True",
    )


def _is_all_told(condition: SchedulingCondition, unschedulable: UnschedulableMessage) -> bool:
    said = [(one.reason, one.message) for one in condition.reasons]
    wanted = [(one["reason"], one["message"]) for one in unschedulable.reasons]
    return condition.message == unschedulable.message and said == wanted


def _tells(condition: SchedulingCondition, unschedulable: UnschedulableMessage) -> bool:
    """By code and subject, which a CustomResourceDefinition of KAI's may have dropped: then by
    the text. KAI's word counts too: it tells a limit from a quota, which have one code where they
    can never hold the job.
    """
    dominant = unschedulable.dominant
    first = condition.reasons[0] if condition.reasons else None
    if first is None or not first.code:
        return unschedulable.told_in(condition.message) is not Telling.NOTHING
    if dominant.code in _OF_PODS_TO_COME and condition.message != unschedulable.message:
        return False
    said = (first.reason, first.code, first.subject)
    if said == (kai_reason(dominant), dominant.code, dominant.subject):
        return True
    return first.code in _OF_ROOM and dominant.code in _OF_ROOM


def _transition(condition: SchedulingCondition | None) -> int:
    text = condition.transition_id if condition else ""
    return parse_int(text) or 0
