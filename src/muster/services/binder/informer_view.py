"""The binder's view of the cluster, on local copies."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from muster.api.bindrequest import BindRequest
from muster.api.core import ConfigMap, Node, Pod
from muster.api.devices import ResourceClaim
from muster.api.kinds import PERSISTENT_VOLUME_CLAIM
from muster.api.meta import Key
from muster.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from muster.base.clock import Clock
from muster.client.informer import Index, Informer
from muster.client.kinds import Plain
from muster.client.read import Reader
from muster.model.gpu_request import gpu_groups_of
from muster.runtime.first_seen import FirstSeen
from muster.services.binder.gpu_users import is_on
from muster.services.binder.native_groups import NativeGroupCache, group_of
from muster.services.binder.steps.reserve_gpu import device_of
from muster.services.binder.steps.volumes import volume_claims


@dataclass(frozen=True, slots=True)
class BinderInformers:
    """Local copies; those of kinds that the cluster does not serve are None."""

    requests: Informer[BindRequest]
    pods: Informer[Pod]
    reservation_pods: Informer[Pod]
    nodes: Informer[Node]
    config_maps: Informer[ConfigMap]
    claims: Informer[ResourceClaim] | None
    volume_claims: Informer[PersistentVolumeClaim]
    persistent_volumes: Informer[PersistentVolume]
    storage_classes: Informer[StorageClass]
    other_pods: tuple[Informer[Pod], ...] = ()
    """Those that name a scheduler of ours for the users of another system. They are bound, and
    share no GPU: whatever they say of that counts nowhere."""

    @property
    def bound_pods(self) -> tuple[Informer[Pod], ...]:
        return (self.pods, *self.other_pods)


class InformerClusterView:
    """`ClusterView` on informers."""

    def __init__(
        self,
        informers: BinderInformers,
        native_groups: NativeGroupCache,
        reader: Reader,
        clock: Clock,
    ) -> None:
        self._informers = informers
        self.seen = FirstSeen(clock)
        """When requests and reservation pods were first seen."""
        self.seen.follow(informers.requests)
        self.seen.follow(informers.reservation_pods)
        self._reader = reader
        self.native_groups = native_groups
        self._members: Index[Pod, Key] = informers.pods.add_index(_native_groups)
        self._requests_of: Index[BindRequest, Key] = informers.requests.add_index(
            lambda request: (request.pod,)
        )
        self._labelled: Index[Pod, str] = informers.pods.add_index(gpu_groups_of)
        self._reservations: Index[Pod, str] = informers.reservation_pods.add_index(gpu_groups_of)
        self._holders: Index[Pod, str] = informers.reservation_pods.add_index(_devices)
        self._volume_users: Sequence[Index[Pod, Key]] = [
            pods.add_index(volume_claims) for pods in informers.bound_pods
        ]
        self._wanted: Index[BindRequest, str] = informers.requests.add_index(_open_groups)
        self._granted: Index[BindRequest, str] = informers.requests.add_index(
            lambda request: request.spec.selected_gpu_groups
        )

    def pod(self, key: Key) -> Pod | None:
        found = (pods.get(key) for pods in self._informers.bound_pods)
        return next((pod for pod in found if pod is not None), None)

    def node(self, name: str) -> Node | None:
        return self._informers.nodes.get(Key("", name))

    def reservations(self, group: str) -> Sequence[Pod]:
        return sorted(self._reservations.get(group), key=lambda pod: pod.key)

    def users(self, group: str) -> Sequence[Pod]:
        asked_for = (self.pod(request.pod) for request in self._granted.get(group))
        found = {pod.key: pod for pod in (*self._labelled.get(group), *asked_for) if pod}
        users = (pod for pod in found.values() if is_on(group, pod, self.live_request(pod)))
        return sorted(users, key=lambda pod: pod.key)

    def is_wanted(self, group: str) -> bool:
        return bool(self._wanted.get(group))

    def requests_for(self, group: str) -> Sequence[BindRequest]:
        return self._wanted.get(group)

    def holders(self, device: str) -> Sequence[Pod]:
        return sorted(self._holders.get(device), key=lambda pod: pod.key)

    def seen_s(self, reservation: Pod) -> float:
        return self.seen.at_s(reservation.metadata.uid)

    def claim(self, key: Key) -> ResourceClaim | None:
        return self._informers.claims.get(key) if self._informers.claims else None

    def native_group(self, pod: Pod) -> Plain | None:
        key = group_of(pod)
        return self.native_groups.get(key) if key is not None else None

    def members(self, group: Key) -> Sequence[Pod]:
        return self._members.get(group)

    def is_being_bound(self, pod: Pod) -> bool:
        return self.live_request(pod) is not None

    def config_map(self, key: Key) -> ConfigMap | None:
        return self._informers.config_maps.get(key)

    def volume_claim(self, key: Key) -> PersistentVolumeClaim | None:
        return self._informers.volume_claims.get(key)

    def volume_users(self, claim: Key) -> Sequence[Pod]:
        found = [pod for users in self._volume_users for pod in users.get(claim)]
        return sorted(found, key=lambda pod: pod.key)

    def live_request(self, pod: Pod) -> BindRequest | None:
        found = self._requests_of.get(pod.key)
        return next((one for one in found if one.is_live_for(pod.metadata.uid)), None)

    def volumes(self) -> Sequence[PersistentVolume]:
        return list(self._informers.persistent_volumes.objects.values())

    async def knows_volume_claims_of(self, pod: Pod) -> bool:
        """Whether the claims that we have copies of are those that there are now.

        A claim that was made anew under its name looks bound until our copy catches up.
        """
        for key in volume_claims(pod):
            known = self.volume_claim(key)
            there = await self._reader.get(PERSISTENT_VOLUME_CLAIM, key)
            if known is None or known.metadata.uid != there.metadata.uid:
                return False
        return True

    def storage_class(self, name: str) -> StorageClass | None:
        return self._informers.storage_classes.get(Key("", name))


def _devices(reservation: Pod) -> Iterable[str]:
    device = device_of(reservation)
    return (device,) if device else ()


def _native_groups(pod: Pod) -> Iterable[Key]:
    key = group_of(pod)
    return (key,) if key is not None else ()


def _open_groups(request: BindRequest) -> Iterable[str]:
    return () if request.is_over else request.spec.selected_gpu_groups
