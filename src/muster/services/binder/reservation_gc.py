"""Which reservations and which pods of shared GPUs must go. Pure.

A reservation that nobody on its node uses, and that no bind under way needs, holds a device for
nothing. A pod whose reservation has gone runs on a device that somebody else may be given.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from muster.api.core import Pod
from muster.api.kinds import POD
from muster.services.binder.cluster_view import Delete, delete_now

_ALIVE = ("Pending", "Running")


class GpuGroups(Protocol):
    """What is read of the cluster: see `ClusterView`."""

    def reservations(self, group: str) -> Sequence[Pod]: ...

    def users(self, group: str) -> Sequence[Pod]: ...

    def is_wanted(self, group: str) -> bool: ...


def stale_reservation_deletes(groups: Iterable[str], cluster: GpuGroups) -> tuple[Delete, ...]:
    """What to delete so that reservations and their users match."""
    found: list[Delete] = []
    for group in sorted(set(groups)):
        reservations = cluster.reservations(group)
        users = [pod for pod in cluster.users(group) if pod.status.phase in _ALIVE]
        nodes = {pod.spec.node_name for pod in reservations}
        is_used = any(pod.spec.node_name in nodes for pod in users)
        if reservations and not is_used and not cluster.is_wanted(group):
            found += [delete_now(pod) for pod in reservations]
        elif users and not reservations:
            # Pods that have not started learn of the next device before they do.
            found += [
                Delete(POD, pod.key, pod.metadata.uid)
                for pod in users
                if pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None
            ]
    return tuple(found)
