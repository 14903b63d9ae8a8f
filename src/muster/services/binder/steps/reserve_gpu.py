"""A device for each shared-GPU group: a reservation pod that takes it, and says which it got."""

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from muster.api import names
from muster.api.bindrequest import FRACTION
from muster.api.core import Pod
from muster.api.kinds import POD
from muster.model.gpu_request import gpu_groups_of
from muster.services.binder.cluster_view import (
    BindAttempt,
    ClusterView,
    Create,
    Failed,
    NeedsWrites,
    Ready,
    State,
    Waiting,
    Write,
    delete_now,
)
from muster.services.binder.gpu_users import is_group_label, labelled, labels_write
from muster.services.binder.settings import BinderSettings


class ReserveGpu:
    """Waits for devices without holding anybody up: the reservation pod's event looks again."""

    name = "reserve_gpu"

    def __init__(self, settings: BinderSettings) -> None:
        self._settings = settings

    def state(self, attempt: BindAttempt, cluster: ClusterView) -> State:
        if not shares_gpu(attempt):
            return Ready()
        groups = attempt.request.spec.selected_gpu_groups
        if not groups:
            return Failed("the request names no GPU group, which a share of a GPU needs")
        missing = [group for group in groups if not cluster.reservations(group)]
        if missing:
            return NeedsWrites(tuple(self._reservation(attempt, group) for group in missing))
        label = labels_write(attempt.pod, attempt.request)
        for group in groups:
            pod = cluster.reservations(group)[0]
            if device_of(pod):
                continue
            if pod.has_ended:
                why = f"reservation pod {pod.key} ended: {pod.status.reason or pod.status.phase}"
                return Failed(why, (delete_now(pod),))
            return self._waiting(pod, attempt, cluster)
        for group in groups:
            if (doubled := _doubled(cluster.reservations(group)[0], group, cluster)) is not None:
                return doubled
        return NeedsWrites((label,)) if label else Ready()

    def undo(self, attempt: BindAttempt, cluster: ClusterView) -> tuple[Write, ...]:
        """The labels go; a reservation that nobody uses then is cleared away by the sweep."""
        marks: dict[str, str | None] = {
            key: None for key in attempt.pod.metadata.labels if is_group_label(key)
        }
        if not marks or not shares_gpu(attempt):
            return ()
        return (labelled(attempt.pod, marks),)

    def _waiting(self, pod: Pod, attempt: BindAttempt, cluster: ClusterView) -> State:
        until_s = cluster.seen_s(pod) + self._settings.reservation_timeout_s
        if attempt.times.now_s >= until_s:
            why = f"reservation pod {pod.key} got no device in time"
            return Failed(why, (delete_now(pod),))
        return Waiting(f"reservation pod {pod.key} has no device yet", until_s)

    def _reservation(self, attempt: BindAttempt, group: str) -> Create:
        return Create(
            POD, reservation_pod(attempt.pod, attempt.node.metadata.name, group, self._settings)
        )


def shares_gpu(attempt: BindAttempt) -> bool:
    return attempt.request.spec.received_resource_type == FRACTION


def device_of(reservation: Pod) -> str:
    """The device that a reservation pod holds, empty while it has none."""
    return reservation.metadata.annotations.get(names.ANNOTATION_RESERVED_GPU, "")


def _doubled(mine: Pod, group: str, cluster: ClusterView) -> Failed | None:
    """A device that two reservation pods of a node hold is given to the users of one of them: of
    the one that has users, or else was there first.
    """
    device = device_of(mine)
    for other in cluster.holders(device):
        if other.key == mine.key or other.spec.node_name != mine.spec.node_name:
            continue
        if cluster.users(group) and not _has_users(other, cluster):
            continue
        if _has_users(other, cluster) or other.metadata.age_order < mine.metadata.age_order:
            why = f"reservation pods {other.key} and {mine.key} both hold device {device}"
            # Where nobody uses it yet, the next attempt gets a device from the kubelet anew.
            return Failed(why, () if cluster.users(group) else (delete_now(mine),))
    return None


def _has_users(reservation: Pod, cluster: ClusterView) -> bool:
    return any(cluster.users(group) for group in gpu_groups_of(reservation))


def reservation_name(node: str, group: str) -> str:
    """One name per node and group, so that two binders cannot reserve twice."""
    digest = hashlib.sha256(f"{node}/{group}".encode()).hexdigest()
    return f"gpu-reservation-{digest[:16]}"


def reservation_pod(pod: Pod, node: str, group: str, settings: BinderSettings) -> Mapping[str, Any]:
    """A pod that takes one whole device of the node, on behalf of all who share it."""
    gpu = {names.RESOURCE_NVIDIA_GPU: "1"}
    extra = settings.reservation_resources
    container: dict[str, Any] = {
        "name": "resource-reservation",
        "image": settings.reservation_image,
        "imagePullPolicy": "IfNotPresent",
        "resources": {
            "requests": {**extra.get("requests", {}), **gpu},
            "limits": {**extra.get("limits", {}), **gpu},
        },
        "env": [
            _from_field("POD_NAME", "metadata.name"),
            _from_field("POD_NAMESPACE", "metadata.namespace"),
        ],
    }
    if settings.reservation_command:
        container["command"] = settings.reservation_command.split()
    if settings.reservation_container_security:
        container["securityContext"] = settings.reservation_container_security
    spec: dict[str, Any] = {
        # Placed by us: no scheduler may put it on another node.
        "nodeName": node,
        "serviceAccountName": settings.names.reservation_service_account,
        "tolerations": msgspec.to_builtins(list(pod.spec.tolerations)),
        "containers": [container],
    }
    if settings.reservation_runtime_class:
        spec["runtimeClassName"] = settings.reservation_runtime_class
    if settings.reservation_pod_security:
        spec["securityContext"] = settings.reservation_pod_security
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": reservation_name(node, group),
            "namespace": settings.names.reservation_namespace,
            "labels": {
                names.LABEL_APP: settings.names.reservation_app,
                names.LABEL_GPU_GROUP: group,
            },
            "annotations": {names.ANNOTATION_DO_NOT_DISRUPT: "true"},
        },
        "spec": spec,
    }


def _from_field(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
