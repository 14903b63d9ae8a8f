"""A cycle's input on file: ours, and the archives of KAI's snapshot plugin.

`/debug/snapshot` writes ours; `muster replay` reads either and decides again.
"""

import io
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from muster.api.bindrequest import BindRequest
from muster.api.codec import Unreadable, from_builtins, from_wire, to_wire
from muster.api.core import Node, Pod, PriorityClass
from muster.api.devices import DeviceClass, ResourceClaim, ResourceSlice
from muster.api.meta import Key, PartialObject
from muster.api.podgroup import PodGroup
from muster.api.profiles import ProfileName
from muster.api.queue import Queue
from muster.api.storage import (
    CSIDriver,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from muster.api.topology import Topology
from muster.engine.plan import Plan
from muster.foresight.cycle_input import CycleInput, NotACycle, unpacked
from muster.model.build import (
    Identity,
    Priorities,
    aliases_of,
    job_record,
    node_record,
    queue_record,
    task_record,
    topology_record,
)
from muster.model.cluster_objects import ClusterObjects
from muster.model.records import ClusterRecords
from muster.services.scheduler.options import Options

T = TypeVar("T")
_ARCHIVED = "snapshot.json"
_PART = 200
"""Objects that are encoded at once."""
_DECIDING = (
    "max_consolidation_victims",
    "allow_consolidating_reclaim",
    "staleness_grace_s",
    "restrict_node_scheduling",
    "profile",
)


class NotACycleDump(NotACycle):
    """The file is neither ours nor an archive that we know; the text says what is wrong."""


class CycleDump(CycleInput, frozen=True):
    """Everything that a cycle depended on, and what is known besides."""

    set_aside: tuple[str, ...] = ()
    """Objects of an archive that could not be read."""
    plan: Any = None
    """What was decided, as plain values; None where only the input is known."""

    @property
    def options(self) -> Options:
        """With the recorded settings; those of other releases that we do not know do not count.
        What names no profile is KAI's, or older than ours.
        """
        known = {name: value for name, value in self.settings.items() if name in _DECIDING}
        return replace(Options(), **{"profile": ProfileName.KAI, **known})


def recorded_settings(options: Options) -> Mapping[str, Any]:
    """Those of the options that decisions depend on."""
    return {name: getattr(options, name) for name in _DECIDING}


def plain_plan(plan: Plan) -> Any:
    """A plan as it is kept, for comparing one with another."""
    return msgspec.json.decode(msgspec.json.encode(plan, enc_hook=to_wire))


def encode_dump(dump: CycleDump) -> bytes:
    return b"".join(encoded_parts(dump))


def encoded_parts(dump: CycleDump) -> Iterator[bytes]:
    """The dump as JSON, a small part at a time: whoever encodes it elsewhere lets others go on in
    between, and nobody holds all of it.
    """
    yield from _object_parts(dump)


def _object_parts(value: msgspec.Struct) -> Iterator[bytes]:
    names = zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)
    for at, (name, written) in enumerate(names):
        yield (b"," if at else b"{") + _json(written) + b":"
        found = getattr(value, name)
        if isinstance(found, ClusterRecords):
            yield from _object_parts(found)
        elif isinstance(found, tuple):
            yield from _list_parts(found)
        else:
            yield _json(found)
    yield b"}"


def _list_parts(values: Sequence[object]) -> Iterator[bytes]:
    yield b"["
    for start in range(0, len(values), _PART):
        part = _json(values[start : start + _PART])
        yield (b"," if start else b"") + part[1:-1]
    yield b"]"


def _json(value: object) -> bytes:
    return msgspec.json.encode(value, enc_hook=to_wire)


def decode_dump(data: bytes) -> CycleDump:
    """Our own dump, also compressed, or KAI's archive (a zip with a snapshot.json in it)."""
    try:
        data = unpacked(data)
    except NotACycle as problem:
        raise NotACycleDump(str(problem)) from None
    if zipfile.is_zipfile(io.BytesIO(data)):
        return _from_archive(data)
    try:
        return msgspec.json.decode(data, type=CycleDump, dec_hook=from_wire)
    except msgspec.DecodeError as error:
        raise NotACycleDump(f"not a cycle dump of muster's: {error}") from None


def _from_archive(data: bytes) -> CycleDump:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if _ARCHIVED not in archive.namelist():
            raise NotACycleDump(f"the archive holds no {_ARCHIVED}")
        try:
            document = msgspec.json.decode(archive.read(_ARCHIVED))
        except msgspec.DecodeError as error:
            raise NotACycleDump(f"{_ARCHIVED} is not JSON: {error}") from None
    raw = document.get("rawObjects") or {}
    reader = _Objects(raw)
    newest = _newest_timestamp_s(raw)
    records = _records(reader, newest)
    conf, set_aside = _conf(document.get("config")), tuple(reader.set_aside)
    return CycleDump(newest, conf, records, set_aside=set_aside)


class _Objects:
    """Lists of an archive as structs; what cannot be read is named and left out."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self._raw = raw
        self.set_aside: list[str] = []

    def of(self, field: str, struct: type[T]) -> list[T]:
        found: list[T] = []
        for plain in self._raw.get(field) or []:
            try:
                found.append(from_builtins(struct, plain))
            except Unreadable as problem:
                name = (plain.get("metadata") or {}).get("name", "?")
                self.set_aside.append(f"{field}/{name}: {problem}")
        return found


def _records(raw: _Objects, now_s: float) -> ClusterRecords:
    identity = Identity()
    claims = {one.metadata.key: one for one in raw.of("resourceClaims", ResourceClaim)}
    requests = {one.pod: one for one in raw.of("bindRequests", BindRequest)}

    def request_of(pod: Pod) -> BindRequest | None:
        found = requests.get(pod.key)
        return found if found is not None and found.is_for(pod.metadata.uid) else None

    slices = raw.of("resourceSlices", ResourceSlice)
    topologies = raw.of("topologies", Topology)
    priorities = Priorities.of(raw.of("priorityClasses", PriorityClass))
    aliases = aliases_of(topologies)

    def claims_of(pod: Pod) -> dict[str, ResourceClaim]:
        named = {
            use: claims.get(Key(pod.metadata.namespace, name))
            for use, name in pod.claim_names.items()
        }
        return {use: claim for use, claim in named.items() if claim is not None}

    return ClusterRecords(
        nodes=tuple(
            node_record(node, [one for one in slices if one.spec.node_name == node.metadata.name])
            for node in raw.of("nodes", Node)
        ),
        tasks=tuple(
            task_record(pod, identity, now_s, request_of(pod), claims_of(pod))
            for pod in raw.of("pods", Pod)
        ),
        jobs=tuple(
            job_record(group, priorities, aliases) for group in raw.of("podGroups", PodGroup)
        ),
        queues=tuple(queue_record(queue) for queue in raw.of("queues", Queue)),
        topologies=tuple(topology_record(one) for one in topologies),
        cluster_objects=_cluster_objects(raw, claims, slices),
    )


def _cluster_objects(
    raw: _Objects, claims: Mapping[Key, ResourceClaim], slices: list[ResourceSlice]
) -> ClusterObjects:
    def by_key(field: str, struct: type[T]) -> dict[str, T]:
        found: Any = raw.of(field, struct)
        return {str(one.metadata.key): one for one in found}

    return ClusterObjects(
        config_maps=frozenset(by_key("configMaps", PartialObject)),
        volume_claims=by_key("persistentVolumeClaims", PersistentVolumeClaim),
        volumes=by_key("persistentVolumes", PersistentVolume),
        storage_classes=by_key("storageClasses", StorageClass),
        storage_capacities=by_key("csiStorageCapacities", CSIStorageCapacity),
        storage_drivers=by_key("csiDrivers", CSIDriver),
        device_classes=by_key("deviceClasses", DeviceClass),
        device_slices={one.metadata.name: one for one in slices},
        device_claims={str(key): claim for key, claim in claims.items()},
    )


def _conf(config: Any) -> str:
    """The configuration of an archive: parsed already there, so written out again."""
    if not isinstance(config, Mapping):
        return ""
    kept = {
        key: config[key] for key in ("actions", "tiers", "queueDepthPerAction") if key in config
    }
    return msgspec.yaml.encode(kept).decode() if kept.get("actions") else ""


def _newest_timestamp_s(raw: Mapping[str, Any]) -> float:
    """An archive has no time of its own: its newest timestamp is the best guess."""
    newest = 0.0
    for field in ("pods", "podGroups", "bindRequests", "nodes"):
        for plain in raw.get(field) or []:
            text = (plain.get("metadata") or {}).get("creationTimestamp")
            if isinstance(text, str):
                try:
                    timestamp = datetime.fromisoformat(text)
                except ValueError:
                    continue
                newest = max(newest, timestamp.replace(tzinfo=timestamp.tzinfo or UTC).timestamp())
    return newest
