"""Volumes that wait for their first consumer: told which node, awaited until they are bound."""

from collections.abc import Iterator

from muster.api.core import Node, Pod
from muster.api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM
from muster.api.meta import Key
from muster.api.storage import PersistentVolume, PersistentVolumeClaim
from muster.services.binder.cluster_view import (
    BindAttempt,
    ClusterView,
    Failed,
    NeedsWrites,
    Patch,
    Ready,
    State,
    Waiting,
    Write,
)
from muster.services.binder.settings import BinderSettings

SELECTED_NODE = "volume.kubernetes.io/selected-node"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"


class BindVolumes:
    """A volume that exists already is taken before one is asked to be made."""

    name = "volumes"

    def __init__(self, settings: BinderSettings) -> None:
        self._settings = settings

    def state(self, attempt: BindAttempt, cluster: ClusterView) -> State:
        writes: list[Write] = []
        unbound: list[str] = []
        for key in volume_claims(attempt.pod):
            claim = cluster.volume_claim(key)
            if claim is None:
                return Failed(f"volume claim {key.name} does not exist")
            if is_bound(claim):
                volume = _volume_of(claim, cluster)
                if volume is not None and not reaches(volume, attempt.node):
                    return Failed(f"volume {volume.metadata.name} cannot be used on this node")
                continue
            if not _waits_for_consumer(claim, cluster):
                return Failed(f"volume claim {key.name} is not bound and does not wait for a pod")
            unbound.append(key.name)
            writes += _binding_writes(attempt, claim, cluster)
        if writes:
            return NeedsWrites(tuple(writes))
        if unbound:
            until_s = _requested_at_s(attempt) + self._settings.bind_timeout_s
            return Waiting(f"volume claims {', '.join(unbound)} are not bound yet", until_s)
        return Ready()

    def undo(self, attempt: BindAttempt, cluster: ClusterView) -> tuple[Write, ...]:
        """An unbound claim forgets the node, so that the next attempt may choose another."""
        return tuple(
            _on_node(claim, None)
            for key in volume_claims(attempt.pod)
            if (claim := cluster.volume_claim(key))
            and not is_bound(claim)
            and SELECTED_NODE in claim.metadata.annotations
        )


def volume_claims(pod: Pod) -> Iterator[Key]:
    """Claims of the pod, those made for it alone included."""
    return (Key(pod.metadata.namespace, name) for name in pod.volume_claim_names)


def is_bound(claim: PersistentVolumeClaim) -> bool:
    completed = BIND_COMPLETED in claim.metadata.annotations
    return bool(claim.spec.volume_name) and (completed or claim.status.phase == "Bound")


def reaches(volume: PersistentVolume, node: Node) -> bool:
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return True
    return affinity.required.matches(node.metadata.name, node.metadata.labels)


def _volume_of(claim: PersistentVolumeClaim, cluster: ClusterView) -> PersistentVolume | None:
    found = (one for one in cluster.volumes() if one.metadata.name == claim.spec.volume_name)
    return next(found, None)


def _waits_for_consumer(claim: PersistentVolumeClaim, cluster: ClusterView) -> bool:
    name = claim.spec.storage_class_name
    found = cluster.storage_class(name) if name else None
    return found is not None and found.waits_for_consumer


def _binding_writes(
    attempt: BindAttempt, claim: PersistentVolumeClaim, cluster: ClusterView
) -> Iterator[Write]:
    node = attempt.node.metadata.name
    if claim.spec.volume_name or _promised(claim, cluster):
        return
    volume = _fitting_volume(claim, attempt.node, cluster)
    if volume is not None:
        yield _promise(volume, claim)
    elif claim.metadata.annotations.get(SELECTED_NODE) != node:
        yield _on_node(claim, node)


def _on_node(claim: PersistentVolumeClaim, node: str | None) -> Patch:
    meta, annotations = claim.metadata, {SELECTED_NODE: node}
    patch = {"metadata": {"annotations": annotations}}
    return Patch(PERSISTENT_VOLUME_CLAIM, meta.key, patch, uid=meta.uid)


def _promised(claim: PersistentVolumeClaim, cluster: ClusterView) -> bool:
    """Whether a volume is already kept for the claim."""
    return any(
        one.spec.claim_ref is not None and one.spec.claim_ref.uid == claim.metadata.uid
        for one in cluster.volumes()
    )


def _fitting_volume(
    claim: PersistentVolumeClaim, node: Node, cluster: ClusterView
) -> PersistentVolume | None:
    """The smallest free volume that satisfies the claim and reaches the node."""
    fitting = [
        volume
        for volume in cluster.volumes()
        if volume.is_available and volume.satisfies(claim) and reaches(volume, node)
    ]
    return min(fitting, key=lambda one: (one.size, one.metadata.name), default=None)


def _promise(volume: PersistentVolume, claim: PersistentVolumeClaim) -> Patch:
    """Keeps the volume for the claim; the volume controller completes the binding."""
    reference = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": claim.metadata.namespace,
        "name": claim.metadata.name,
        "uid": claim.metadata.uid,
    }
    patch = {
        "metadata": {"annotations": {BOUND_BY_CONTROLLER: "yes"}},
        "spec": {"claimRef": reference},
    }
    version = volume.metadata.resource_version
    return Patch(PERSISTENT_VOLUME, Key("", volume.metadata.name), patch, "", version)


def _requested_at_s(attempt: BindAttempt) -> float:
    created = attempt.request.metadata.creation_timestamp
    return created.timestamp() if created else attempt.now_s
