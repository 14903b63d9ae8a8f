"""What the API server says now, read before an act that cannot be undone."""

from collections.abc import Sequence
from dataclasses import dataclass

from muster.api import names
from muster.api.bindrequest import BindRequest
from muster.api.core import Pod
from muster.api.kinds import BIND_REQUEST, POD
from muster.api.meta import Key
from muster.client.read import Reader, Selection
from muster.model.gpu_request import gpu_groups_of
from muster.services.binder.decide import is_over
from muster.services.binder.native_groups import group_of
from muster.services.binder.reservation_gc import GpuGroups


@dataclass(frozen=True, slots=True)
class LiveGpuGroup:
    """One shared GPU: its reservation pods, its users, and whether a bind needs it."""

    reservation_pods: Sequence[Pod]
    user_pods: Sequence[Pod]
    has_requests: bool

    def reservations(self, group: str) -> Sequence[Pod]:
        return self.reservation_pods

    def users(self, group: str) -> Sequence[Pod]:
        return self.user_pods

    def is_wanted(self, group: str) -> bool:
        return self.has_requests


@dataclass(frozen=True, slots=True)
class LiveNamespace:
    """Pods of one namespace and the requests about them, for claims that PodGroups hold."""

    pods: Sequence[Pod]
    requests: Sequence[BindRequest]

    def members(self, group: Key) -> Sequence[Pod]:
        return [pod for pod in self.pods if group_of(pod) == group]

    def is_being_bound(self, pod: Pod) -> bool:
        return any(
            one.pod == pod.key and one.is_for(pod.metadata.uid) and not one.has_failed
            for one in self.requests
        )


@dataclass(frozen=True, slots=True)
class LiveReads:
    """Reads of the API server itself. They cost more than a look at our copies, and are rare."""

    _reader: Reader
    _reservation_namespace: str

    async def gpu_group(self, group: str, seen: GpuGroups) -> LiveGpuGroup:
        """A shared GPU now. A request that only `seen` knows of counts too."""
        labelled = await self._pods(f"{names.LABEL_GPU_GROUP}={group}")
        if group:
            labelled += await self._pods(f"{names.LABEL_GPU_GROUP_PREFIX}{group}")
        pods = {pod.key: pod for pod in labelled if group in gpu_groups_of(pod)}.values()
        home = self._reservation_namespace
        reservations = [pod for pod in pods if pod.metadata.namespace == home]
        users = [pod for pod in pods if pod.metadata.namespace != home]
        nodes = {pod.spec.node_name for pod in reservations}
        wanted = seen.is_wanted(group) or await self._is_wanted(group, nodes)
        return LiveGpuGroup(reservations, users, wanted)

    async def native_groups_in(self, namespace: str) -> LiveNamespace:
        pods = await self._reader.list(POD, Selection(namespace))
        requests = await self._reader.list(BIND_REQUEST, Selection(namespace))
        return LiveNamespace(pods.objects, requests.objects)

    async def _pods(self, labels: str) -> list[Pod]:
        return (await self._reader.list(POD, Selection(labels=labels))).objects

    async def _is_wanted(self, group: str, nodes: set[str]) -> bool:
        for node in sorted(nodes):
            selection = Selection(labels=f"{names.LABEL_SELECTED_NODE}={node}")
            requests = (await self._reader.list(BIND_REQUEST, selection)).objects
            if any(group in r.spec.selected_gpu_groups and not is_over(r) for r in requests):
                return True
        return False
