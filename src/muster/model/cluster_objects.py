"""ClusterObjects: what beside pods and nodes decides where pods may run.

Config maps, namespaces, volumes and devices, as the API has them; keys are "namespace/name", or the
name alone for kinds without a namespace. A plugin that needs none of them reads none.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from muster.api.devices import DeviceClass, ResourceClaim, ResourceSlice
from muster.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from muster.model.batch_terms import HyperNodeRecord
from muster.model.extender import ExtenderAnswers
from muster.model.selectors import LabelSelector


class DisruptionAllowance(msgspec.Struct, frozen=True):
    """How many pods of a PodDisruptionBudget may be disrupted now."""

    namespace: str
    selector: LabelSelector
    allowed: int


class RecentEviction(msgspec.Struct, frozen=True):
    """GPUs that were taken from a queue by evictions a while ago."""

    queue: str
    gpu_units: int
    at_s: float


class HeldBack(msgspec.Struct, frozen=True):
    """What the API server refused, and is not asked for again for a while."""

    why: str
    until_s: float


class PodUtilisation(msgspec.Struct, frozen=True):
    """What a pod really used lately; None where that was not measured."""

    gpu: float | None = None
    """Of its GPUs, on average: 1 is all of the time."""
    gpu_memory_mib: float | None = None
    cpu_cores: float | None = None
    memory_bytes: float | None = None


class ClusterObjects(msgspec.Struct, frozen=True):
    """Everything a plugin may look up by name.

    `config_maps` is None where nobody watches them: then none is missed.
    """

    config_maps: frozenset[str] | None = None
    namespaces: Mapping[str, Mapping[str, str]] = {}
    """Labels of each namespace."""
    volume_claims: Mapping[str, PersistentVolumeClaim] = {}
    volumes: Mapping[str, PersistentVolume] = {}
    storage_classes: Mapping[str, StorageClass] = {}
    storage_capacities: Mapping[str, CSIStorageCapacity] = {}
    storage_drivers: Mapping[str, CSIDriver] = {}
    storage_nodes: Mapping[str, CSINode] = {}
    device_classes: Mapping[str, DeviceClass] = {}
    device_slices: Mapping[str, ResourceSlice] = {}
    device_claims: Mapping[str, ResourceClaim] = {}
    serves_devices: bool = True
    """Whether the cluster has dynamic resource allocation at all."""
    disruption_allowances: Mapping[str, DisruptionAllowance] = {}
    recent_evictions: tuple[RecentEviction, ...] = ()
    """Those of the last hour."""
    refused_evictions: Mapping[str, HeldBack] = {}
    """By task: not to be evicted as long as it stands here."""
    refused_actors: Mapping[str, HeldBack] = {}
    """By job: nobody is to be evicted for it as long as it stands here."""
    refused_binds: Mapping[str, HeldBack] = {}
    """By job: nothing is to be placed for it as long as it stands here."""
    utilisation: Mapping[str, PodUtilisation] = {}
    """By pod, `namespace/name`; whose use was not measured lately is not in it."""
    hyper_nodes: Mapping[str, HyperNodeRecord] = {}
    extender: ExtenderAnswers | None = None
    """None where nobody asks one: then it has no say."""
    others: Mapping[str, Mapping[str, Mapping[str, Any]]] = {}
    """Objects of the kinds that plugins asked for, as JSON has them: by `plural.group`, by name."""


NO_OBJECTS = ClusterObjects()
