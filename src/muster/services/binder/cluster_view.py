"""What the binder sees of the cluster, and the writes it can ask for.

Everything about a bind is judged by what is in the cluster now, never by what this process did
before: a binder that was killed between two writes goes on where the cluster stands.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from muster.api.bindrequest import BindRequest
from muster.api.core import ConfigMap, Node, Pod
from muster.api.devices import ResourceClaim
from muster.api.kinds import POD, Kind
from muster.api.meta import Key
from muster.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass


class ClusterView(Protocol):
    """Reads, all from local stores."""

    def pod(self, key: Key) -> Pod | None: ...

    def node(self, name: str) -> Node | None: ...

    def reservations(self, group: str) -> Sequence[Pod]:
        """Pods that hold the device of a shared GPU."""
        ...

    def users(self, group: str) -> Sequence[Pod]:
        """Pods that share the GPU, whatever their phase."""
        ...

    def is_wanted(self, group: str) -> bool:
        """Whether a bind request that has not ended names the group."""
        ...

    def holders(self, device: str) -> Sequence[Pod]:
        """Reservation pods that say they hold the device, on any node."""
        ...

    def seen_s(self, reservation: Pod) -> float:
        """When the reservation pod was first seen, on the clock of `Times.now_s`."""
        ...

    def claim(self, key: Key) -> ResourceClaim | None: ...

    def native_group(self, pod: Pod) -> Mapping[str, Any] | None:
        """The PodGroup of scheduling.k8s.io that the pod names, where that matters for claims."""
        ...

    def members(self, group: Key) -> Sequence[Pod]:
        """Pods that name such a PodGroup."""
        ...

    def is_being_bound(self, pod: Pod) -> bool:
        """Whether a bind request that has not failed is about the pod."""
        ...

    def config_map(self, key: Key) -> ConfigMap | None: ...

    def volume_claim(self, key: Key) -> PersistentVolumeClaim | None: ...

    def volume_users(self, claim: Key) -> Sequence[Pod]:
        """Pods that use a volume claim, whatever their phase."""
        ...

    def live_request(self, pod: Pod) -> BindRequest | None:
        """The bind request about the pod that has not failed, if there is one."""
        ...

    def volumes(self) -> Sequence[PersistentVolume]: ...

    def storage_class(self, name: str) -> StorageClass | None: ...


@dataclass(frozen=True, slots=True)
class Create:
    """Make an object; one that is there already is as good."""

    kind: Kind[Any]
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Patch:
    """Patch an object. Lists are replaced whole, except where a status's conditions are merged."""

    kind: Kind[Any]
    key: Key
    patch: Mapping[str, Any]
    subresource: str = ""
    resource_version: str = ""
    """Only if it has not changed since."""
    merges_lists: bool = False
    uid: str = ""
    """Only if it is still this object, and not another of the same name."""


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete an object; one that is gone already is as good."""

    kind: Kind[Any]
    key: Key
    uid: str = ""
    grace_s: int | None = None
    resource_version: str = ""
    """Only if it has not changed since."""


def delete_now(pod: Pod) -> Delete:
    """For pods that have nothing to put in order before they end, if they are still as seen."""
    return Delete(POD, pod.key, pod.metadata.uid, 0, pod.metadata.resource_version)


Write = Create | Patch | Delete


@dataclass(frozen=True, slots=True)
class Ready:
    """Nothing left to prepare."""


@dataclass(frozen=True, slots=True)
class NeedsWrites:
    """Writes to make now, in order; then look again."""

    writes: tuple[Write, ...]


@dataclass(frozen=True, slots=True)
class Waiting:
    """Somebody else must act first. Given up at `until_s`."""

    why: str
    until_s: float


@dataclass(frozen=True, slots=True)
class Failed:
    """This cannot be prepared; `writes` clear away what stands in the way of a next attempt."""

    why: str
    writes: tuple[Write, ...] = ()


State = Ready | NeedsWrites | Waiting | Failed


@dataclass(frozen=True, slots=True)
class Times:
    """What the time is, and when an attempt began.

    `now_s` and `began_s` are on our own monotonic clock, because the clocks of those who wrote an
    object's timestamps may be minutes from ours. `wall_s` is for others to read.
    """

    now_s: float
    began_s: float = 0.0
    wall_s: float = 0.0


@dataclass(frozen=True, slots=True)
class BindAttempt:
    """One attempt to bind: the request, its pod and node, and the times."""

    request: BindRequest
    pod: Pod
    node: Node
    times: Times


class Preparation(Protocol):
    """A kind of preparation. Both are functions of what is in the cluster."""

    name: str

    def state(self, attempt: BindAttempt, cluster: ClusterView) -> State: ...

    def undo(self, attempt: BindAttempt, cluster: ClusterView) -> tuple[Write, ...]:
        """Writes that take back what this preparation did for the pod, whoever did it."""
        ...
