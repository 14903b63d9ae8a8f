"""Which struct is which kind on the API server: group, version, plural, scope."""

from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from muster.api import coordination, core, devices, storage
from muster.api.bindrequest import BindRequest
from muster.api.config import Config
from muster.api.noderesourcetopology import NodeResourceTopology
from muster.api.podgroup import PodGroup
from muster.api.queue import Queue
from muster.api.shard import SchedulingShard
from muster.api.topology import Topology

# A struct of the needed fields, or `dict` where the whole object matters.
ObjectT = TypeVar("ObjectT")


@dataclass(frozen=True, slots=True)
class Kind(Generic[ObjectT]):
    """A kind of object and where the API server keeps it."""

    struct: type[ObjectT]
    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def full_name(self) -> str:
        """`podgroups.scheduling.run.ai`, the way CRDs and rights name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "") -> str:
        """The URL path of the collection; without a namespace that of the whole cluster."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        scope = f"/namespaces/{namespace}" if namespace and self.namespaced else ""
        return f"{root}{scope}/{self.plural}"


POD: Final = Kind(core.Pod, "", "v1", "Pod", "pods", True)
NODE: Final = Kind(core.Node, "", "v1", "Node", "nodes", False)
NAMESPACE: Final = Kind(core.Namespace, "", "v1", "Namespace", "namespaces", False)
CONFIG_MAP: Final = Kind(core.ConfigMap, "", "v1", "ConfigMap", "configmaps", True)
EVENT: Final = Kind(coordination.Event, "", "v1", "Event", "events", True)
LEASE: Final = Kind(coordination.Lease, "coordination.k8s.io", "v1", "Lease", "leases", True)
PRIORITY_CLASS: Final = Kind(
    core.PriorityClass, "scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", False
)
POD_DISRUPTION_BUDGET: Final = Kind(
    coordination.PodDisruptionBudget,
    "policy",
    "v1",
    "PodDisruptionBudget",
    "poddisruptionbudgets",
    True,
)
PERSISTENT_VOLUME_CLAIM: Final = Kind(
    storage.PersistentVolumeClaim,
    "",
    "v1",
    "PersistentVolumeClaim",
    "persistentvolumeclaims",
    True,
)
PERSISTENT_VOLUME: Final = Kind(
    storage.PersistentVolume, "", "v1", "PersistentVolume", "persistentvolumes", False
)
STORAGE_CLASS: Final = Kind(
    storage.StorageClass, "storage.k8s.io", "v1", "StorageClass", "storageclasses", False
)
CSI_NODE: Final = Kind(storage.CSINode, "storage.k8s.io", "v1", "CSINode", "csinodes", False)
CSI_DRIVER: Final = Kind(
    storage.CSIDriver, "storage.k8s.io", "v1", "CSIDriver", "csidrivers", False
)
CSI_STORAGE_CAPACITY: Final = Kind(
    storage.CSIStorageCapacity,
    "storage.k8s.io",
    "v1",
    "CSIStorageCapacity",
    "csistoragecapacities",
    True,
)
VOLUME_ATTACHMENT: Final = Kind(
    storage.VolumeAttachment,
    "storage.k8s.io",
    "v1",
    "VolumeAttachment",
    "volumeattachments",
    False,
)
RESOURCE_CLAIM: Final = Kind(
    devices.ResourceClaim, "resource.k8s.io", "v1", "ResourceClaim", "resourceclaims", True
)
RESOURCE_CLAIM_TEMPLATE: Final = Kind(
    devices.ResourceClaimTemplate,
    "resource.k8s.io",
    "v1",
    "ResourceClaimTemplate",
    "resourceclaimtemplates",
    True,
)
RESOURCE_SLICE: Final = Kind(
    devices.ResourceSlice, "resource.k8s.io", "v1", "ResourceSlice", "resourceslices", False
)
DEVICE_CLASS: Final = Kind(
    devices.DeviceClass, "resource.k8s.io", "v1", "DeviceClass", "deviceclasses", False
)
NODE_RESOURCE_TOPOLOGY: Final = Kind(
    NodeResourceTopology,
    "topology.node.k8s.io",
    "v1alpha2",
    "NodeResourceTopology",
    "noderesourcetopologies",
    False,
)

POD_GROUP: Final = Kind(PodGroup, "scheduling.run.ai", "v2alpha2", "PodGroup", "podgroups", True)
QUEUE: Final = Kind(Queue, "scheduling.run.ai", "v2", "Queue", "queues", False)
BIND_REQUEST: Final = Kind(
    BindRequest, "scheduling.run.ai", "v1alpha2", "BindRequest", "bindrequests", True
)
TOPOLOGY: Final = Kind(Topology, "kai.scheduler", "v1alpha1", "Topology", "topologies", False)
SCHEDULING_SHARD: Final = Kind(
    SchedulingShard, "kai.scheduler", "v1", "SchedulingShard", "schedulingshards", False
)
CONFIG: Final = Kind(Config, "kai.scheduler", "v1", "Config", "configs", False)

OURS: Final[tuple[Kind[Any], ...]] = (
    POD_GROUP,
    QUEUE,
    BIND_REQUEST,
    TOPOLOGY,
    SCHEDULING_SHARD,
    CONFIG,
)
"""The six kinds that the product defines."""
