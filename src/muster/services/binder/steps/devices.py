"""Resource claims: the devices that the scheduler chose, written where the kubelet reads them."""

from collections.abc import Iterator, Sequence
from typing import Any

from muster.api import names
from muster.api.bindrequest import ExtendedResourceClaimAllocation
from muster.api.codec import builtins
from muster.api.core import Pod
from muster.api.devices import (
    POD_GROUP_API,
    AllocationResult,
    ResourceClaim,
    ResourceClaimConsumer,
)
from muster.api.kinds import POD, RESOURCE_CLAIM
from muster.api.meta import Key
from muster.services.binder.cluster_view import (
    BindAttempt,
    ClusterView,
    Create,
    Delete,
    Failed,
    NeedsWrites,
    Patch,
    Ready,
    State,
    Write,
)

FINALIZER = "resource.kubernetes.io/delete-protection"


class AllocateDevices:
    """Each claim is allocated and reserved in one write, which fails if it changed: for the pod, or
    for its PodGroup, if that holds the claim for all its pods.
    """

    name = "dynamic_resources"

    def state(self, attempt: BindAttempt, cluster: ClusterView) -> State:
        writes: list[Write] = []
        for chosen in attempt.request.spec.resource_claim_allocations:
            key = claim_key(attempt.pod, chosen.name)
            claim = cluster.claim(key) if key else None
            if claim is None:
                return Failed(f"resource claim {chosen.name} of the pod does not exist")
            if chosen.allocation is None:
                return Failed(f"the request allocates nothing to resource claim {chosen.name}")
            conflict = _conflict(claim, chosen.allocation)
            if conflict:
                return Failed(conflict)
            user = _consumer(attempt.pod, chosen.name, claim, cluster)
            writes += _claim_writes(user, claim, chosen.allocation)
        extended = attempt.request.spec.extended_resource_claim_allocation
        if extended is not None:
            writes += _extended_writes(attempt.pod, extended, cluster)
        return NeedsWrites(tuple(writes)) if writes else Ready()

    def undo(self, attempt: BindAttempt, cluster: ClusterView) -> tuple[Write, ...]:
        found: list[Write] = []
        for chosen in attempt.request.spec.resource_claim_allocations:
            key = claim_key(attempt.pod, chosen.name)
            claim = cluster.claim(key) if key else None
            if claim is not None:
                # What a PodGroup holds other pods of it may be about to use: that stays.
                found += _release(attempt.pod, claim)
        name = extended_claim_name(attempt.pod)
        claim = cluster.claim(Key(attempt.pod.metadata.namespace, name))
        if (
            attempt.request.spec.extended_resource_claim_allocation is not None
            and claim is not None
        ):
            # Freed before it is deleted, else its finalizer keeps it for ever.
            found += _release(attempt.pod, claim)
            found.append(Delete(RESOURCE_CLAIM, claim.metadata.key, claim.metadata.uid))
        return tuple(found)


def claim_key(pod: Pod, use: str) -> Key | None:
    """The claim behind an entry of the pod's resourceClaims; None while there is none."""
    name = pod.claim_names.get(use)
    return Key(pod.metadata.namespace, name) if name else None


def named_claims(pod: Pod) -> Iterator[Key]:
    """Claims that the pod, or its status, names: it perhaps shares them with others."""
    return (Key(pod.metadata.namespace, name) for name in pod.claim_names.values())


def owning_pods(claim: ResourceClaim) -> Iterator[Key]:
    """The pod that a claim was made for, if it was made for one."""
    for owner in claim.metadata.owner_references:
        if owner.kind == "Pod":
            yield Key(claim.metadata.namespace, owner.name)


def extended_claim_name(pod: Pod) -> str:
    """One per pod, named so that a second attempt finds the first one's."""
    return f"{pod.metadata.name[:230].rstrip('.-')}-extended-resources-{pod.metadata.uid[:8]}"


def _conflict(claim: ResourceClaim, chosen: AllocationResult) -> str:
    """Why the claim cannot have these devices: somebody gave it others meanwhile."""
    have = claim.status.allocation
    if have is None or have.devices.results == chosen.devices.results:
        return ""
    return f"resource claim {claim.metadata.name} holds other devices than the request allocates"


def _claim_writes(
    user: ResourceClaimConsumer, claim: ResourceClaim, chosen: AllocationResult
) -> Iterator[Write]:
    have = claim.status.reserved_for
    is_reserved = any(one.uid == user.uid for one in have)
    if claim.status.allocation is not None and is_reserved:
        return
    version, key = claim.metadata.resource_version, claim.metadata.key
    if FINALIZER not in claim.metadata.finalizers:
        finalizers = [*claim.metadata.finalizers, FINALIZER]
        yield Patch(
            RESOURCE_CLAIM, key, {"metadata": {"finalizers": finalizers}}, resource_version=version
        )
        return  # The claim has a new version now: allocated at the next look.
    users = have if is_reserved else (*have, user)
    status: dict[str, Any] = {"reservedFor": [builtins(one) for one in users]}
    if claim.status.allocation is None:
        status["allocation"] = builtins(chosen)
    yield Patch(RESOURCE_CLAIM, key, {"status": status}, "status", version)


def _release(pod: Pod, claim: ResourceClaim) -> Iterator[Write]:
    others = [one for one in claim.status.reserved_for if one.uid != pod.metadata.uid]
    if len(others) < len(claim.status.reserved_for):
        yield released(claim, others)


def released(claim: ResourceClaim, others: Sequence[ResourceClaimConsumer]) -> Patch:
    """The claim is left to the others; without any its devices are given back."""
    status: dict[str, Any] = {"reservedFor": [builtins(one) for one in others] or None}
    if not others:
        status["allocation"] = None
    version = claim.metadata.resource_version
    return Patch(RESOURCE_CLAIM, claim.metadata.key, {"status": status}, "status", version)


def _consumer(
    pod: Pod, use: str, claim: ResourceClaim, cluster: ClusterView
) -> ResourceClaimConsumer:
    """For whom an entry of the pod's resourceClaims is reserved: its PodGroup, if the claim was
    made for that, or if that has the same entry; otherwise the pod.
    """
    owner = claim.pod_group
    if owner is not None:
        return _of_group(owner.name, owner.uid)
    group = cluster.native_group(pod)
    held = ((group or {}).get("spec") or {}).get("resourceClaims") or ()
    if group is not None and any(
        (one.get("name"), one.get("resourceClaimName")) == (use, claim.metadata.name)
        for one in held
    ):
        return _of_group(group["metadata"]["name"], group["metadata"]["uid"])
    return _of_pod(pod)


def _of_group(name: str, uid: str) -> ResourceClaimConsumer:
    return ResourceClaimConsumer(api_group=POD_GROUP_API, resource="podgroups", name=name, uid=uid)


def _of_pod(pod: Pod) -> ResourceClaimConsumer:
    return ResourceClaimConsumer(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)


def _extended_writes(
    pod: Pod, chosen: ExtendedResourceClaimAllocation, cluster: ClusterView
) -> Iterator[Write]:
    """A claim made for resources that containers ask for by name."""
    key = Key(pod.metadata.namespace, extended_claim_name(pod))
    claim = cluster.claim(key)
    if claim is None:
        yield Create(RESOURCE_CLAIM, _extended_claim(pod, key.name, chosen))
        return
    if chosen.allocation is not None:
        pending = list(_claim_writes(_of_pod(pod), claim, chosen.allocation))
        yield from pending
        if pending:
            return
    said = pod.status.extended_resource_claim_status
    if said is None or said.resource_claim_name != key.name:
        mappings = [builtins(one) for one in chosen.container_mappings]
        status = {"resourceClaimName": key.name, "requestMappings": mappings}
        patch = {"status": {"extendedResourceClaimStatus": status}}
        yield Patch(POD, pod.key, patch, "status", uid=pod.metadata.uid)


def _extended_claim(pod: Pod, name: str, chosen: ExtendedResourceClaimAllocation) -> dict[str, Any]:
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": pod.metadata.name,
        "uid": pod.metadata.uid,
        "controller": True,
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": name,
            "namespace": pod.metadata.namespace,
            "annotations": {names.ANNOTATION_EXTENDED_RESOURCE_CLAIM: "true"},
            "ownerReferences": [owner],
            "finalizers": [FINALIZER],
        },
        "spec": {"devices": {"requests": [builtins(one) for one in chosen.device_requests]}},
    }
