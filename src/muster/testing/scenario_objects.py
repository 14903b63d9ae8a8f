"""Objects of a scenario beside its jobs: devices and claims, volumes, config maps, NUMA zones.

    nodes:
      n1: {has: 8 gpu 64 cpu, numa: single-numa-node}
      n2: {has: 64 cpu, devices: {h100: 4, a100: 4}}
    objects:
      config_maps: [settings]
      claims:  {pool: {count: 2, model: h100, queue: a}}
      volumes: {data: {zone: a}, scratch: {made_in: [a, b]}}
    jobs:
      train: {queue: a, pending: 2 x 1 cpu, pod: {devices: {count: 2}, volumes: [data]}}

`devices` of a node are claimable GPUs by model; of a pod, a claim of its own for each of its tasks.
A node with `numa` has two zones with half of everything each. A volume is bound in a zone, or made
in one of several.
"""

import re
from collections.abc import Iterable
from dataclasses import replace

import msgspec

from muster.api.core import PersistentVolumeClaimSpec
from muster.api.devices import (
    CELDeviceSelector,
    Device,
    DeviceAttribute,
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    DeviceSelector,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from muster.api.meta import ObjectMeta
from muster.api.selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from muster.api.storage import (
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    StorageClass,
    TopologyLabelRequirement,
    TopologyTerm,
    VolumeNodeAffinity,
)
from muster.engine.config.reader import Reader
from muster.model.cluster_objects import ClusterObjects
from muster.model.constraint_terms import ClaimReference
from muster.model.constraints import Constraints
from muster.model.gpu_request import claimed_gpus, shared_gpus
from muster.model.records import (
    ClusterRecords,
    GpuKind,
    GpuRequest,
    NodeRecord,
    NumaTopology,
    NumaZone,
    TaskRecord,
)
from muster.numerics.axis import GPU_UNIT

_RANGE = re.compile(r"(.*)\[(\d+)-(\d+)\](.*)")
_CLASS = "gpu"
_DRIVER = "gpu.example.com"
_NAMESPACE = "default"
_ENTRY = "devices"


def spelled_out(name: str) -> list[str]:
    """`n[08-11]` is n08, n09, n10, n11; a name without a range is itself."""
    match = _RANGE.fullmatch(name)
    if match is None:
        return [name]
    before, first, last, after = match.groups()
    return [
        f"{before}{number:0{len(first)}d}{after}" for number in range(int(first), int(last) + 1)
    ]


def with_devices(record: NodeRecord, reader: Reader) -> NodeRecord:
    """The node with claimable GPUs and NUMA zones, where its part of the file says so."""
    count = sum(each.integer() for _, each in reader.key("devices").items())
    policy = reader.key("numa").text("")
    allocatable = dict(record.allocatable)
    allocatable["gpu"] = allocatable.get("gpu", 0) + count * GPU_UNIT
    half = {name: amount // 2 for name, amount in allocatable.items() if name in ("cpu", "gpu")}
    zones = tuple(NumaZone(f"node-{number}", half, half) for number in range(2))
    return msgspec.structs.replace(
        record,
        allocatable=allocatable,
        dra_gpus=count,
        numa=NumaTopology(zones, policy, "pod") if policy else None,
    )


def with_objects(records: ClusterRecords, root: Reader) -> ClusterRecords:
    """The cluster with its other objects."""
    objects = root.key("objects")
    objects.allow_only(("config_maps", "claims", "volumes"))
    slices = {
        part.metadata.name: part
        for name, reader in root.key("nodes").items()
        if isinstance(reader.value, dict)
        for part in _slices(name, reader.key("devices"))
    }
    shared = {
        f"{_NAMESPACE}/{name}": _claim(name, reader)
        for name, reader in objects.key("claims").items()
    }
    tasks, own = _with_own_claims(records.tasks, root)
    names = objects.key("config_maps")
    return msgspec.structs.replace(
        records,
        tasks=tasks,
        cluster_objects=msgspec.structs.replace(
            _volumes(objects.key("volumes")),
            config_maps=None
            if names.is_absent
            else frozenset(f"{_NAMESPACE}/{each.text()}" for each in names.elements()),
            device_classes={_CLASS: DeviceClass(metadata=ObjectMeta(name=_CLASS))},
            device_slices=slices,
            device_claims={**shared, **own},
        ),
    )


def with_claims(constraints: Constraints, reader: Reader) -> Constraints:
    """The constraints with the pod's resource claims."""
    named = [ClaimReference(each.text(), each.text()) for each in reader.key("claims").elements()]
    if not reader.key("devices").is_absent:
        named.append(ClaimReference(_ENTRY, template=str(reader.key("devices").value)))
    needs_names = named or constraints.volume_claims or constraints.config_maps
    return replace(
        constraints,
        claims=tuple(named),
        is_guaranteed=reader.key("guaranteed").flag(False),
        namespace=_NAMESPACE if needs_names else constraints.namespace,
    )


def _slices(name: str, devices: Reader) -> Iterable[ResourceSlice]:
    models = [m for m, count in devices.items() for _ in range(count.integer())]
    for node in spelled_out(name) if models else ():
        yield ResourceSlice(
            metadata=ObjectMeta(name=node),
            spec=ResourceSliceSpec(
                driver=_DRIVER,
                node_name=node,
                pool=ResourcePool(name=node, resource_slice_count=1),
                devices=tuple(
                    Device(name=str(number), attributes={"model": DeviceAttribute(string=model)})
                    for number, model in enumerate(models)
                ),
            ),
        )


def _claim(name: str, reader: Reader) -> ResourceClaim:
    reader.allow_only(("count", "model", "queue"))
    model, queue = reader.key("model").text(""), reader.key("queue").text("")
    expression = f'device.attributes["{_DRIVER}"].model == "{model}"'
    selector = DeviceSelector(cel=CELDeviceSelector(expression=expression))
    wanted = ExactDeviceRequest(
        device_class_name=_CLASS,
        count=reader.key("count").integer(1),
        selectors=(selector,) if model else (),
    )
    request = DeviceRequest(name="devices", exactly=wanted)
    return ResourceClaim(
        metadata=ObjectMeta(
            name=name,
            namespace=_NAMESPACE,
            labels={"kai.scheduler/queue": queue} if queue else {},
        ),
        spec=ResourceClaimSpec(devices=DeviceClaim(requests=(request,))),
    )


def _with_own_claims(
    tasks: tuple[TaskRecord, ...], root: Reader
) -> tuple[tuple[TaskRecord, ...], dict[str, ResourceClaim]]:
    """Tasks that name devices count them as GPUs, and have a claim each."""
    shared = {
        name: shared_gpus(_claim(name, reader))
        for name, reader in root.key("objects").key("claims").items()
    }
    claims: dict[str, ResourceClaim] = {}
    found = []
    for task in tasks:
        names = tuple(g for r in task.constraints.claims for g in shared.get(r.name, ()))
        gpus = 0
        if any(reference.template for reference in task.constraints.claims):
            job = root.key("jobs").key(task.job.partition("/")[2])
            own = _claim(f"{task.name}-devices", job.key("pod").key("devices"))
            claims[f"{_NAMESPACE}/{own.metadata.name}"] = own
            task = msgspec.structs.replace(task, claims={_ENTRY: own.metadata.name})
            gpus = claimed_gpus(own)
        found.append(_claiming(task, gpus, names) if gpus or names else task)
    return tuple(found), claims


def _claiming(task: TaskRecord, gpus: int, names: tuple[str, ...]) -> TaskRecord:
    request = {**task.request, "gpu": gpus * GPU_UNIT} if gpus else task.request
    gpu = GpuRequest(GpuKind.CLAIM, gpus + len(names), claimed=names)
    return msgspec.structs.replace(task, request=request, gpu=gpu)


def _volumes(reader: Reader) -> ClusterObjects:
    claims: dict[str, PersistentVolumeClaim] = {}
    volumes: dict[str, PersistentVolume] = {}
    classes: dict[str, StorageClass] = {}
    for name, each in reader.items():
        each.allow_only(("zone", "made_in"))
        zone = each.key("zone").text("")
        claims[f"{_NAMESPACE}/{name}"] = PersistentVolumeClaim(
            metadata=ObjectMeta(name=name, namespace=_NAMESPACE),
            spec=PersistentVolumeClaimSpec(
                volume_name=f"volume-{name}" if zone else "", storage_class_name=name
            ),
        )
        if zone:
            need = NodeSelectorRequirement(key="zone", operator="In", values=(zone,))
            term = NodeSelectorTerm(match_expressions=(need,))
            affinity = VolumeNodeAffinity(required=NodeSelector(node_selector_terms=(term,)))
            volumes[f"volume-{name}"] = PersistentVolume(
                metadata=ObjectMeta(name=f"volume-{name}"),
                spec=PersistentVolumeSpec(node_affinity=affinity),
            )
        else:
            zones = tuple(zone.text() for zone in each.key("made_in").elements())
            allowed = TopologyLabelRequirement(key="zone", values=zones)
            classes[name] = StorageClass(
                metadata=ObjectMeta(name=name),
                provisioner="disks.example.com",
                volume_binding_mode="WaitForFirstConsumer",
                allowed_topologies=(TopologyTerm(match_label_expressions=(allowed,)),),
            )
    return ClusterObjects(volume_claims=claims, volumes=volumes, storage_classes=classes)
