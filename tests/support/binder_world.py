"""A cluster of dictionaries for the binder: executes its writes, and plays the other services."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from muster.api.bindrequest import BindRequest
from muster.api.codec import from_builtins
from muster.api.core import ConfigMap, Node, Pod
from muster.api.devices import ResourceClaim
from muster.api.meta import Key
from muster.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from muster.model.gpu_request import gpu_groups_of
from muster.services.binder.cluster_view import Create, Delete, Patch, Times, Write
from muster.services.binder.decide import (
    BindPod,
    Decider,
    Finish,
    GiveUp,
    Move,
    Nothing,
    Prepare,
    Wait,
    finished,
)
from muster.services.binder.gpu_users import is_on
from muster.services.binder.native_groups import group_of
from muster.services.binder.reservation_gc import stale_reservation_deletes
from muster.services.binder.settings import BinderSettings
from muster.services.binder.steps.devices import AllocateDevices
from muster.services.binder.steps.gpu_sharing import ShareGpu
from muster.services.binder.steps.reserve_gpu import ReserveGpu, device_of
from muster.services.binder.steps.volumes import BindVolumes, volume_claims

T = TypeVar("T")

RESERVATIONS = "kai-resource-reservation"
SETTINGS = BinderSettings(reservation_image="reservation")
DECIDER = Decider(
    (BindVolumes(SETTINGS), AllocateDevices(), ReserveGpu(SETTINGS), ShareGpu(SETTINGS)), SETTINGS
)


class BinderWorld:
    """Objects by kind and key. `writes` counts what the binder wrote."""

    def __init__(self, *objects: Mapping[str, Any]) -> None:
        self.objects: dict[tuple[str, Key], dict[str, Any]] = {}
        self.writes: list[str] = []
        self.seen: dict[str, float] = {}
        """When reservation pods were first seen, by name, where not at 0."""
        self._serial = 0
        for thing in objects:
            self.add(thing)

    def add(self, thing: Mapping[str, Any]) -> None:
        stored = copy.deepcopy(dict(thing))
        metadata = stored["metadata"]
        if stored["kind"] == "Pod":
            stored.setdefault("spec", {}).setdefault("schedulerName", "kai-scheduler")
        self._serial += 1
        metadata.setdefault("uid", f"uid-{self._serial}")
        metadata["resourceVersion"] = str(self._serial)
        key = Key(metadata.get("namespace", ""), metadata["name"])
        self.objects[(stored["kind"], key)] = stored

    def all(self, kind: str) -> Iterator[dict[str, Any]]:
        for (found, _), thing in sorted(self.objects.items(), key=lambda pair: pair[0]):
            if found == kind:
                yield thing

    # What the binder reads.

    def pod(self, key: Key) -> Pod | None:
        return self._read(Pod, "Pod", key)

    def node(self, name: str) -> Node | None:
        return self._read(Node, "Node", Key("", name))

    def reservations(self, group: str) -> Sequence[Pod]:
        return [pod for pod in self._on(group) if pod.metadata.namespace == RESERVATIONS]

    def users(self, group: str) -> Sequence[Pod]:
        pods = [from_builtins(Pod, one) for one in self.all("Pod")]
        work = [pod for pod in pods if pod.metadata.namespace != RESERVATIONS]
        return [pod for pod in work if is_on(group, pod, self.live_request(pod))]

    def is_wanted(self, group: str) -> bool:
        requests = (from_builtins(BindRequest, one) for one in self.all("BindRequest"))
        return any(group in one.spec.selected_gpu_groups and not one.is_over for one in requests)

    def holders(self, device: str) -> Sequence[Pod]:
        pods = [from_builtins(Pod, one) for one in self.all("Pod")]
        return [
            pod
            for pod in pods
            if pod.metadata.namespace == RESERVATIONS and device_of(pod) == device
        ]

    def seen_s(self, reservation: Pod) -> float:
        return self.seen.get(reservation.metadata.name, 0.0)

    def claim(self, key: Key) -> ResourceClaim | None:
        return self._read(ResourceClaim, "ResourceClaim", key)

    def native_group(self, pod: Pod) -> Mapping[str, Any] | None:
        key = group_of(pod)
        return self.objects.get(("PodGroup", key)) if key is not None else None

    def members(self, group: Key) -> Sequence[Pod]:
        pods = (from_builtins(Pod, one) for one in self.all("Pod"))
        return [pod for pod in pods if group_of(pod) == group]

    def is_being_bound(self, pod: Pod) -> bool:
        return self.live_request(pod) is not None

    def config_map(self, key: Key) -> ConfigMap | None:
        return self._read(ConfigMap, "ConfigMap", key)

    def volume_claim(self, key: Key) -> PersistentVolumeClaim | None:
        return self._read(PersistentVolumeClaim, "PersistentVolumeClaim", key)

    def volume_users(self, claim: Key) -> Sequence[Pod]:
        pods = [from_builtins(Pod, one) for one in self.all("Pod")]
        return [pod for pod in pods if claim in volume_claims(pod)]

    def live_request(self, pod: Pod) -> BindRequest | None:
        requests = (from_builtins(BindRequest, one) for one in self.all("BindRequest"))
        return next(
            (one for one in requests if one.pod == pod.key and one.is_live_for(pod.metadata.uid)),
            None,
        )

    def volumes(self) -> Sequence[PersistentVolume]:
        return [from_builtins(PersistentVolume, one) for one in self.all("PersistentVolume")]

    def storage_class(self, name: str) -> StorageClass | None:
        return self._read(StorageClass, "StorageClass", Key("", name))

    def _read(self, struct: type[T], kind: str, key: Key) -> T | None:
        found = self.objects.get((kind, key))
        return from_builtins(struct, found) if found else None

    def _on(self, group: str) -> list[Pod]:
        pods = [from_builtins(Pod, one) for one in self.all("Pod")]
        return [pod for pod in pods if group in gpu_groups_of(pod)]

    # What the binder writes.

    def write(self, write: Write) -> None:
        match write:
            case Create(kind, body):
                key = Key(body["metadata"].get("namespace", ""), body["metadata"]["name"])
                self.writes.append(f"create {kind.kind}")
                if (kind.kind, key) not in self.objects:
                    self.add({**body, "kind": kind.kind})
            case Patch(kind, key, patch, _, version, _, uid):
                self.writes.append(f"patch {kind.kind}")
                thing = self.objects[(kind.kind, key)]
                assert not version or thing["metadata"]["resourceVersion"] == version
                assert not uid or thing["metadata"]["uid"] == uid
                _merge(thing, patch)
                self._serial += 1
                thing["metadata"]["resourceVersion"] = str(self._serial)
            case Delete(kind, key, uid, _, _):
                self.writes.append(f"delete {kind.kind}")
                thing = self.objects.get((kind.kind, key)) or {"metadata": {}}
                if not uid or thing["metadata"].get("uid") == uid:
                    self.objects.pop((kind.kind, key), None)

    def bind(self, key: Key, node: str, annotations: Mapping[str, str]) -> None:
        self.writes.append("bind Pod")
        pod = self.objects[("Pod", key)]
        pod["spec"]["nodeName"] = node
        pod["metadata"].setdefault("annotations", {}).update(annotations)

    # Others.

    def others_act(self, now_s: float) -> None:
        """Kubelets give reservation pods a device; the volume controller binds what it is told."""
        taken = 0
        for pod in self.all("Pod"):
            if pod["metadata"].get("namespace") == RESERVATIONS:
                taken += 1
                notes = pod["metadata"].setdefault("annotations", {})
                notes.setdefault("run.ai/reserve_for_gpu_index", f"GPU-{taken}")
                pod.setdefault("status", {})["phase"] = "Running"
        for claim in self.all("PersistentVolumeClaim"):
            notes = claim["metadata"].get("annotations") or {}
            promised = [
                volume["metadata"]["name"]
                for volume in self.all("PersistentVolume")
                if (volume["spec"].get("claimRef") or {}).get("uid") == claim["metadata"]["uid"]
            ]
            if "volume.kubernetes.io/selected-node" in notes or promised:
                claim["spec"]["volumeName"] = promised[0] if promised else "made"
                claim.setdefault("status", {})["phase"] = "Bound"

    # Running.

    def request(self, name: str = "") -> BindRequest:
        """The only one, or that of the pod of this name."""
        found = (one for one in self.all("BindRequest") if name in ("", one["metadata"]["name"]))
        return from_builtins(BindRequest, next(found))

    def move(self, now_s: float = 0.0, name: str = "") -> Move:
        """The next move for an attempt that began at 0."""
        return DECIDER.next_move(self.request(name), self, Times(now_s))

    def step(self, now_s: float = 0.0) -> Iterator[Move]:
        """Makes the next move, yielding before every single write."""
        move = self.move(now_s)
        yield move
        match move:
            case Prepare(writes):
                for write in writes:
                    self.write(write)
                    yield move
            case Finish():
                self.write(finished(self.request()))
                yield move
            case GiveUp(_, writes, _, _):
                for write in writes:
                    self.write(write)
                    yield move
            case BindPod(annotations):
                request = self.request()
                self.bind(request.pod, request.spec.selected_node, annotations)
                yield move
            case Wait() | Nothing():
                self.others_act(now_s)
        self.sweep()

    def sweep(self) -> None:
        groups = [
            group for one in self.all("Pod") for group in gpu_groups_of(from_builtins(Pod, one))
        ]
        for delete in stale_reservation_deletes(groups, self):
            self.write(delete)

    def run(self, now_s: float = 0.0, stop_after: int | None = None) -> None:
        """Until nothing moves; with `stop_after`, killed after so many writes and begun anew."""
        for _ in range(50):
            if isinstance(self.move(now_s), Nothing):
                return
            for _ in self.step(now_s):
                if stop_after is not None and len(self.writes) >= stop_after:
                    stop_after = None
                    break
        raise AssertionError(f"no end: {self.move(now_s)}")


def _merge(thing: dict[str, Any], patch: Mapping[str, Any]) -> None:
    for key, value in patch.items():
        if value is None:
            thing.pop(key, None)
        elif isinstance(value, Mapping):
            if not isinstance(thing.get(key), dict):
                thing[key] = {}
            _merge(thing[key], value)
        else:
            thing[key] = copy.deepcopy(value)
