"""Volumes as a scheduler sees them: claims, volumes, classes, CSI limits and capacities."""

from collections.abc import Mapping

import msgspec

from muster.api.core import PersistentVolumeClaimSpec, ResourceList
from muster.api.meta import ApiObject, Struct
from muster.api.quantity import Quantity
from muster.api.selectors import LabelSelector, NodeSelector


class PersistentVolumeClaimStatus(Struct):
    phase: str = ""
    capacity: ResourceList = {}


class PersistentVolumeClaim(ApiObject):
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()

    @property
    def size(self) -> Quantity:
        return self.spec.resources.requests.get("storage", Quantity(0))


class ClaimReference(Struct):
    namespace: str = ""
    name: str = ""
    uid: str = ""


class VolumeNodeAffinity(Struct):
    required: NodeSelector | None = None


class CsiVolumeSource(Struct):
    driver: str = ""
    volume_handle: str = ""


class PersistentVolumeSpec(Struct):
    capacity: ResourceList = {}
    access_modes: tuple[str, ...] = ()
    claim_ref: ClaimReference | None = None
    storage_class_name: str = ""
    volume_mode: str = ""
    node_affinity: VolumeNodeAffinity | None = None
    csi: CsiVolumeSource | None = None


class PersistentVolumeStatus(Struct):
    phase: str = ""


class PersistentVolume(ApiObject):
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()

    @property
    def size(self) -> Quantity:
        return self.spec.capacity.get("storage", Quantity(0))

    @property
    def is_available(self) -> bool:
        """Whether it belongs to no claim."""
        return self.spec.claim_ref is None and self.status.phase in ("", "Available")

    def satisfies(self, claim: PersistentVolumeClaim) -> bool:
        """Whether it is what the claim asks for."""
        spec, wanted = self.spec, claim.spec
        return (
            spec.storage_class_name == (wanted.storage_class_name or "")
            and set(wanted.access_modes) <= set(spec.access_modes)
            and (spec.volume_mode or "Filesystem") == (wanted.volume_mode or "Filesystem")
            and self.size >= claim.size
            and (wanted.selector is None or wanted.selector.matches(self.metadata.labels))
        )


class TopologyLabelRequirement(Struct):
    key: str = ""
    values: tuple[str, ...] = ()


class TopologyTerm(Struct):
    match_label_expressions: tuple[TopologyLabelRequirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(labels.get(need.key) in need.values for need in self.match_label_expressions)


class StorageClass(ApiObject):
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    parameters: Mapping[str, str] = {}
    allowed_topologies: tuple[TopologyTerm, ...] = ()

    @property
    def waits_for_consumer(self) -> bool:
        """Whether a claim is bound only once its pod has a node."""
        return self.volume_binding_mode == "WaitForFirstConsumer"


class VolumeLimit(Struct):
    count: int | None = None


class CSINodeDriver(Struct):
    name: str = ""
    node_id: str = msgspec.field(default="", name="nodeID")
    topology_keys: tuple[str, ...] = ()
    allocatable: VolumeLimit | None = None


class CSINodeSpec(Struct):
    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(ApiObject):
    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(Struct):
    storage_capacity: bool = False
    attach_required: bool = True


class CSIDriver(ApiObject):
    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(ApiObject):
    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None


class AttachmentSource(Struct):
    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(Struct):
    attacher: str = ""
    node_name: str = ""
    source: AttachmentSource = AttachmentSource()


class VolumeAttachment(ApiObject):
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
