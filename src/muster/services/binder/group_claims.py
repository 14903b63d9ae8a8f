"""When a claim that is reserved for a PodGroup is given up for another try elsewhere. Pure.

Such a claim keeps its devices while pods of the group come and go, and so ties all of them to where
the devices are. If none of them could be placed there, the devices are given back: the next attempt
may find others. Kubernetes' own scheduler does the same; all else (the group is deleted) is done by
Kubernetes' claim controller.
"""

from collections.abc import Sequence
from typing import Protocol

from muster.api import names
from muster.api.core import Pod
from muster.api.devices import ResourceClaim, ResourceClaimConsumer
from muster.api.meta import Key
from muster.services.binder.cluster_view import Patch
from muster.services.binder.steps.devices import released


class GroupMembers(Protocol):
    """What is read of the cluster: see `ClusterView`."""

    def members(self, group: Key) -> Sequence[Pod]: ...

    def is_being_bound(self, pod: Pod) -> bool: ...


def given_up(claim: ResourceClaim, cluster: GroupMembers) -> Patch | None:
    """The write that gives the claim up for groups that wait in vain; None if there are none."""
    vain = [one for one in claim.status.reserved_for if _waits_in_vain(claim, one, cluster)]
    others = [one for one in claim.status.reserved_for if one not in vain]
    return released(claim, others) if vain else None


def groups_with(claim: ResourceClaim) -> Sequence[Key]:
    """The groups that a claim is reserved for."""
    consumers = claim.status.reserved_for
    namespace = claim.metadata.namespace
    return [Key(namespace, one.name) for one in consumers if one.is_pod_group]


def _waits_in_vain(
    claim: ResourceClaim, consumer: ResourceClaimConsumer, cluster: GroupMembers
) -> bool:
    if not consumer.is_pod_group:
        return False
    pods = cluster.members(Key(claim.metadata.namespace, consumer.name))
    alive = [pod for pod in pods if not pod.has_ended]
    if any(pod.spec.node_name or cluster.is_being_bound(pod) for pod in alive):
        return False
    return any(_is_refused(pod) for pod in alive)


def _is_refused(pod: Pod) -> bool:
    condition = pod.status.condition(names.CONDITION_POD_SCHEDULED)
    return (
        condition is not None
        and (condition.status, condition.reason) == ("False", names.REASON_UNSCHEDULABLE)
        and pod.metadata.deletion_timestamp is None
    )
