"""The other objects that decide where pods may run: config maps, namespaces, volumes, devices,
disruption budgets; as one value.

It is rebuilt only when something in it changed, which is rare beside pods coming and going.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from muster.api.coordination import PodDisruptionBudget
from muster.api.devices import DeviceClass, ResourceClaim, ResourceSlice
from muster.api.meta import PartialObject
from muster.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from muster.client.informer import Informer
from muster.model.batch_terms import HyperNodeRecord
from muster.model.cluster_objects import (
    ClusterObjects,
    DisruptionAllowance,
    HeldBack,
    PodUtilisation,
    RecentEviction,
)
from muster.model.extender import ExtenderAnswers
from muster.model.from_api import label_selector

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ClusterInformers:
    """Local copies; None where the kind is not served or not watched."""

    namespaces: Informer[PartialObject] | None = None
    config_maps: Informer[PartialObject] | None = None
    volume_claims: Informer[PersistentVolumeClaim] | None = None
    volumes: Informer[PersistentVolume] | None = None
    storage_classes: Informer[StorageClass] | None = None
    storage_capacities: Informer[CSIStorageCapacity] | None = None
    storage_drivers: Informer[CSIDriver] | None = None
    storage_nodes: Informer[CSINode] | None = None
    device_classes: Informer[DeviceClass] | None = None
    device_slices: Informer[ResourceSlice] | None = None
    device_claims: Informer[ResourceClaim] | None = None
    disruption_budgets: Informer[PodDisruptionBudget] | None = None

    def all(self) -> list[Informer[Any]]:
        found = [getattr(self, name) for name in self.__dataclass_fields__]
        return [informer for informer in found if informer is not None]


@dataclass(slots=True)
class WatchedObjects:
    """Follows the informers; gives a new snapshot when something changed."""

    informers: ClusterInformers
    on_change: Callable[[], None] = lambda: None
    _plugin_kinds: dict[str, Informer[Any]] = field(default_factory=dict)
    _recent: tuple[RecentEviction, ...] = ()
    _refused_evictions: Mapping[str, HeldBack] = field(default_factory=dict)
    _refused_actors: Mapping[str, HeldBack] = field(default_factory=dict)
    _refused_binds: Mapping[str, HeldBack] = field(default_factory=dict)
    _utilisation: Mapping[str, PodUtilisation] = field(default_factory=dict)
    _hyper_nodes: Mapping[str, HyperNodeRecord] = field(default_factory=dict)
    _extender: ExtenderAnswers | None = None
    _is_stale: bool = field(default=True)
    _served_devices: bool = True

    def __post_init__(self) -> None:
        for informer in self.informers.all():
            informer.add_handler(self._changed)

    def watch(self, kind: str, informer: Informer[Any]) -> None:
        """A kind that a plugin asked for, `plural.group`."""
        if kind not in self._plugin_kinds:
            self._plugin_kinds[kind] = informer
            informer.add_handler(self._changed)

    def snapshot_if_changed(self) -> ClusterObjects | None:
        """The objects as they are now; None when nothing changed since the last snapshot."""
        informers = self.informers
        serves_devices = informers.device_claims is not None and informers.device_claims.is_served
        if not self._is_stale and serves_devices == self._served_devices:
            return None
        self._is_stale, self._served_devices = False, serves_devices
        maps = informers.config_maps
        namespaces = informers.namespaces.objects.values() if informers.namespaces else ()
        return ClusterObjects(
            config_maps=frozenset(str(key) for key in maps.objects) if maps else None,
            namespaces={one.metadata.name: one.metadata.labels for one in namespaces},
            volume_claims=_by_name(informers.volume_claims),
            volumes=_by_name(informers.volumes),
            storage_classes=_by_name(informers.storage_classes),
            storage_capacities=_by_name(informers.storage_capacities),
            storage_drivers=_by_name(informers.storage_drivers),
            storage_nodes=_by_name(informers.storage_nodes),
            device_classes=_by_name(informers.device_classes),
            device_slices=_by_name(informers.device_slices),
            device_claims=_by_name(informers.device_claims),
            serves_devices=serves_devices,
            disruption_allowances=_allowances(informers.disruption_budgets),
            recent_evictions=self._recent,
            refused_evictions=self._refused_evictions,
            refused_actors=self._refused_actors,
            refused_binds=self._refused_binds,
            utilisation=self._utilisation,
            hyper_nodes=self._hyper_nodes,
            extender=self._extender,
            others={kind: _by_name(informer) for kind, informer in self._plugin_kinds.items()},
        )

    def remember_evictions(self, evictions: Sequence[RecentEviction]) -> None:
        """Count these, and no others."""
        self._recent = tuple(evictions)
        self._is_stale = True

    def set_utilisation(self, pods: Mapping[str, PodUtilisation]) -> None:
        """What pods were last measured to use."""
        self._utilisation = pods
        self._is_stale = True

    def set_hyper_nodes(self, found: Mapping[str, HyperNodeRecord]) -> None:
        """Which nodes are near each other."""
        if found != self._hyper_nodes:
            self._hyper_nodes = found
            self._is_stale = True

    def set_extender(self, answers: ExtenderAnswers | None) -> bool:
        """What an extender said last; whether that is something else than before."""
        if answers == self._extender:
            return False
        self._extender = answers
        self._is_stale = True
        return True

    def hold_back(
        self,
        evictions: Mapping[str, HeldBack],
        actors: Mapping[str, HeldBack],
        binds: Mapping[str, HeldBack],
    ) -> None:
        """What was refused and is not to be decided now: by pod, by beneficiary, by job."""
        held = (evictions, actors, binds)
        if held != (self._refused_evictions, self._refused_actors, self._refused_binds):
            self._refused_evictions, self._refused_actors, self._refused_binds = held
            self._is_stale = True

    def _changed(self, old: object, new: object) -> None:
        self._is_stale = True
        self.on_change()


def _by_name(informer: Informer[T] | None) -> Mapping[str, T]:
    if informer is None:
        return {}
    return {str(key): found for key, found in informer.objects.items()}


def _allowances(
    informer: Informer[PodDisruptionBudget] | None,
) -> Mapping[str, DisruptionAllowance]:
    """What each budget allows now; nothing while its controller has not seen its newest form."""
    found = {}
    for key, budget in informer.objects.items() if informer else ():
        selector = label_selector(budget.spec.selector)
        if selector is None:
            continue  # It covers no pod.
        is_counted = budget.status.observed_generation >= budget.metadata.generation
        allowed = max(budget.status.disruptions_allowed, 0) if is_counted else 0
        found[str(key)] = DisruptionAllowance(key.namespace, selector, allowed)
    return found
