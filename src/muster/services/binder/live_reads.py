"""What the API server says now, read before an act that cannot be undone."""

from collections.abc import Sequence
from dataclasses import dataclass

from muster.api import names
from muster.api.bindrequest import BindRequest
from muster.api.core import Pod
from muster.api.kinds import BIND_REQUEST, POD
from muster.api.meta import Key
from muster.api.names import Names
from muster.client.errors import NotFound
from muster.client.read import Reader, Selection
from muster.model.gpu_request import gpu_groups_of
from muster.services.binder.gpu_users import is_on
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
            one.pod == pod.key and one.is_live_for(pod.metadata.uid) for one in self.requests
        )


@dataclass(frozen=True, slots=True)
class LiveReads:
    """Reads of the API server itself. They cost more than a look at our copies, and are rare."""

    _reader: Reader
    _names: Names

    async def gpu_group(self, group: str, seen: GpuGroups) -> LiveGpuGroup:
        """A shared GPU now. A request that only `seen` knows of counts too."""
        labelled = await self._pods(f"{names.LABEL_GPU_GROUP}={group}")
        if group:
            labelled += await self._pods(f"{names.LABEL_GPU_GROUP_PREFIX}{group}")
        found = {pod.key: pod for pod in labelled if group in gpu_groups_of(pod)}
        home = self._names.reservation_namespace
        reservations = [pod for pod in found.values() if pod.metadata.namespace == home]
        nodes = {pod.spec.node_name for pod in (*found.values(), *seen.users(group))}
        requests = await self._requests(nodes)
        granted = [one.pod for one in requests if group in one.spec.selected_gpu_groups]
        for key in (*granted, *(pod.key for pod in seen.users(group))):
            if key not in found and (pod := await self._pod(key)) is not None:
                found[key] = pod
        users = [pod for pod in found.values() if self._is_user(group, pod, requests)]
        is_wanted = any(
            group in one.spec.selected_gpu_groups and not one.is_over for one in requests
        )
        return LiveGpuGroup(reservations, users, seen.is_wanted(group) or is_wanted)

    def _is_user(self, group: str, pod: Pod, requests: Sequence[BindRequest]) -> bool:
        is_ours = pod.spec.scheduler_name == self._names.scheduler
        if not is_ours or pod.metadata.namespace == self._names.reservation_namespace:
            return False
        about = (r for r in requests if r.pod == pod.key and r.is_live_for(pod.metadata.uid))
        return is_on(group, pod, next(about, None))

    async def native_groups_in(self, namespace: str) -> LiveNamespace:
        pods = await self._reader.list(POD, Selection(namespace))
        requests = await self._reader.list(BIND_REQUEST, Selection(namespace))
        return LiveNamespace(pods.objects, requests.objects)

    async def _pods(self, labels: str) -> list[Pod]:
        return (await self._reader.list(POD, Selection(labels=labels))).objects

    async def _pod(self, key: Key) -> Pod | None:
        try:
            return await self._reader.get(POD, key)
        except NotFound:
            return None

    async def _requests(self, nodes: set[str]) -> list[BindRequest]:
        found: list[BindRequest] = []
        for node in sorted(nodes - {""}):
            selection = Selection(labels=f"{names.LABEL_SELECTED_NODE}={node}")
            found += (await self._reader.list(BIND_REQUEST, selection)).objects
        return found
