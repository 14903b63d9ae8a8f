"""Reads the pods of a group, decides its status, patches what changed."""

from muster.api import names
from muster.api.core import Pod
from muster.api.kinds import POD_GROUP
from muster.api.meta import Key
from muster.api.podgroup import PodGroup
from muster.base.clock import Clock
from muster.base.moment import rfc3339
from muster.client.errors import NotFound
from muster.client.informer import Index, Informer
from muster.client.write import Writer
from muster.runtime.reconciler import DONE, Result
from muster.services.podgroups.decide import Cluster, status_patch


class PodGroupReconciler:
    """Keeps the status of one pod group true."""

    def __init__(
        self,
        groups: Informer[PodGroup],
        pods_of: Index[Pod, Key],
        cluster: Cluster,
        writer: Writer,
        clock: Clock,
    ) -> None:
        self._groups = groups
        self._pods_of = pods_of
        self._cluster = cluster
        self._writer = writer
        self._clock = clock

    async def reconcile(self, key: Key) -> Result:
        group = self._groups.get(key)
        if group is None or group.metadata.deletion_timestamp is not None:
            return DONE
        now = rfc3339(self._clock.now_s())
        patch = status_patch(group, self._pods_of.get(key), self._cluster, now)
        if patch is None:
            return DONE
        try:
            await self._writer.patch(POD_GROUP, key, patch, subresource="status")
        except NotFound:
            return DONE
        return DONE


def group_of(pod: Pod) -> tuple[Key, ...]:
    """The group that a pod says it belongs to."""
    name = pod.metadata.annotations.get(names.ANNOTATION_POD_GROUP)
    return (Key(pod.metadata.namespace, name),) if name else ()
