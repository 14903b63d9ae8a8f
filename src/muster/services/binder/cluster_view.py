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


def delete_now(pod: Pod) -> Delete:
    """For pods that have nothing to put in order before they end."""
    return Delete(POD, pod.key, pod.metadata.uid, grace_s=0)


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
class BindAttempt:
    """One attempt to bind: the request, its pod and node, and the time."""

    request: BindRequest
    pod: Pod
    node: Node
    now_s: float


class Preparation(Protocol):
    """A kind of preparation. Both are functions of what is in the cluster."""

    name: str

    def state(self, attempt: BindAttempt, cluster: ClusterView) -> State: ...

    def undo(self, attempt: BindAttempt, cluster: ClusterView) -> tuple[Write, ...]:
        """Writes that take back what this preparation did for the pod, whoever did it."""
        ...
