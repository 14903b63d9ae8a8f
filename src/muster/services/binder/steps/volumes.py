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
        waits: list[str] = []
        for key in volume_claims(attempt.pod):
            claim = cluster.volume_claim(key)
            if claim is None:
                return Failed(f"volume claim {key.name} does not exist")
            volume = _volume_of(claim, cluster) or _promised(claim, cluster)
            if volume is not None and not reaches(volume, attempt.node):
                return Failed(_out_of_reach(volume, claim, attempt, cluster))
            if is_bound(claim):
                continue
            if not _waits_for_consumer(claim, cluster):
                return Failed(f"volume claim {key.name} is not bound and does not wait for a pod")
            waits.append(f"volume claim {key.name} is not bound yet")
            if claim.spec.volume_name or volume is not None:
                continue
            if rival := _rival(attempt, claim, cluster):
                waits[-1] = rival
            else:
                writes += _binding_writes(attempt, claim, cluster)
        if writes:
            return NeedsWrites(tuple(writes))
        if waits:
            until_s = attempt.times.began_s + self._settings.bind_timeout_s
            return Waiting(", ".join(waits), until_s)
        return Ready()

    def undo(self, attempt: BindAttempt, cluster: ClusterView) -> tuple[Write, ...]:
        """An unbound claim forgets the node, so that the next attempt may choose another, unless
        another pod goes there.
        """
        node = attempt.request.spec.selected_node
        return tuple(
            _on_node(claim, None)
            for key in volume_claims(attempt.pod)
            if (claim := cluster.volume_claim(key))
            and not is_bound(claim)
            and claim.metadata.annotations.get(SELECTED_NODE) == node
            and _user_on(node, attempt.pod, claim, cluster) is None
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
    if not claim.spec.volume_name:
        return None
    found = (one for one in cluster.volumes() if one.metadata.name == claim.spec.volume_name)
    return next(found, None)


def _out_of_reach(
    volume: PersistentVolume,
    claim: PersistentVolumeClaim,
    attempt: BindAttempt,
    cluster: ClusterView,
) -> str:
    node = attempt.node.metadata.name
    why = f"volume {volume.metadata.name} of claim {claim.metadata.name} cannot be used on {node}"
    others = [
        f"pod {pod.key} on {there}"
        for pod in _other_users(attempt.pod, claim, cluster)
        if (there := _goes_to(pod, cluster)) not in ("", node)
    ]
    return f"{why}; it is shared with {', '.join(others[:3])}" if others else why


def _waits_for_consumer(claim: PersistentVolumeClaim, cluster: ClusterView) -> bool:
    name = claim.spec.storage_class_name
    found = cluster.storage_class(name) if name else None
    return found is not None and found.waits_for_consumer


def _rival(attempt: BindAttempt, claim: PersistentVolumeClaim, cluster: ClusterView) -> str:
    """Which other pod has chosen, or chooses first, where the volume is made; "" if none has.

    There is one volume for all of them, so there is one choice, and while the pod that made it is
    on its way nobody changes it.
    """
    name, node = claim.metadata.name, attempt.node.metadata.name
    chosen = claim.metadata.annotations.get(SELECTED_NODE, "")
    if chosen and chosen != node:
        user = _user_on(chosen, attempt.pod, claim, cluster)
        where = f"volume claim {name} is being bound for node {chosen}"
        return f"{where}, where pod {user.key} goes" if user is not None else ""
    if chosen:
        return ""
    mine = attempt.request.metadata.age_order
    for pod in _other_users(attempt.pod, claim, cluster):
        first = cluster.live_request(pod)
        if first is None or first.metadata.age_order >= mine:
            continue
        there = first.spec.selected_node
        # For the same node both would write the same; one that is in trouble is not awaited then.
        if there != node or not first.status.failed_attempts:
            return f"volume claim {name} will be bound for node {there}, where pod {pod.key} goes"
    return ""


def _other_users(pod: Pod, claim: PersistentVolumeClaim, cluster: ClusterView) -> Iterator[Pod]:
    for one in cluster.volume_users(claim.metadata.key):
        if one.metadata.uid != pod.metadata.uid and not one.has_ended:
            yield one


def _user_on(node: str, pod: Pod, claim: PersistentVolumeClaim, cluster: ClusterView) -> Pod | None:
    """Another user of the claim that is on the node, or on its way there."""
    others = _other_users(pod, claim, cluster)
    return next((one for one in others if _goes_to(one, cluster) == node), None)


def _goes_to(pod: Pod, cluster: ClusterView) -> str:
    if pod.spec.node_name:
        return pod.spec.node_name
    request = cluster.live_request(pod)
    return request.spec.selected_node if request is not None else ""


def _binding_writes(
    attempt: BindAttempt, claim: PersistentVolumeClaim, cluster: ClusterView
) -> Iterator[Write]:
    node = attempt.node.metadata.name
    if claim.metadata.annotations.get(SELECTED_NODE) == node:
        return  # One is being made.
    volume = _fitting_volume(claim, attempt.node, cluster)
    yield _on_node(claim, node) if volume is None else _promise(volume, claim)


def _on_node(claim: PersistentVolumeClaim, node: str | None) -> Patch:
    """Only if nobody else has changed the claim meanwhile: perhaps by choosing a node."""
    meta, annotations = claim.metadata, {SELECTED_NODE: node}
    patch = {"metadata": {"annotations": annotations}}
    version = meta.resource_version
    return Patch(PERSISTENT_VOLUME_CLAIM, meta.key, patch, "", version, uid=meta.uid)


def _promised(claim: PersistentVolumeClaim, cluster: ClusterView) -> PersistentVolume | None:
    """The volume that is already kept for the claim."""
    kept = (
        one
        for one in cluster.volumes()
        if one.spec.claim_ref is not None and one.spec.claim_ref.uid == claim.metadata.uid
    )
    return next(kept, None)


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
