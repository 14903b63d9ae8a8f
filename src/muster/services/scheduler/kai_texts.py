"""What KAI says of the same things: words and fields that people's tools match on. Pure.

Our own sentence follows KAI's. Where KAI has none, ours stands alone.
"""

from collections.abc import Mapping
from typing import Any

from muster.api import names
from muster.base.timefmt import rfc3339
from muster.model.public_reasons import PublicReason
from muster.model.reason_codes import Code
from muster.model.reasons import Reason, Refusal
from muster.numerics.axis import GPU_UNIT

_REASONS = {
    Reason.QUEUE_MISSING: names.REASON_QUEUE_DOES_NOT_EXIST,
    Reason.QUEUE_PARENT_MISSING: names.REASON_QUEUE_DOES_NOT_EXIST,
    Reason.OVER_LIMIT: names.REASON_OVER_LIMIT,
    Reason.OVER_QUOTA: names.REASON_NON_PREEMPTIBLE_OVER_QUOTA,
    Reason.PREEMPTION_DELAY: names.REASON_PREEMPTION_DELAY,
}


def kai_reason(reason: PublicReason) -> str:
    """KAI's word for it."""
    if reason.refusal is None:
        return names.REASON_POD_SCHEDULING_ERRORS
    return _REASONS.get(reason.refusal.reason, names.REASON_POD_SCHEDULING_ERRORS)


def kai_sentence(reason: PublicReason) -> str:
    """KAI's sentence; "" where it has none that ours does not begin with."""
    refusal = reason.refusal
    if refusal is None:
        return ""
    match refusal.reason:
        case Reason.TOO_FEW_TASKS | Reason.GATED:
            return _not_ready(refusal)
        case Reason.OVER_LIMIT if refusal.evidence:
            return _over_limit(refusal)
        case Reason.OVER_QUOTA if refusal.evidence:
            return _over_quota(refusal)
        case Reason.PREEMPTION_DELAY:
            return (
                "Workload is within its preemption delay window and may not trigger evictions "
                f"before {rfc3339(refusal.until_s)}."
            )
        case Reason.TOPOLOGY_MISSING:
            return f"Requested topology {refusal.subject} does not exist."
        case Reason.UNKNOWN_SUB_GROUP:
            return f'Pod references subgroup "{refusal.subject}", which does not exist.'
        case Reason.NO_NODE if reason.code is not Code.BEHIND_OTHERS:
            return _no_node(refusal)
        case _:
            return ""


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


def _not_ready(refusal: Refusal) -> str:
    part = f" for SubGroup {refusal.sub_group}" if refusal.sub_group else ""
    return (
        f"Job is not ready for scheduling. Waiting for {refusal.minimum} pods{part}, currently "
        f"{refusal.found + refusal.gated} exist, {refusal.gated} are gated."
    )


_UNITS = {"gpu": ("GPUs", GPU_UNIT), "cpu": ("CPU cores", 1000), "memory": ("memory", 10**9)}


def _number(resource: str, units: int) -> str:
    if units < 0:
        return "Unlimited"
    return f"{units / _UNITS[resource][1]:.3f}".rstrip("0").rstrip(".")


def _over_limit(refusal: Refusal) -> str:
    (e,) = refusal.evidence
    word, _ = _UNITS[e.resource]
    limit, held, need = (_number(e.resource, units) for units in (e.bound, e.held, e.need))
    return (
        f"{refusal.subject} quota has reached the allowable limit of {word}. Limit is {limit} "
        f"{word}, currently {held} {word} allocated and workload requested {need} {word}."
    )


def _over_quota(refusal: Refusal) -> str:
    (e,) = refusal.evidence
    word, _ = _UNITS[e.resource]
    quota, held, need = (_number(e.resource, units) for units in (e.bound, e.held, e.need))
    return (
        f"Non-preemptible workload is over quota. Workload requested {need} {word}, but "
        f"{refusal.subject} quota is {quota} {word}, while {held} {word} are already allocated for "
        "non-preemptible pods. Use a preemptible workload to go over quota."
    )


def _no_node(refusal: Refusal) -> str:
    if refusal.minimum <= 1:
        return "Resources were not found: no nodes with enough resources were found."
    return (
        f"Resources were found for {refusal.found} pods while {refusal.minimum} are required for "
        "gang scheduling."
    )


def _resource_list(resource: str, units: int) -> dict[str, str]:
    if units < 0:
        return {}
    if resource == "memory":
        return {resource: str(units)}
    whole, part = divmod(units, 1000)
    name = names.RESOURCE_NVIDIA_GPU if resource == "gpu" else resource
    return {name: f"{units}m" if part else str(whole)}
