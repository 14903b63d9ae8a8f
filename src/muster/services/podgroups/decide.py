"""Pods -> PodGroup status: what the group asks for and holds, and whether its gang is whole.

The phase says in one word what the conditions say in full, for `kubectl get`, and `pending` that
pods of a gang that runs still wait. Both are ours: where the installed CRD does not know them, the
server drops them, and nothing reads them back.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from muster.api import names
from muster.api.conditions import condition
from muster.api.core import Pod, ResourceList
from muster.api.meta import OwnerReference
from muster.api.podgroup import PodGroup, SubGroup, by_parent, is_preemptible
from muster.api.validation.pod_groups import is_tree
from muster.services.podgroups.amounts import (
    ClaimOf,
    NodeOf,
    allocated,
    holds_node,
    is_waiting,
    requested,
    total,
)

GANG_SATISFIED = "GangSatisfied"


class PodGroupPhase(StrEnum):
    PENDING = "Pending"
    """No pod holds a node."""
    STARTING = "Starting"
    """Some pods hold a node, fewer than the gang needs."""
    RUNNING = "Running"
    """The gang is whole."""
    COMPLETED = "Completed"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class PodGroupView:
    """What else the status depends on."""

    node_of: NodeOf
    claim_of: ClaimOf
    priority_of: Callable[[str], int | None]
    """Value of a PriorityClass by name, None when it does not exist."""
    default_priority: Callable[[], int | None] = lambda: None
    """That of the class marked as the cluster's default."""


@dataclass(frozen=True, slots=True)
class Gang:
    """Whether every minimum is met, and the first that is not."""

    is_satisfied: bool
    message: str


def _is_preemptible(group: PodGroup, cluster: PodGroupView) -> bool:
    value = cluster.priority_of(group.spec.priority_class_name)
    if value is None:
        value = cluster.default_priority()
    if value is None:
        value = names.DEFAULT_POD_GROUP_PRIORITY
    return is_preemptible(group.spec.preemptibility, value)


def status_patch(
    group: PodGroup, pods: Sequence[Pod], cluster: PodGroupView, now: str, keeps_phase: bool = True
) -> Mapping[str, Any] | None:
    """A merge patch of the status, None when it says already what it should.

    `keeps_phase`: whether the server stores the phase; where not, it is no reason for a write.
    """
    wanted = total(requested(pod, cluster.claim_of) for pod in pods)
    held = total(allocated(pod, cluster.node_of, cluster.claim_of) for pod in pods)
    firm = {} if _is_preemptible(group, cluster) else held
    have = group.status.resources_status
    resources = _changes(
        {
            "requested": (have.requested, wanted),
            "allocated": (have.allocated, held),
            "allocatedNonPreemptible": (have.allocated_non_preemptible, firm),
        }
    )
    patch: dict[str, Any] = {"resourcesStatus": resources} if resources else {}
    gang = gang_of(group, pods)
    if not _has_condition(group, gang):
        patch["conditions"] = _conditions(group, gang, now)
    phase, pending = phase_of(pods, gang), sum(map(is_waiting, pods))
    if patch or (keeps_phase and (phase, pending) != (group.status.phase, group.status.pending)):
        patch |= {"phase": phase.value, "pending": pending}
    return {"status": patch} if patch else None


def native_condition(group: PodGroup, pods: Sequence[Pod], now: str) -> Mapping[str, str] | None:
    """The condition of the PodGroup of Kubernetes' own that this group was made for; None
    while its condition stays as it is."""
    if native_owner(group) is None:
        return None
    gang = gang_of(group, pods)
    before = next((one for one in group.status.conditions if one.type == GANG_SATISFIED), None)
    status = "True" if gang.is_satisfied else "False"
    if before is not None and before.status == status:
        return None
    kind, is_whole = names.CONDITION_POD_GROUP_SCHEDULED, gang.is_satisfied
    reason = "Scheduled" if is_whole else names.REASON_UNSCHEDULABLE
    return condition(kind, is_whole, reason, gang.message, now)


def native_owner(group: PodGroup) -> OwnerReference | None:
    for owner in group.metadata.owner_references:
        if owner.api_version.startswith("scheduling.k8s.io/") and owner.kind == "PodGroup":
            return owner
    return None


def phase_of(pods: Sequence[Pod], gang: Gang) -> PodGroupPhase:
    alive = [pod for pod in pods if not pod.has_ended]
    if pods and not alive:
        failed = any(pod.status.phase == "Failed" for pod in pods)
        return PodGroupPhase.FAILED if failed else PodGroupPhase.COMPLETED
    if not any(holds_node(pod) for pod in alive):
        return PodGroupPhase.PENDING
    return PodGroupPhase.RUNNING if gang.is_satisfied else PodGroupPhase.STARTING


def gang_of(group: PodGroup, pods: Sequence[Pod]) -> Gang:
    """A pod that has succeeded did its part: its gang is no smaller for it."""
    counts: dict[str, int] = {}
    for pod in pods:
        if holds_node(pod) or pod.status.phase == "Succeeded":
            part = pod.metadata.labels.get(names.LABEL_SUBGROUP, names.DEFAULT_SUBGROUP)
            counts[part] = counts.get(part, 0) + 1
    if not group.spec.sub_groups or not is_tree(group.spec.sub_groups):
        # What is not a tree the scheduler takes for a single gang too.
        minimum = 1 if group.spec.min_member is None else group.spec.min_member
        return _judged(sum(counts.values()), minimum, "pods hold a node")
    children = by_parent(group.spec.sub_groups)
    satisfied = [part for part in children[None] if _is_satisfied(part, children, counts)]
    needed = group.spec.min_sub_group
    return _judged(
        len(satisfied), len(children[None]) if needed is None else needed, "sub-groups are whole"
    )


def _judged(have: int, needed: int, what: str) -> Gang:
    return Gang(have >= needed, f"{have} {what}, {needed} needed")


def _is_satisfied(
    part: SubGroup, children: Mapping[str | None, Sequence[SubGroup]], counts: Mapping[str, int]
) -> bool:
    below = children.get(part.name)
    if not below:
        return counts.get(part.name, 0) >= (part.min_member or 0)
    whole = sum(_is_satisfied(child, children, counts) for child in below)
    return whole >= (len(below) if part.min_sub_group is None else part.min_sub_group)


def _changes(parts: Mapping[str, tuple[ResourceList, ResourceList]]) -> dict[str, Any]:
    """Per part, what a merge patch must say to turn the first list into the second."""
    found: dict[str, Any] = {}
    for name, (have, want) in parts.items():
        changed: dict[str, str | None] = {
            key: str(amount) for key, amount in want.items() if have.get(key) != amount
        }
        changed |= {key: None for key in have if key not in want}
        if changed:
            found[name] = changed
    return found


def _has_condition(group: PodGroup, gang: Gang) -> bool:
    now = next((one for one in group.status.conditions if one.type == GANG_SATISFIED), None)
    status = "True" if gang.is_satisfied else "False"
    return now is not None and (now.status, now.message) == (status, gang.message)


def _conditions(group: PodGroup, gang: Gang, now: str) -> list[dict[str, Any]]:
    """All conditions: a merge patch replaces the list, so the others are repeated as they are."""
    kept = [one for one in group.status.conditions if one.type != GANG_SATISFIED]
    old = next((one for one in group.status.conditions if one.type == GANG_SATISFIED), None)
    status = "True" if gang.is_satisfied else "False"
    reason = "MinimumMet" if gang.is_satisfied else "BelowMinimum"
    changed_at = now
    if old is not None and old.status == status and old.last_transition_time is not None:
        changed_at = old.last_transition_time.strftime("%Y-%m-%dT%H:%M:%SZ")
    return [
        *(msgspec.to_builtins(one) for one in kept),
        condition(GANG_SATISFIED, gang.is_satisfied, reason, gang.message, changed_at),
    ]
